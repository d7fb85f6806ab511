//! Stores of saved runs and their traces.

/// Stands here until the stores are in place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub(crate) String);
