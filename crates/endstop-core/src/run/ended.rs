//! How a run ended.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::directive::Status;
use crate::meter::Sight;
use crate::signal::{StopReason, StopSignal, StopSignals};
use crate::trip_record::TripRecord;

/// The signal of a run that ended naturally.
static COMPLETED: StopSignal = StopSignal::new(StopReason::Completed);

/// The end of a run, or of as much of it as there has been.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// `None` for a run that ended naturally while nothing has happened since: most continue immediately with a
    /// user's message or another step, and no caller reads the record before that.
    record: Option<Box<TripRecord>>,
    /// It ended naturally: a user's message or another step continues it.
    natural: bool,
    /// A response came after the stop: the stop may have cut it off.
    #[serde(default, skip_serializing_if = "is_false")]
    has_late_response: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Ended {
    /// The run ended naturally; [`keep`](Self::keep) adds the record.
    pub(super) const fn by_itself() -> Self {
        Self { record: None, natural: true, has_late_response: false }
    }

    /// The run was stopped.
    pub(super) fn stopped(record: TripRecord) -> Self {
        Self { record: Some(Box::new(record)), natural: false, has_late_response: false }
    }

    pub(super) const fn is_natural(&self) -> bool {
        self.natural
    }

    pub(super) const fn lacks_record(&self) -> bool {
        self.record.is_none()
    }

    /// Keeps the record of an end that has none.
    pub(super) fn keep(&mut self, record: TripRecord) {
        self.record = Some(Box::new(record));
    }

    pub(super) fn record(&self) -> Option<&TripRecord> {
        self.record.as_deref()
    }

    pub(super) fn into_record(self) -> Option<TripRecord> {
        self.record.map(|record| *record)
    }

    /// A saved end; `None` if its record names no signal.
    pub(super) fn fit(self) -> Option<Self> {
        let is_whole = self.record.as_ref().is_none_or(|record| record.primary.is_some());
        is_whole.then_some(self)
    }

    /// The signal that the run ended by.
    pub(super) fn signal(&self) -> &StopSignal {
        let Some(record) = &self.record else { return &COMPLETED };
        match &record.primary {
            Some(signal) => signal,
            None => unreachable!("a run ends by a signal"),
        }
    }

    /// All signals that stood at the end.
    pub(super) fn signals(&self) -> StopSignals {
        match &self.record {
            Some(record) => record.signals.clone(),
            None => core::iter::once(COMPLETED.clone()).collect(),
        }
    }

    pub(super) const fn has_late_response(&self) -> bool {
        self.has_late_response
    }

    /// Settles work that was in flight at the end: a response of a model, or the cost of a tool.
    pub(super) fn settle(&mut self, sight: Sight<'_>, is_response: bool) {
        self.has_late_response |= is_response && !self.natural;
        if let Some(record) = &mut self.record {
            record.settle(sight);
        }
    }

    /// A signal that came after the stop was decided; the status with it.
    pub(super) fn add_signal(&mut self, signal: &StopSignal, is_late: bool) -> Option<Status> {
        let record = self.record.as_mut()?;
        record.add_signal(signal.clone(), is_late);
        Some(record.status)
    }
}
