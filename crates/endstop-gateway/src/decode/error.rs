//! Why decoding fails.

use thiserror::Error;

/// Why a compressed response cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DecodeError {
    /// The encoding is not known, or several are stacked.
    #[error("unknown content encoding")]
    Unknown,
    /// The data is broken, or ends early.
    #[error("the compressed data is damaged")]
    Broken,
    /// One part expands to too much.
    #[error("the uncompressed data is too large")]
    TooLarge,
}
