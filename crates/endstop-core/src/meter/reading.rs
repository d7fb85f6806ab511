//! How far a number that conditions see can be trusted.

use serde::{Deserialize, Serialize};

/// How far a number of the frame can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// Exact.
    Known,
    /// A lower bound: a leaf is unknown unless no addition can change it.
    AtLeast,
    /// Unknown, or no longer valid.
    Unknown,
    /// A lower bound because a price is missing, and the policy stops for that.
    Unpriced,
    /// Not compared at this moment.
    Absent,
}
