//! Cancellation: a tree of tokens that carry the reason, and the kill switch.

/// Stands here until the token tree is in place.
#[derive(Clone, Debug, Default)]
pub struct CancelToken;
