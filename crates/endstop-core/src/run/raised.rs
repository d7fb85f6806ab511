//! Signals that were raised: latched until a continuation clears them.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::limits::MAX_RAISED;
use crate::signal::StopSignal;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Raised {
    signal: StopSignal,
    /// A person's cancellation, the kill switch or an error: nothing overrides it.
    #[serde(rename = "final")]
    is_final: bool,
}

/// The raised signals that stand, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RaisedSignals(Vec<Raised>);

impl RaisedSignals {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn signals(&self) -> impl Iterator<Item = &StopSignal> {
        self.0.iter().map(|raised| &raised.signal)
    }

    /// Adds a signal from outside, unless [`MAX_RAISED`] stand.
    pub(super) fn raise(&mut self, signal: StopSignal, is_final: bool) {
        if self.0.len() < MAX_RAISED {
            self.add(signal, is_final);
        }
    }

    /// Adds a signal of the run itself, which may have at most one of each kind.
    pub(super) fn add(&mut self, signal: StopSignal, is_final: bool) {
        self.0.push(Raised { signal, is_final });
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
        let before = self.0.len();
        self.0.retain(|raised| raised.is_final);
        self.0.len() < before
    }

    /// Saved signals, no more than a run keeps.
    pub(super) fn fit(mut self) -> Self {
        self.0.truncate(MAX_RAISED);
        self
    }
}
