//! How long a provider may be silent.

use std::time::Duration;

/// How long a provider may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From sending the request to the first piece of the answer. Connecting is part of it.
    pub first: Duration,
    /// From one piece of the answer to the next.
    pub between: Duration,
}

impl Default for Timeouts {
    /// Ten minutes, for models that reason before they speak, and two minutes.
    fn default() -> Self {
        Self { first: Duration::from_secs(600), between: Duration::from_secs(120) }
    }
}
