//! What a client is told whose run has stopped.

use endstop::core::signal::StopSignal;

/// Why a run stopped, in words for a client and its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopText {
    /// The reason's value, such as `cost_limit`.
    pub reason: String,
    /// One sentence with the numbers; never empty.
    pub text: String,
}

impl StopText {
    /// Of the signal that a run ended by.
    #[must_use]
    pub fn of(signal: &StopSignal) -> Self {
        Self {
            reason: signal.reason.to_string(),
            text: format!("Endstop stopped this run: {signal}."),
        }
    }
}
