//! The names of runs in a store.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::limits::{MAX_CHILD_ID_BYTES, MAX_RUN_ID_BYTES};

/// Comes before the number of a child. No name of a run has it, and a shell takes it for itself only at the beginning of a word.
const CHILD: char = '~';

/// The id of a run: 1 to [`MAX_RUN_ID_BYTES`] of `A-Z a-z 0-9 . _ -`, and neither `.` nor `..`, so that it
/// is a safe file name and needs no quoting in a shell. The id of a child that a gateway begins has a `~` ([`RunId::child`]), so
/// that no run can be named like it.
///
/// ```
/// use endstop_runtime::store::RunId;
///
/// let first = RunId::new();
/// assert_eq!(RunId::parse(first.as_str())?, first);
/// assert_eq!(RunId::parse("nightly-17")?.to_string(), "nightly-17");
/// assert!(RunId::parse("../secrets").is_err());
/// # Ok::<(), endstop_runtime::store::RunIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct RunId(String);

impl RunId {
    /// Creates a new id: a UUID of version 7, so that ids in order of their text are in order of their time.
    #[must_use]
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Returns the id with this text.
    ///
    /// # Errors
    ///
    /// Returns the error says which rule the text breaks.
    pub fn parse(text: &str) -> Result<Self, RunIdError> {
        if text.is_empty() {
            return Err(RunIdError::Empty);
        }
        if text.len() > MAX_RUN_ID_BYTES {
            return Err(RunIdError::TooLong { bytes: text.len() });
        }
        if let Some(found) = text.chars().find(|c| !is_allowed(*c)) {
            return Err(RunIdError::Character { found });
        }
        if matches!(text, "." | "..") {
            return Err(RunIdError::Directory);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the id of the child with this number: `RUN~NUMBER`. No run has such an id by its name, because
    /// [`RunId::parse`] does not take it.
    ///
    /// # Errors
    ///
    /// Returns an error if it is longer than [`MAX_CHILD_ID_BYTES`].
    ///
    /// ```
    /// use endstop_runtime::store::RunId;
    ///
    /// let child = RunId::parse("nightly-17")?.child(2)?;
    /// assert_eq!(child.as_str(), "nightly-17~2");
    /// assert_eq!(child.child(3)?.as_str(), "nightly-17~2~3");
    /// assert!(RunId::parse(child.as_str()).is_err());
    /// # Ok::<(), endstop_runtime::store::RunIdError>(())
    /// ```
    pub fn child(&self, number: u64) -> Result<Self, RunIdError> {
        let text = format!("{self}{CHILD}{number}");
        match text.len() {
            0..=MAX_CHILD_ID_BYTES => Ok(Self(text)),
            bytes => Err(RunIdError::TooLong { bytes }),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

impl Default for RunId {
    /// A new id.
    fn default() -> Self {
        Self::new()
    }
}

impl Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for RunId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = RunIdError;

    fn from_str(text: &str) -> Result<Self, RunIdError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;

    fn try_from(text: String) -> Result<Self, RunIdError> {
        Self::parse(&text)
    }
}

impl<'de> Deserialize<'de> for RunId {
    /// Reads the id of a run, or of a child.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let mut parts = text.split(CHILD);
        let root = parts.next().unwrap_or_default();
        let mut id = Self::parse(root).map_err(D::Error::custom)?;
        for part in parts {
            let number = part.parse::<u64>().map_err(D::Error::custom)?;
            id = id.child(number).map_err(D::Error::custom)?;
        }
        Ok(id)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

/// Why a text is not the id of a run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunIdError {
    /// There is no text.
    #[error("a run id cannot be empty")]
    Empty,
    /// It is longer than [`MAX_RUN_ID_BYTES`], or [`MAX_CHILD_ID_BYTES`] for a child.
    #[error("a run id has at most {MAX_RUN_ID_BYTES} characters, and this one has {bytes} bytes")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has a character that is not allowed.
    #[error("a run id has only letters, digits, `.`, `_` and `-`, and this one has {found:?}")]
    Character {
        /// The first of them.
        found: char,
    },
    /// It is `.` or `..`.
    #[error("`.` and `..` are directories and cannot be run ids")]
    Directory,
}

#[cfg(test)]
mod tests;
