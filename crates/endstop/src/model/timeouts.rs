//! How long a provider may be silent.

use std::time::Duration;

/// The longest silence of a provider.
///
/// ```
/// use std::time::Duration;
/// use endstop::model::{OpenOptions, Timeouts};
///
/// let timeouts = Timeouts { first: Duration::from_secs(60), ..Timeouts::default() };
/// let options = OpenOptions { timeouts, ..OpenOptions::default() };
/// assert_eq!(options.timeouts.between, Duration::from_secs(120));
/// ```
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
