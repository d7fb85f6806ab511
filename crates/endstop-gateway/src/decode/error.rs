//! Why decoding fails.

use thiserror::Error;

/// Why a compressed response cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DecodeError {
    /// The encoding is not known, or several are stacked.
    #[error("the encoding is not known")]
    Unknown,
    /// The data is broken, or ends early.
    #[error("the compressed data is broken")]
    Broken,
    /// One part expands to too much.
    #[error("the compressed data holds too much")]
    TooLarge,
}
