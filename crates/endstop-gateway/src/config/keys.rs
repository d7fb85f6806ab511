//! The upstreams' own keys.

use std::fmt;

/// A key. It has no `Display`, and its `Debug` does not show it.
///
/// ```
/// use endstop_gateway::Key;
///
/// let key = Key::new("secret");
/// assert_eq!(format!("{key:?}"), "[key]");
/// assert_eq!(key, Key::new("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// The upstreams' own keys. They take the place of keys that the gateway has issued; a client that sends no
/// such key uses its own.
///
/// ```
/// use endstop_gateway::{Key, UpstreamKeys};
///
/// let set = |name: &str| (name == "OPENAI_API_KEY").then(|| "secret".to_owned());
/// let keys = UpstreamKeys::from_environment(set);
/// assert_eq!((keys.openai, keys.gemini), (Some(Key::new("secret")), None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamKeys {
    /// Sent as `Authorization: Bearer`.
    pub openai: Option<Key>,
    /// Sent as `x-api-key`.
    pub anthropic: Option<Key>,
    /// Sent as `x-goog-api-key`.
    pub gemini: Option<Key>,
}

impl UpstreamKeys {
    /// From `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, and `GEMINI_API_KEY` or `GOOGLE_API_KEY`. Those that are
    /// empty are not there.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Self {
        let key = |name: &str| get(name).filter(|key| !key.is_empty()).map(Key);
        Self {
            openai: key("OPENAI_API_KEY"),
            anthropic: key("ANTHROPIC_API_KEY"),
            gemini: key("GEMINI_API_KEY").or_else(|| key("GOOGLE_API_KEY")),
        }
    }
}
