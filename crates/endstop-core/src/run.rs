//! A run: events in, directives out. The only place that decides whether a run continues.
//!
//! At every checkpoint (docs/semantics.md, section 5): if there are signals and no request to continue, stop. With
//! such a request, continue. If the model requested tools, continue. Otherwise stop, completed.

mod ended;
mod judge;
pub mod next_trip;
mod overrides;
pub mod raise;
mod raised;
mod reading;
mod saved;
mod state;
mod unstopped;
pub mod watch;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use crate::directive::{Directive, Status};
use crate::event::{Event, EventKind, NewLimit, Source};
use crate::limits::MAX_REPLY_RETRIES;
use crate::meter::{Frame, Sight, WorstCase};
use crate::policy::Action;
use crate::probe::RunningProbes;
use crate::program::Program;
use crate::signal::{StopReason, StopSignal, StopSignals};
use crate::table::RuleIx;
use crate::trip_record::{PauseRequest, TripRecord, signal_of};
use ended::Ended;
use judge::{Answer, Decision, Judgement, StopCause, answer, judge, standing};
use overrides::Cover;
pub use reading::WindowReset;
pub use saved::{RestoreError, RunState, SaveError, VERSION};
use state::State;
pub use unstopped::UnstoppedRun;

/// A warn rule that began to trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The rule.
    pub rule: String,
    /// The observation, such as `steps is 20 (limit 20)`.
    pub message: String,
}

/// One run of an agent under one policy.
///
/// Not shared between threads; cheap to create: its size is set by the policy. Every method is
/// synchronous and does no I/O.
///
/// A driver asks before anything begins, and obeys:
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::probe::Probes;
/// use endstop_core::signal::StopReason;
/// use endstop_core::units::Millis;
/// use endstop_core::{Directive, Event, EventKind, Policy, Program, Run};
///
/// let policy = Policy::from_toml("[stop]\nsteps = \"steps >= 2\"")?;
/// let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// let begin = Event::new(Millis(0), EventKind::StepBegin);
/// let mut run = Run::new(Arc::clone(&program));
/// assert_eq!(run.observe(&begin), Directive::Proceed);
///
/// // Another process goes on from the saved text.
/// let mut run = Run::restore(program, &run.save()?)?;
/// assert_eq!(run.observe(&begin), Directive::Proceed);
/// assert_eq!(run.observe(&begin), Directive::Stop);
/// assert_eq!((run.step_count(), run.stop_reason()), (2, Some(StopReason::StepsLimitReached)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Run {
    program: Arc<Program>,
    state: State,
    probes: RunningProbes,
    notices: Vec<Notice>,
    /// Whether the state as it is has been judged, in this process; a clock may have moved since without a
    /// comparison that changed.
    judged: bool,
    /// Kept for questions, so that they allocate nothing.
    aside: Frame,
}

