//! Cancellation: a tree of tokens that carry the reason, and the kill switch.
