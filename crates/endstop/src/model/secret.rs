//! A key that is not shown.

/// A key of a provider. It has neither `Debug` nor `Display`, so that no log shows it.
///
/// ```compile_fail
/// let key = endstop::model::Secret::from("sk-1");
/// println!("{key:?}");
/// ```
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "no log is to show it")]
pub struct Secret(
    #[cfg_attr(not(feature = "models"), expect(dead_code, reason = "only drivers read it"))] String,
);

/// The replacement for a key in a text.
#[cfg(feature = "models")]
const HIDDEN: &str = "[key]";

#[cfg(feature = "models")]
impl Secret {
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without the key.
    pub(super) fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, HIDDEN) }
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Self {
        Self(key)
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}
