//! Keys: those that the gateway issues, and the upstreams' own.

use std::fmt;
use std::str::FromStr;

use endstop_runtime::store::{RunId, RunIdError};

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
    /// Creates the key with this text.
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

/// The runs of a key that the gateway has issued.
///
/// ```
/// use endstop_gateway::KeyRuns;
/// use endstop_runtime::store::RunId;
///
/// let one: KeyRuns = "build-1".parse()?;
/// assert_eq!(one, KeyRuns::from(RunId::parse("build-1")?));
/// let many: KeyRuns = "alice-*".parse()?;
/// assert!(many.has(&RunId::parse("alice-17")?));
/// assert!(!many.has(&RunId::parse("alice-")?) && !many.has(&RunId::parse("bob-1")?));
/// # Ok::<(), endstop_runtime::store::RunIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyRuns {
    /// One run, whatever a request says.
    One(RunId),
    /// Every run whose id is longer than this text and begins with it. A request names its run.
    Under(String),
}

impl KeyRuns {
    /// Returns whether a run is one of them.
    #[must_use]
    pub fn has(&self, run: &RunId) -> bool {
        match self {
            Self::One(own) => own == run,
            Self::Under(prefix) => {
                run.as_str().strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.is_empty())
            }
        }
    }
}

impl From<RunId> for KeyRuns {
    fn from(run: RunId) -> Self {
        Self::One(run)
    }
}

impl FromStr for KeyRuns {
    type Err = RunIdError;

    /// Reads the id of a run, or with a `*` after it the beginning of the ids of many. `*` alone stands for all.
    ///
    /// # Errors
    /// Returns an error if it cannot be an id, or the beginning of one.
    fn from_str(text: &str) -> Result<Self, RunIdError> {
        match text.strip_suffix('*') {
            None => Ok(Self::One(RunId::parse(text)?)),
            Some("") => Ok(Self::Under(String::new())),
            Some(prefix) => Ok(Self::Under(String::from(RunId::parse(prefix)?))),
        }
    }
}

impl fmt::Display for KeyRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(run) => run.fmt(f),
            Self::Under(prefix) => write!(f, "{prefix}*"),
        }
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
    /// Reads the keys from `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, and `GEMINI_API_KEY` or `GOOGLE_API_KEY`. An empty variable counts
    /// as missing.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Self {
        let key = |name: &str| get(name).filter(|key| !key.is_empty()).map(Key);
        Self {
            openai: key("OPENAI_API_KEY"),
            anthropic: key("ANTHROPIC_API_KEY"),
            gemini: key("GEMINI_API_KEY").or_else(|| key("GOOGLE_API_KEY")),
        }
    }
}