impl Run {
    /// Creates a run that has not begun.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        let probes = RunningProbes::start(program.probe_names().rows(), program.probes());
        Self::with_state(State::new(&program), probes, program)
    }

    fn with_state(mut state: State, probes: RunningProbes, program: Arc<Program>) -> Self {
        if !probes.is_empty() {
            state.meter.read_probes(&program, &probes);
        }
        let (notices, aside) = (Vec::new(), Frame::default());
        Self { program, state, probes, notices, judged: false, aside }
    }

    /// Returns a copy that reads as the run does now, and can be saved if the run can. It is for reading only: its probes
    /// keep their last measurements and record nothing further. O(state), which the policy bounds.
    #[must_use]
    pub fn frozen(&self) -> Self {
        Self {
            program: Arc::clone(&self.program),
            state: self.state.clone(),
            probes: self.probes.clone(),
            notices: self.notices.clone(),
            judged: self.judged,
            aside: Frame::default(),
        }
    }

    // Events in, directives out.

    /// Records an event and returns the next directive. O(conditions of the policy); allocates only when something
    /// trips.
    ///
    /// A driver reports [`EventKind::StepBegin`] before the responses of a step. Without it `max_steps` and all
    /// other rules on steps could never trip, so a response of the run itself stops a run that has begun no step,
    /// with [`StopReason::ErrorForbade`] and a message that says so. Responses of descendants do not.
    pub fn observe(&mut self, event: &Event<'_>) -> Directive {
        let goes_on = matches!(event.kind, EventKind::UserMessage | EventKind::StepBegin);
        if !(goes_on && event.source == Source::Own) {
            self.record_end();
        }
        self.hide_next_cost();
        self.state.meter.arrive(event);
        let after_step = self.state.meter.step().is_closed_by(event);
        match event.kind {
            EventKind::Piece { .. } | EventKind::Tick => {
                let changed = self.state.meter.stream(&self.program, &mut self.probes, event);
                if !changed && self.program.is_timed() {
                    self.evaluate();
                }
                // Without changes, the decision of the previous checkpoint stands.
                if !changed && self.judged && self.is_quiet() {
                    return Directive::Proceed;
                }
            }
            _ if judge::is_judged_first(&event.kind) => return self.try_begin(event),
            _ => {
                if after_step {
                    self.state.overrides.lapse();
                }
                self.state.meter.apply(&self.program, &mut self.probes, event);
                self.take_in(event);
                self.settle_late(event);
            }
        }
        self.decide(event, after_step)
    }

    /// Returns the directive that [`Run::observe`] would give for an intention ([`EventKind::is_intention`]), without
    /// beginning, counting or reporting anything: only the clock advances to the event. So a driver can ask every
    /// ancestor before it admits an act of a descendant at any of them. Any other event is answered with
    /// [`Directive::Proceed`]. O(conditions); allocates at the first call, and for policies with finish rules.
    pub fn would_admit(&mut self, event: &Event<'_>) -> Directive {
        if !event.kind.is_intention() {
            return Directive::Proceed;
        }
        self.record_end();
        let (program, meter) = (&self.program, &mut self.state.meter);
        let clocks = *meter.clocks();
        meter.arrive(event);
        // Allocates at the first time only.
        self.aside.clone_from(meter.frame());
        meter.hide_next_cost(program);
        meter.announce(program, event);
        meter.evaluate(program);
        let judgement = judge(&self.program, &self.state, event, false);
        let directive = judgement.decision.directive(event, self.state.meter.step().is_open());
        self.state.meter.take_back(&mut self.aside, &clocks);
        self.evaluate();
        directive
    }

    /// Returns whether a step that begins with `event` would be the wrap-up, if it and the wrap-up after it may spend
    /// what `reserve` says. Nothing begins, like [`Run::would_admit`]; also while a step is open.
    pub fn would_finish(&mut self, reserve: &EventKind<'_>, event: &Event<'_>) -> bool {
        let before = core::mem::replace(&mut self.state.ahead, WorstCase::of(reserve));
        let directive = self.would_admit(event);
        self.state.ahead = before;
        directive == Directive::Finish
    }

    /// Like [`Run::would_admit`], for the time after calls of the tools `before` have begun too: so a driver knows of
    /// an incomplete batch which of its calls will begin.
    pub fn would_admit_after(&mut self, before: &[&str], event: &Event<'_>) -> Directive {
        if before.is_empty() {
            return self.would_admit(event);
        }
        let own = event.source == Source::Own;
        let counted = self.state.meter.count_tools(&self.program, own, before);
        let directive = self.would_admit(event);
        self.state.meter.uncount(counted);
        directive
    }

    /// Judges what is about to begin; counts it if it is admitted.
    fn try_begin(&mut self, event: &Event<'_>) -> Directive {
        let begins_step = matches!(event.kind, EventKind::StepBegin);
        if begins_step && event.source == Source::Own {
            self.revive_completed();
        }
        self.state.meter.announce(&self.program, event);
        if matches!(event.kind, EventKind::HandOff { .. }) {
            self.state.meter.apply(&self.program, &mut self.probes, event);
        }
        if begins_step && self.state.overrides.is_requested() {
            self.state.overrides.use_up(&self.program);
        }
        let directive = self.decide(event, false);
        self.hide_reserve();
        if directive.admits() {
            self.begin(event);
        } else if begins_step && event.source == Source::Own {
            self.state.meter.refuse_step();
        }
        directive
    }

    /// Counts what was admitted.
    fn begin(&mut self, event: &Event<'_>) {
        let begins_step = matches!(event.kind, EventKind::StepBegin);
        let state = &mut self.state;
        if state.status == Status::Pending {
            state.status = Status::InProgress;
        }
        if begins_step && state.overrides.is_requested() {
            state.overrides.count_step();
        }
        if state.meter.step().is_reserve_ahead(event) {
            // Only a finish rule needs it.
            let asks = self.program.has_action(Action::Finish);
            state.ahead = WorstCase::of(&event.kind).filter(|_| asks);
        } else if begins_step && event.source == Source::Own {
            state.ahead = None;
        }
        state.meter.hide_next_cost(&self.program);
        state.meter.begin(&self.program, &mut self.probes, event);
        // From here on, the run shows the same as a restored run would.
        self.evaluate();
        self.judged = false;
    }

    /// Brings every bit up to date. A decision on bits that have changed since does not stand.
    #[inline]
    fn evaluate(&mut self) {
        self.judged &= !self.state.meter.evaluate(&self.program);
    }

    /// Whether nothing stands that a decision would have to weigh.
    #[inline]
    fn is_quiet(&self) -> bool {
        let state = &self.state;
        // Overrides may depend on clocks. Without clocks nothing has changed.
        let is_stopping =
            self.program.is_timed() && Sight::of(&self.program, &state.meter).any_met(Action::Stop);
        state.ended.is_none() && state.raised.is_empty() && !is_stopping
    }

    /// Decides on the state as it is, and does what is decided.
    #[inline]
    fn decide(&mut self, event: &Event<'_>, after_step: bool) -> Directive {
        self.evaluate();
        self.judged = true;
        let judgement = judge(&self.program, &self.state, event, after_step);
        let directive = judgement.decision.directive(event, self.state.meter.step().is_open());
        self.commit(judgement, event);
        directive
    }

    /// Does what was decided.
    #[inline]
    fn commit(&mut self, judgement: Judgement, event: &Event<'_>) {
        let sight = Sight::of(&self.program, &self.state.meter);
        self.state.overrides.forget_rules_that_became_false(|rule| sight.is_met(rule));
        if sight.any_met(Action::Warn) {
            self.note_warnings();
        }
        if judgement.answers {
            self.answer_standing(judgement.natural);
        }
        match judgement.decision {
            Decision::Proceed => {
                let is_reply = matches!(event.kind, EventKind::Reply { .. });
                if is_reply && event.source == Source::Own {
                    self.state.retries_in_row = 0;
                }
            }
            Decision::Refuse => {}
            Decision::Retry => self.state.retries_in_row += 1,
            Decision::Finish(wrap_up) => self.state.wrap_up = Some(*wrap_up),
            Decision::Pause => self.state.status = Status::Paused,
            Decision::Complete => {
                self.state.ended = Some(Ended::by_itself());
                self.state.status = Status::Completed;
            }
            Decision::Stop(cause) => self.stop(cause, event, judgement.natural),
            Decision::Stay => {}
        }
    }

    fn stop(&mut self, cause: StopCause, event: &Event<'_>, natural: bool) {
        let sight = Sight::of(&self.program, &self.state.meter);
        let (raised, natural) = match cause {
            StopCause::Signals => (None, natural),
            StopCause::Exhausted(rule) => (Some((self.exhausted(rule), true)), natural),
            StopCause::Retries(rule) => {
                let mut signal = signal_of(sight, rule);
                signal.message = format!(
                    "asked again {MAX_REPLY_RETRIES} times, without success: {}",
                    signal.message
                );
                (Some((signal, false)), false)
            }
            StopCause::WrapUp(rule) => {
                let foreseen =
                    self.state.wrap_up.as_ref().and_then(|wrap_up| wrap_up.foreseen.clone());
                let signal = match foreseen {
                    Some(foreseen) if !sight.is_met(rule) => foreseen,
                    _ => signal_of(sight, rule),
                };
                (Some((signal, true)), false)
            }
        };
        if self.state.overrides.is_requested()
            && let Some(hard) = standing(sight, natural).find(|rule| sight.is_hard(*rule))
        {
            // It may stand only now, by the worst case of what would begin.
            self.state.overrides.record_impossible(&self.program, &self.state.meter, Some(hard));
        }
        if let Some((signal, is_final)) = raised {
            self.state.raised.raise(signal, is_final);
        }
        let refused =
            event.kind.is_intention().then(|| event.kind.intention_text(self.step_count()));
        let record = self.record(self.standing_signals(natural), refused);
        let ended = Ended::stopped(record);
        self.state.status = Status::after(ended.signal().reason);
        self.state.ended = Some(ended);
    }

    fn exhausted(&self, rule: RuleIx) -> StopSignal {
        let allowance = self.program.rule(rule).overrides;
        let reason = signal_of(Sight::of(&self.program, &self.state.meter), rule).reason;
        let message =
            format!("override limit: {reason} overridden {allowance} times and still standing");
        StopSignal::new(StopReason::ErrorForbade).with_message(message)
    }

    /// Records that the continuation answers every rule that stands.
    fn answer_standing(&mut self, natural: bool) {
        let sight = Sight::of(&self.program, &self.state.meter);
        let possible: Vec<RuleIx> = standing(sight, natural)
            .filter(|rule| self.state.overrides.cover(sight, *rule, false) == Cover::Possible)
            .collect();
        for rule in possible {
            self.state.overrides.answer(&self.program, &self.state.meter, rule);
        }
    }

    fn note_warnings(&mut self) {
        let sight = Sight::of(&self.program, &self.state.meter);
        for rule in sight.met(Action::Warn) {
            let marks = self.state.marks.at_mut(rule);
            if !core::mem::replace(&mut marks.warned, true) {
                let message = signal_of(sight, rule).message;
                self.notices.push(Notice { rule: self.program.rule(rule).id.clone(), message });
            }
        }
    }

    /// A call that was not admitted shows its worst case until the next event: a person decides on it.
    #[inline]
    fn hide_next_cost(&mut self) {
        if self.state.meter.hide_next_cost(&self.program) {
            self.evaluate();
            self.judged = false;
        }
    }

    /// Nothing is held back for a call that has been judged.
    fn hide_reserve(&mut self) {
        if self.state.meter.frame().is_projected() {
            self.state.meter.project(None);
            self.evaluate();
            self.judged = false;
        }
    }

    /// The effect of an event on the run itself, beyond its measurements.
    fn take_in(&mut self, event: &Event<'_>) {
        let person =
            |message: &str| StopSignal::new(StopReason::UserRequested).with_message(message);
        match &event.kind {
            EventKind::UserMessage if event.source == Source::Own => self.revive_completed(),
            EventKind::Cancel { message } => {
                let signal = person(message);
                self.record_after_stop(&signal);
                self.state.raised.cancel(signal);
            }
            EventKind::Kill { message } => {
                let message = if message.is_empty() { "the kill switch is on" } else { message };
                self.raise(person(message).with_source("kill switch"), true);
            }
            EventKind::StopRaised { signal } => {
                let is_final =
                    matches!(signal.reason, StopReason::ErrorForbade | StopReason::UserRequested);
                self.raise((*signal).clone(), is_final);
            }
            EventKind::ContinuationRequested { by } => self.request_continuation(by),
            EventKind::Approved { rule, limit, by, why } => {
                self.approve(rule, limit.as_ref(), by, why);
            }
            EventKind::Reopened { by, .. } if event.source == Source::Own => self.reopen(by),
            // The run may also wait with a tool call, which the driver holds back.
            EventKind::Paused if self.state.pause.is_some() && self.state.ended.is_none() => {
                self.state.status = Status::Paused;
            }
            EventKind::Fact { name, .. }
                if event.source == Source::Own
                    && self.state.status == Status::Paused
                    && self.is_waiting_for(name) =>
            {
                // A rule that still trips pauses it again at once.
                self.state.status = Status::InProgress;
            }
            EventKind::PauseRequested { by, why } if event.source == Source::Own => {
                let request = || PauseRequest { by: (*by).into(), why: (*why).into() };
                self.state.pause.get_or_insert_with(request);
            }
            EventKind::ResumeRequested { .. } if event.source == Source::Own => {
                self.state.pause = None;
                if self.state.status == Status::Paused {
                    // A rule that pauses the run does so again at once.
                    self.state.status = Status::InProgress;
                }
            }
            _ => {}
        }
        let Some(fault) = judge::fault(&self.state.meter, event) else { return };
        if !self.has_raised(StopReason::ErrorForbade) {
            self.raise(StopSignal::new(StopReason::ErrorForbade).with_message(fault), true);
        }
    }

    fn raise(&mut self, signal: StopSignal, is_final: bool) {
        self.record_after_stop(&signal);
        self.state.raised.raise(signal, is_final);
    }

    /// A run that ended naturally continues with a user's next message, or when its driver takes another step.
    fn revive_completed(&mut self) {
        if !self.state.meter.step().is_open() {
            self.state.meter.forget_reply();
        }
        if self.state.ended.as_ref().is_some_and(Ended::is_natural) {
            self.state.ended = None;
            self.state.status = Status::InProgress;
        }
    }

    /// A continuation request: answers everything overridable that stands, a natural end included.
    fn request_continuation(&mut self, by: &str) {
        self.evaluate();
        self.state.overrides.request(by);
        if self.state.raised.clear() {
            self.state.overrides.record(&self.state.meter, None, "raised signals cleared");
        }
        let was_natural = self.state.ended.as_ref().is_some_and(Ended::is_natural);
        let is_final = !self.state.raised.is_empty();
        if is_final {
            self.state.overrides.record_impossible(&self.program, &self.state.meter, None);
        }
        let answered = !is_final && (was_natural || self.answer_rules());
        // The remaining signals are judged again, so that the error of a used-up allowance is among them.
        if self.state.ended.take().is_some() && answered {
            self.state.status = Status::InProgress;
            if was_natural || !self.state.meter.step().is_open() {
                self.state.meter.forget_reply();
            }
        }
    }

    /// Answers every stop rule that stands, or none: whether all of them could be.
    fn answer_rules(&mut self) -> bool {
        match answer(&self.program, &self.state, false, false) {
            Answer::All => {
                self.answer_standing(false);
                true
            }
            Answer::NotAll => {
                let sight = Sight::of(&self.program, &self.state.meter);
                let hard = standing(sight, false).find(|rule| sight.is_hard(*rule));
                self.state.overrides.record_impossible(&self.program, &self.state.meter, hard);
                false
            }
            Answer::Exhausted(rule) => {
                let exhausted = self.exhausted(rule);
                self.state.raised.raise(exhausted, true);
                false
            }
        }
    }

    fn approve(&mut self, id: &str, limit: Option<&NewLimit<'_>>, by: &str, why: &str) {
        let Some(rule) = self.program.rule_of_id(id) else { return };
        let meter = &mut self.state.meter;
        let raised =
            limit.is_some_and(|new| meter.approve(&self.program, rule, new.gauge, new.limit));
        self.state.marks.at_mut(rule).disarmed |= !raised;
        self.state.overrides.record_approval(&self.state.meter, id, limit, (by, why));
        if self.state.status == Status::Paused {
            self.state.status = Status::InProgress;
        }
    }

    fn reopen(&mut self, by: &str) {
        if !self.state.has_stopped() {
            return;
        }
        let is_cut = self.state.raised.clear_for_reopening()
            || self.state.ended.as_ref().is_some_and(Ended::has_late_response);
        self.state.meter.forget_cancellation(&self.program);
        self.evaluate();
        let stands = standing(Sight::of(&self.program, &self.state.meter), false).next().is_some();
        if !stands && self.state.raised.is_empty() {
            self.state.overrides.record_reopening(&self.state.meter, by);
            if is_cut {
                self.state.meter.forget_reply();
            }
            self.state.ended = None;
            self.state.status = Status::InProgress;
        }
    }

    // The end.

    /// Makes the trip record of a run that has just ended naturally, before anything in it changes.
    #[inline]
    fn record_end(&mut self) {
        if self.state.ended.as_ref().is_some_and(Ended::lacks_record) {
            let record = self.natural_end();
            if let Some(ended) = &mut self.state.ended {
                ended.keep(record);
            }
        }
    }

    /// The trip record of a run that has just ended naturally.
    fn natural_end(&self) -> TripRecord {
        self.record(Ended::by_itself().signals(), None)
    }

    fn record(&self, signals: StopSignals, refused: Option<String>) -> TripRecord {
        let sight = Sight::of(&self.program, &self.state.meter);
        let (status, overrides) = (self.state.status, self.state.overrides.history());
        let record = TripRecord::new(sight, status, signals, refused, overrides);
        let pause = self.state.pause.clone();
        TripRecord { signals_dropped: self.state.raised.dropped(), pause, ..record }
    }

    /// Adds calls that were in flight when the run stopped to the trip record once they are settled.
    fn settle_late(&mut self, event: &Event<'_>) {
        let is_response =
            matches!(event.kind, EventKind::Reply { .. } | EventKind::AttemptFailed { .. });
        let settles = is_response || matches!(event.kind, EventKind::ToolCost { .. });
        if settles && let Some(ended) = &mut self.state.ended {
            ended.settle(Sight::of(&self.program, &self.state.meter), is_response);
        }
    }

    /// A signal that comes after the stop was decided is in the record too. The run has ended once nothing of it or of
    /// its descendants is in flight; from then on a signal is late.
    fn record_after_stop(&mut self, signal: &StopSignal) {
        let is_late = !self.state.meter.step().is_anything_open();
        if let Some(ended) = self.state.ended.as_mut().filter(|ended| !ended.is_natural())
            && let Some(status) = ended.add_signal(signal, is_late)
        {
            self.state.status = status;
        }
    }

    /// The signals that stand, raised ones first, in order of arrival.
    fn standing_signals(&self, natural: bool) -> StopSignals {
        let sight = Sight::of(&self.program, &self.state.meter);
        let raised = self.state.raised.signals().cloned();
        raised.chain(standing(sight, natural).map(|rule| signal_of(sight, rule))).collect()
    }

    // Saving and restoring.

    /// Returns the run as JSON text. O(state), which the policy bounds.
    ///
    /// # Errors
    /// Returns an error if a probe is a closure, or its state is too large.
    pub fn save(&self) -> Result<String, SaveError> {
        Ok(self.to_state()?.to_json())
    }

    /// Returns the run as a value that can be saved.
    ///
    /// # Errors
    /// Returns the errors of [`Run::save`].
    pub fn to_state(&self) -> Result<RunState, SaveError> {
        let mut copy = self.frozen();
        copy.record_end();
        RunState::new(&self.program, copy.state, &copy.probes)
    }

    /// Returns a run from its saved text, under `program`, which may be that of a changed policy.
    ///
    /// # Errors
    /// Returns an error if the text is not a saved run, is too long, too new or damaged, or a probe does not read its
    /// state.
    pub fn restore(program: Arc<Program>, text: &str) -> Result<Self, RestoreError> {
        Self::from_state(program, RunState::read(text)?)
    }

    /// Like [`Run::restore`], from the value.
    ///
    /// # Errors
    /// Returns the errors of [`Run::restore`].
    pub fn from_state(program: Arc<Program>, state: RunState) -> Result<Self, RestoreError> {
        let (state, probes) = state.into_parts(&program)?;
        Ok(Self::with_state(state, probes, program))
    }
}
