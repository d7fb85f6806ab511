//! Signals that were raised: latched until a continuation clears them.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_RAISED;
use crate::signal::{BUDGET_SOURCE, LIMIT_SOURCE, StopReason, StopSignal};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Raised {
    signal: StopSignal,
    /// A person's cancellation, the kill switch or an error: nothing overrides it.
    #[serde(rename = "final")]
    is_final: bool,
}

/// The raised signals that stand, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RaisedSignals {
    standing: Vec<Raised>,
    /// Signals that were dropped, because too many stood.
    dropped: u64,
}

impl RaisedSignals {
    pub(super) const fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    pub(super) fn signals(&self) -> impl Iterator<Item = &StopSignal> {
        self.standing.iter().map(|raised| &raised.signal)
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a signal. Beyond [`MAX_RAISED`] the least authoritative one is dropped, of equal ones the last, but no final
    /// one while a signal of another kind remains.
    pub(super) fn raise(&mut self, signal: StopSignal, is_final: bool) {
        self.standing.push(Raised { signal, is_final });
        if self.standing.len() > MAX_RAISED {
            let rank = |raised: &Raised| (!raised.is_final, raised.signal.rank());
            let least = self.standing.iter().enumerate().max_by_key(|(_, raised)| rank(raised));
            if let Some((place, _)) = least {
                self.standing.remove(place);
                self.dropped = self.dropped.saturating_add(1);
            }
        }
    }

    /// Adds a cancellation. One that was raised as a signal already is known with its source and context.
    pub(super) fn cancel(&mut self, signal: StopSignal) {
        let is_same =
            |known: &StopSignal| (known.reason, &known.message) == (signal.reason, &signal.message);
        if !self.signals().any(is_same) {
            self.raise(signal, true);
        }
    }

    /// Clears the signals that a continuation answers; whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        let before = self.standing.len();
        self.standing.retain(|raised| raised.is_final);
        self.standing.len() < before
    }

    /// Clears what a reopening takes back: cancellations, refusals of a shared budget, and stops for responses that a limit
    /// cut off. Whether there were such responses.
    pub(super) fn clear_for_reopening(&mut self) -> bool {
        let is_cut = self.signals().any(is_of_limit);
        self.standing.retain(|raised| {
            raised.signal.reason != StopReason::UserRequested
                && raised.signal.source.as_deref() != Some(BUDGET_SOURCE)
                && !is_of_limit(&raised.signal)
        });
        is_cut
    }

    /// Whether only limits of the policy stand here, by responses that they cut off.
    pub(super) fn are_of_limits(&self) -> bool {
        self.signals().all(is_of_limit)
    }

    /// Saved signals, no more than a run keeps.
    pub(super) fn fit(mut self) -> Self {
        self.standing.truncate(MAX_RAISED);
        self
    }
}

/// Whether the driver raised it because a limit cut a response off.
fn is_of_limit(signal: &StopSignal) -> bool {
    signal.source.as_deref() == Some(LIMIT_SOURCE)
}
