//! What can be read of a run: where it stands, what it has used, what is left, why it ended.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{COMPLETED, Ended, Notice, Run, Status};
use crate::meter::Reading;
use crate::meter::counters::{Counter, NAMES};
use crate::policy::program::Read;
use crate::policy::{Action, Program};
use crate::run::next_trip::{Axis, NextTrip, Reserved};
use crate::signal::{ExecutionContinuation, StopReason, StopSignal, StopSignals};
use crate::trip_record::TripRecord;
use crate::units::{Millis, Money};

impl Run {
    /// Where the run stands.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Why the run ended; [`StopReason::Completed`] if it ended by itself, `None` while it goes on.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.last_stop_signal().map(|signal| signal.reason)
    }

    /// The signal that the run ended by.
    #[must_use]
    pub fn last_stop_signal(&self) -> Option<&StopSignal> {
        let ended = self.ended.as_ref()?;
        ended.verdict.as_ref().map_or(Some(&COMPLETED), |verdict| verdict.primary.as_ref())
    }

    /// Whether a signal of this reason was raised and stands, whatever the run ended by.
    #[must_use]
    pub fn has_raised(&self, reason: StopReason) -> bool {
        self.raised.iter().any(|raised| raised.signal.reason == reason)
    }

    /// Steps begun, descendants included.
    #[must_use]
    pub fn step_count(&self) -> u64 {
        self.meter.totals.get(Counter::Steps)
    }

    /// Tokens settled, descendants included.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.meter.totals.get(Counter::Tokens)
    }

    /// Money settled, descendants included; `None` once a call without a price was made.
    #[must_use]
    pub fn cost(&self) -> Option<Money> {
        let unpriced = self.meter.unpriced
            && self.program.policy.unpriced() != crate::policy::OnUnpriced::Ignore;
        (!unpriced).then(|| Money::from_picos(self.meter.totals.get(Counter::Cost)))
    }

    /// The offset of the last event: where a resumed run's clock goes on.
    #[must_use]
    pub const fn at(&self) -> Millis {
        self.meter.clocks.at
    }

    /// Takes the warnings that have come up since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.notices)
    }

    /// The signals that stand now and whether a continuation is requested.
    #[must_use]
    pub fn continuation(&self) -> ExecutionContinuation {
        let stop_signals: StopSignals = match &self.ended {
            Some(Ended { verdict: Some(verdict), .. }) => verdict.signals.clone(),
            Some(_) => core::iter::once(COMPLETED.clone()).collect(),
            None => self.standing_signals(false),
        };
        ExecutionContinuation {
            stop_signals,
            is_continuation_requested: self.overrides.is_requested(),
        }
    }

    /// The trip record: of the stop if the run has stopped, else of now.
    #[must_use]
    pub fn trip_record(&self) -> TripRecord {
        match &self.ended {
            Some(Ended { verdict: Some(verdict), .. }) => (**verdict).clone(),
            Some(_) => self.natural_end(),
            None => TripRecord::new(self, self.standing_signals(false), None),
        }
    }

    /// As [`Run::trip_record`], of a run that is no longer needed: nothing is copied.
    #[must_use]
    pub fn into_trip_record(mut self) -> TripRecord {
        self.record_end();
        match self.ended.take() {
            Some(Ended { verdict: Some(verdict), .. }) => *verdict,
            _ => self.trip_record(),
        }
    }

    /// The trip record as text.
    #[must_use]
    pub fn explain(&self) -> String {
        alloc::format!("{}", self.trip_record())
    }

    /// The least value at or after the present one on `axis` at which a rule of `actions` holds.
    /// Computed once a step: O(leaves²) of the policy, and it allocates.
    #[must_use]
    pub fn next_trip(&self, axis: Axis, actions: &[Action]) -> Option<NextTrip> {
        self.room(axis, Reserved::default(), actions)
    }

    /// As [`Run::next_trip`], as if `reserved` were settled by the run itself: what fits beside it. A limit
    /// admits exactly itself, so an amount of that distance still fits; 0 says that nothing more does.
    #[must_use]
    pub fn room(&self, axis: Axis, reserved: Reserved, actions: &[Action]) -> Option<NextTrip> {
        let (program, meter) = (&self.program, &self.meter);
        let disarmed = &self.disarmed;
        crate::run::next_trip::next_trip(program, meter, axis, reserved, actions, disarmed)
    }

    /// The policy that it runs under, compiled.
    #[must_use]
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The finish rule under which the last step runs.
    #[must_use]
    pub fn finishing(&self) -> Option<&str> {
        self.program.policy.rules.get(self.finishing?).map(|rule| rule.id.as_str())
    }

    /// A number by the name of its gauge, such as `steps` or `own.cost`, as it is now and in the gauge's
    /// unit. None where it is not known in full, and for gauges that are not counted in every run: these
    /// are all but the counts, tokens, `context_tokens`, `cost`, `elapsed`, `active`, `idle` and `depth`.
    #[must_use]
    pub fn reading(&self, gauge: &str) -> Option<u64> {
        let (own, name) = match gauge.strip_prefix("own.") {
            Some(name) => (true, name),
            None => (false, gauge),
        };
        let meter = &self.meter;
        let counters = if own { &meter.own } else { &meter.totals };
        let index = match name {
            "cost" => Counter::Cost as usize,
            "cost_picos" => return None,
            name => match NAMES.iter().position(|known| *known == name) {
                Some(index) => index,
                None if own => return None,
                None => return self.moment(name),
            },
        };
        let (no_price, no_tokens) = if own {
            (meter.own_unpriced, meter.own_tokens_unknown)
        } else {
            (meter.unpriced, meter.tokens_unknown)
        };
        let is_known = match name {
            "cost" => meter.cost_reading(&self.program, no_price) == Reading::Known,
            name => !(name.ends_with("tokens") && no_tokens),
        };
        is_known.then(|| counters.at(index))
    }

    /// What is a number of the moment and no counter.
    fn moment(&self, name: &str) -> Option<u64> {
        let read = match name {
            "context_tokens" if self.meter.context_unknown => return None,
            "context_tokens" => Read::Context,
            "elapsed" => Read::Elapsed,
            "active" => Read::Active,
            "idle" => Read::Idle,
            "depth" => Read::Depth,
            _ => return None,
        };
        Some(self.meter.read(read))
    }
}
