//! The readings of a run. Nothing here changes it, except notices that are returned once.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::ended::Ended;
use super::judge::{is_held_back, standing};
use super::next_trip::{NextTrip, Reserved, Resource, next_trip, next_trips, room};
use super::{Notice, Run};
use crate::condition::gauge::{quota_fact, reset_fact};
use crate::counter::Counter;
use crate::directive::Status;
use crate::event::EventKind;
use crate::meter::{Frame, Sight};
use crate::policy::{Action, Rule};
use crate::program::{Class, Program, Read};
use crate::signal::{ExecutionContinuation, StopReason, StopSignal, StopSignals};
use crate::table::RuleIx;
use crate::trip_record::{PauseRequest, TripRecord};
use crate::units::{Millis, Money, WallTime};

/// A window of a subscription, and when it resets.
///
/// See the example of [`Run::next_reset`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowReset {
    /// The window, such as `5h`.
    pub window: String,
    /// The time at which its use begins again at zero.
    pub at: WallTime,
}

impl Run {
    /// Returns the status of the run.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.state.status
    }

    /// Returns whether a pause from outside lets nothing of this kind begin.
    #[must_use]
    pub const fn holds_back(&self, kind: &EventKind<'_>) -> bool {
        self.state.pause.is_some() && is_held_back(kind)
    }

    /// Returns the pause from outside, if there is one. The status is [`Status::Paused`] from the time on at which it
    /// held something back.
    #[must_use]
    pub const fn pause_request(&self) -> Option<&PauseRequest> {
        self.state.pause.as_ref()
    }

    /// Returns the next reset for which a paused run waits: the earliest of those windows that its pause rules with
    /// [`resumes_at_reset`](crate::policy::Rule::resumes_at_reset) compare. Once it has passed, the driver reports
    /// [`quota_fact`] as 0. `None` if a person has to decide, or no provider has reported when the windows reset.
    ///
    /// ```
    /// use endstop_core::condition::gauge::{quota_fact, reset_fact};
    /// use endstop_core::units::{Millis, WallTime};
    /// use endstop_core::{Event, EventKind, Policy, Program, Run, Status, probe::Probes};
    /// use std::sync::Arc;
    ///
    /// let policy = "unbounded = true\n[pause]\nplan = 'quota(\"5h\") >= 90%'\n[rule.plan]\nresume = \"reset\"";
    /// let program = Program::new(&Policy::from_toml(policy)?, &Probes::new())?;
    /// let mut run = Run::new(Arc::new(program));
    /// let mut report = |name: String, value| {
    ///     run.observe(&Event::new(Millis(0), EventKind::Fact { name: &name, value }));
    ///     (run.status(), run.next_reset().map(|reset| reset.at))
    /// };
    /// report(reset_fact("5h"), 1_795_000_000_000);
    /// let waiting = (Status::Paused, Some(WallTime(1_795_000_000_000)));
    /// assert_eq!(report(quota_fact("5h"), 9_100), waiting);
    /// assert_eq!(report(quota_fact("5h"), 0), (Status::InProgress, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn next_reset(&self) -> Option<WindowReset> {
        if self.state.status != Status::Paused || self.state.pause.is_some() {
            return None;
        }
        let meter = &self.state.meter;
        let reported = |name: &str| meter.reported(&self.program, name);
        let rules = Sight::of(&self.program, meter)
            .met(Action::Pause)
            .filter(|rule| !self.state.is_disarmed(*rule))
            .map(|rule| self.program.rule(rule))
            .filter(|rule| rule.resumes_at_reset);
        let used = rules
            .flat_map(Rule::windows)
            .filter(|window| reported(&quota_fact(window)).is_some_and(|used| used > 0));
        // Zero means that the run has already waited for this reset.
        let reset_of = |window| reported(&reset_fact(window)).filter(|at| *at > 0);
        let resets = used.filter_map(|window| Some((reset_of(window)?, window)));
        let (at, window) = resets.min()?;
        Some(WindowReset { window: window.to_string(), at: WallTime(at) })
    }

    /// Whether a pause rule waits for a report of this name: the use of a window that resets.
    pub(super) fn is_waiting_for(&self, name: &str) -> bool {
        let waiting = self.program.policy().rules.iter().filter(|rule| rule.resumes_at_reset);
        let mut windows = waiting.flat_map(Rule::windows);
        self.state.pause.is_none() && windows.any(|window| quota_fact(window) == name)
    }

    /// Returns why the run ended: [`StopReason::Completed`] if it ended naturally, `None` while it continues.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.last_stop_signal().map(|signal| signal.reason)
    }

    /// Returns whether the run has ended naturally. A rule or a raised signal with the reason `completed` is a stop.
    #[must_use]
    pub fn ended_by_itself(&self) -> bool {
        self.state.ended.as_ref().is_some_and(Ended::is_natural)
    }

    /// Returns whether rules of another policy than the present one stopped the run, and nothing stops it now: a limit
    /// was raised while the run was saved. [`EventKind::Reopened`] lets it continue. O(conditions); allocates.
    #[must_use]
    pub fn was_stopped_by_other_rules(&self) -> bool {
        let Some(record) = self.state.ended.as_ref().and_then(Ended::record) else { return false };
        if self.ended_by_itself() || !self.state.raised.are_of_limits() {
            return false;
        }
        let sight = Sight::of(&self.program, &self.state.meter);
        let now = self.record(StopSignals::default(), None);
        standing(sight, false).next().is_none() && !record.rests_on_a_rule_of(&now)
    }

    /// Returns the signal that the run ended by.
    #[must_use]
    pub fn last_stop_signal(&self) -> Option<&StopSignal> {
        self.state.ended.as_ref().map(Ended::signal)
    }

    /// Returns whether a signal of this reason was raised and stands, whatever the run ended by.
    #[must_use]
    pub fn has_raised(&self, reason: StopReason) -> bool {
        self.state.raised.signals().any(|signal| signal.reason == reason)
    }

    /// Returns the number of steps begun, descendants included.
    #[must_use]
    pub const fn step_count(&self) -> u64 {
        self.state.meter.tallies().total(Counter::Steps)
    }

    /// Returns the settled tokens, descendants included.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.state.meter.tallies().total(Counter::Tokens)
    }

    /// Returns the settled cost, descendants included; `None` once a call without a price was made.
    #[must_use]
    pub fn cost(&self) -> Option<Money> {
        self.state.meter.is_cost_known(&self.program, false).then(|| self.known_cost())
    }

    /// Returns the known settled cost, descendants included: without the calls that had no price.
    #[must_use]
    pub const fn known_cost(&self) -> Money {
        Money::from_picos(self.state.meter.tallies().total(Counter::Cost))
    }

    /// Returns the number of model requests sent, descendants included.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.state.meter.tallies().total(Counter::Attempts)
    }

    /// Returns the number of tool calls begun, descendants included.
    #[must_use]
    pub const fn tool_calls(&self) -> u64 {
        self.state.meter.tallies().total(Counter::ToolCalls)
    }

    /// Returns the offset of the last event: where a resumed run's clock continues.
    #[must_use]
    pub const fn at(&self) -> Millis {
        self.state.meter.clocks().at()
    }

    /// Takes the warnings since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.notices)
    }

    /// Returns the signals that stand now and whether a continuation is requested.
    #[must_use]
    pub fn continuation(&self) -> ExecutionContinuation {
        let stop_signals: StopSignals = match &self.state.ended {
            Some(ended) => ended.signals(),
            None => self.standing_signals(false),
        };
        let is_continuation_requested = self.state.overrides.is_requested();
        ExecutionContinuation { stop_signals, is_continuation_requested }
    }

    /// Returns the trip record: of the stop if the run has stopped, and of the current state if not.
    #[must_use]
    pub fn trip_record(&self) -> TripRecord {
        match &self.state.ended {
            Some(ended) => ended.record().cloned().unwrap_or_else(|| self.natural_end()),
            None => self.record(self.standing_signals(false), None),
        }
    }

    /// Like [`Run::trip_record`], but consumes the run, so nothing is copied.
    #[must_use]
    pub fn into_trip_record(mut self) -> TripRecord {
        self.record_end();
        let record = self.state.ended.take().and_then(Ended::into_record);
        record.unwrap_or_else(|| self.trip_record())
    }

    /// Returns the trip record as text.
    #[must_use]
    pub fn explain(&self) -> String {
        self.trip_record().to_string()
    }

    /// Returns the least value at or after the present one on `resource` at which a rule of `actions` trips.
    /// Computed once a step: O(leaves²) of the policy, and it allocates.
    #[must_use]
    pub fn next_trip(&self, resource: Resource, actions: &[Action]) -> Option<NextTrip> {
        let frame = self.frame_for(resource);
        let sight = Sight::of(&self.program, &self.state.meter).through(&frame);
        next_trip(sight, resource, actions, |rule| self.is_pause_approved(rule))
    }

    /// Like [`Run::next_trip`], for each rule alone, in the order of the policy. Rules that do not read what `resource`
    /// moves are left out. O(rules · leaves²) of the policy.
    #[must_use]
    pub fn next_trips(&self, resource: Resource, actions: &[Action]) -> Vec<NextTrip> {
        let frame = self.frame_for(resource);
        let sight = Sight::of(&self.program, &self.state.meter).through(&frame);
        next_trips(sight, resource, actions, |rule| self.is_pause_approved(rule))
    }

    /// Like [`Run::next_trip`], but as if the run itself had settled `reserved`: the room next to it. Rules that do not
    /// read what `resource` moves are left out: they trip whatever is spent. A limit admits exactly itself, so an amount
    /// of that distance still fits; 0 says that nothing more does.
    #[must_use]
    pub fn room(
        &self,
        resource: Resource,
        reserved: Reserved,
        actions: &[Action],
    ) -> Option<NextTrip> {
        let frame = self.frame_for(resource);
        let sight = Sight::of(&self.program, &self.state.meter).through(&frame);
        room(sight, resource, reserved, actions, |rule| self.is_pause_approved(rule))
    }

    /// A person has approved the pause of the rule permanently.
    pub(super) fn is_pause_approved(&self, rule: RuleIx) -> bool {
        self.program.rule(rule).action == Action::Pause && self.state.is_disarmed(rule)
    }

    /// The frame with which distances along a resource are measured.
    fn frame_for(&self, resource: Resource) -> Frame {
        let sight = Sight::of(&self.program, &self.state.meter);
        let is_between_steps = !self.state.meter.step().is_open();
        // Time passes without a request, and only a request has tokens and money compared.
        let concerned = |class: Class| match resource {
            Resource::Time => is_between_steps && class.is_count(),
            _ => class == Class::Settled,
        };
        sight.frame.as_now(&self.state.meter, &self.program, concerned)
    }

    /// Returns the policy that it runs under, compiled.
    #[must_use]
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Returns the finish rule under which the last step runs.
    #[must_use]
    pub fn finishing(&self) -> Option<&str> {
        let wrap_up = self.state.wrap_up.as_ref()?;
        Some(&self.program.rule(wrap_up.rule).id)
    }

    /// Returns a number by the name of its gauge, such as `steps` or `own.cost`, as it is now and in the gauge's
    /// unit. `None` if it is not known in full, and for gauges that are not counted in every run: these
    /// are all but the counts, tokens, `context_tokens`, `cost`, `elapsed`, `active`, `idle` and `depth`.
    #[must_use]
    pub fn gauge(&self, gauge: &str) -> Option<u64> {
        let (own, name) = match gauge.strip_prefix("own.") {
            Some(name) => (true, name),
            None => (false, gauge),
        };
        let meter = &self.state.meter;
        let is_named = |counter: &Counter| match counter {
            Counter::Cost => name == "cost",
            counter => counter.name() == name,
        };
        if let Some(counter) = Counter::ALL.into_iter().find(is_named) {
            let tally = meter.tallies().of(own);
            let is_known = match counter {
                Counter::Cost => meter.is_cost_known(&self.program, own),
                counter => !(counter.is_of_tokens() && tally.lacks_tokens()),
            };
            return is_known.then(|| tally.get(counter));
        }
        match name {
            _ if own => None,
            "context_tokens" => meter.context_tokens(),
            "elapsed" => Some(meter.read(Read::Elapsed)),
            "active" => Some(meter.read(Read::Active)),
            "idle" => Some(meter.read(Read::Idle)),
            "depth" => Some(meter.read(Read::Depth)),
            _ => None,
        }
    }
}
