//! The words that a client gets when its run has stopped.

use endstop_core::signal::StopSignal;
use endstop_llm::StopText;

/// Returns the text of the stop signal that a run ended by.
pub(crate) fn stop_text(signal: &StopSignal) -> StopText {
    StopText {
        reason: signal.reason.to_string(),
        text: format!("Endstop stopped this run: {signal}."),
    }
}
