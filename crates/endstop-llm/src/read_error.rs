//! Why a request or a response cannot be read.

use std::str::Utf8Error;

use thiserror::Error;

use crate::json::{JsonError, SpliceError};
use crate::limits::MAX_FALLBACKS;

/// Why a request or a response cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The body is not text.
    #[error(transparent)]
    Utf8(#[from] Utf8Error),
    /// The body is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The body is JSON of another kind.
    #[error("not a JSON object")]
    NotAnObject,
    /// The object cannot be changed in its place.
    #[error("not a readable JSON object")]
    UnreadableObject,
    /// An object has more members than are read.
    #[error("an object has too many members")]
    TooManyMembers,
    /// More models may answer in the model's stead than are priced.
    #[error("more than {MAX_FALLBACKS} fallback models")]
    TooManyFallbacks,
    /// A key that decides money or routing is spelled in another way, which some servers read and others do not.
    #[error("`{key}` has to be written as `{known}`")]
    Misspelled {
        /// The key.
        key: String,
        /// Its spelling, or several with `or` between them.
        known: String,
    },
    /// A key that decides money or routing is there twice, and servers differ in which they read.
    #[error("`{0}` appears twice")]
    Duplicate(String),
    /// A value is not a whole number, or too small.
    #[error("`{key}` is not a whole number of at least {least}")]
    NotACount {
        /// The key.
        key: String,
        /// The least number that is allowed.
        least: u64,
    },
    /// A value is not a truth value.
    #[error("`{0}` is neither true nor false")]
    NotABool(String),
    /// The body is not a response of this API.
    #[error("not a response of {0}")]
    NotAResponse(&'static str),
}

impl From<SpliceError> for ReadError {
    fn from(error: SpliceError) -> Self {
        match error {
            SpliceError::Utf8(error) => Self::Utf8(error),
            SpliceError::Json(error) => Self::Json(error),
            SpliceError::NoObject => Self::UnreadableObject,
        }
    }
}
