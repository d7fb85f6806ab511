//! The decision at a checkpoint (docs/semantics.md, section 5): a pure function of the state and the event.
//!
//! [`Run::observe`](super::Run::observe) commits what it says, [`Run::would_admit`](super::Run::would_admit) drops it, and
//! [`Watch`](super::watch::Watch) asks the same questions for many policies.

use alloc::boxed::Box;

use super::next_trip::{Reserved, Resource, room};
use super::overrides::Cover;
use super::state::{State, WrapUp};
use crate::directive::Directive;
use crate::event::{Event, EventKind, Source};
use crate::limits::MAX_REPLY_RETRIES;
use crate::meter::{Frame, Meter, Projection, Reading, Sight};
use crate::policy::Action;
use crate::program::{Class, Part, Program};
use crate::table::RuleIx;
use crate::trip_record::{rests_on_numbers, signal_of};
use crate::units::Money;

/// The decision about an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// Continue; the announced act begins.
    Proceed,
    /// The announced act does not begin.
    Refuse,
    /// The response is dropped and asked for again.
    Retry,
    /// The announced step is the wrap-up. Boxed, because most decisions are others, and are handed on at every checkpoint.
    Finish(Box<WrapUp>),
    /// A person decides.
    Pause,
    /// The run has ended naturally.
    Complete,
    /// The run stops.
    Stop(StopCause),
    /// The run has stopped before.
    Stay,
}

/// Why a run stops now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    /// Signals stand that no continuation answers.
    Signals,
    /// A rule still stands that was overridden as often as it may be.
    Exhausted(RuleIx),
    /// A retry rule still dislikes the response.
    Retries(RuleIx),
    /// The wrap-up that this rule asked for is over.
    WrapUp(RuleIx),
}

/// A decision, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) decision: Decision,
    /// The step has ended naturally: numeric limits alone do not apply.
    pub(super) natural: bool,
    /// The continuation that is requested answers every rule that stands.
    pub(super) answers: bool,
}

impl Decision {
    /// The directive for the driver.
    pub(super) const fn directive(&self, event: &Event<'_>, step_is_open: bool) -> Directive {
        let cuts = matches!(event.kind, EventKind::Cancel { .. } | EventKind::Kill { .. });
        match self {
            Self::Proceed => Directive::Proceed,
            Self::Refuse => Directive::Refuse,
            Self::Retry => Directive::Retry,
            Self::Finish(_) => Directive::Finish,
            Self::Pause => Directive::Pause,
            Self::Complete => Directive::Stop,
            Self::Stop(_) | Self::Stay if cuts && step_is_open => Directive::Abort,
            Self::Stop(_) | Self::Stay => Directive::Stop,
        }
    }
}

/// Whether the event is judged before it is counted.
#[inline]
pub(super) const fn is_judged_first(kind: &EventKind<'_>) -> bool {
    kind.is_intention() || matches!(kind, EventKind::HandOff { .. })
}

/// The fault of an event, after it is counted, for which every run stops under any policy.
pub(super) const fn fault(meter: &Meter, event: &Event<'_>) -> Option<&'static str> {
    if meter.step().is_missed_by(event) {
        Some(RESPONSE_WITHOUT_STEP)
    } else if meter.tallies().has_overflowed() {
        Some("an amount passed the largest number that can be counted")
    } else {
        None
    }
}

/// Whether an event is about a step that has ended naturally. A step in which another act would begin has not.
pub(super) const fn is_natural_end(meter: &Meter, event: &Event<'_>, after_step: bool) -> bool {
    let open = meter.step().is_open() || after_step;
    !is_judged_first(&event.kind) && open && meter.step().ends_naturally()
}

/// Whether a rule trips, and not only on numeric limits if the step ended naturally.
pub(super) fn stands(sight: Sight<'_>, rule: RuleIx, natural: bool) -> bool {
    sight.is_met(rule) && !(natural && rests_on_numbers(sight, rule))
}

/// The stop rules that stand.
pub(super) fn standing(sight: Sight<'_>, natural: bool) -> impl Iterator<Item = RuleIx> {
    sight.met(Action::Stop).filter(move |rule| stands(sight, *rule, natural))
}

/// How far the continuation that is requested answers the rules that stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    All,
    NotAll,
    Exhausted(RuleIx),
}

/// Whether the continuation answers every stop rule that stands; `one_more` says that a step would begin.
pub(super) fn answer(program: &Program, state: &State, natural: bool, one_more: bool) -> Answer {
    let sight = Sight::of(program, &state.meter);
    for rule in standing(sight, natural) {
        match state.overrides.cover(sight, rule, one_more) {
            Cover::Answered | Cover::Possible => {}
            Cover::Refused => return Answer::NotAll,
            Cover::Exhausted => return Answer::Exhausted(rule),
        }
    }
    Answer::All
}

/// Decides on the state as it is; `event` is what it is about.
#[inline]
pub(super) fn judge(
    program: &Program,
    state: &State,
    event: &Event<'_>,
    after_step: bool,
) -> Judgement {
    let sight = Sight::of(program, &state.meter);
    let mut judgement = Judgement { decision: Decision::Stay, natural: false, answers: false };
    if state.has_stopped() {
        // A run that has stopped stays stopped; a cancellation still aborts calls in flight.
        return judgement;
    }
    if !state.raised.is_empty() || sight.any_met(Action::Stop) {
        judgement.natural = is_natural_end(&state.meter, event, after_step);
        if let Some(cause) = stop_cause(program, state, event, &mut judgement) {
            judgement.decision = Decision::Stop(cause);
            return judgement;
        }
    }
    judgement.decision = without_signals(sight, state, event, after_step);
    judgement
}

/// Why the run stops, if signals stand that no continuation answers.
fn stop_cause(
    program: &Program,
    state: &State,
    event: &Event<'_>,
    judgement: &mut Judgement,
) -> Option<StopCause> {
    if !state.raised.is_empty() {
        return Some(StopCause::Signals);
    }
    let natural = judgement.natural;
    if !state.overrides.is_requested() {
        let sight = Sight::of(program, &state.meter);
        return standing(sight, natural).next().map(|_| StopCause::Signals);
    }
    let begins_step = matches!(event.kind, EventKind::StepBegin);
    match answer(program, state, natural, begins_step) {
        Answer::All => {
            judgement.answers = true;
            None
        }
        Answer::NotAll => Some(StopCause::Signals),
        Answer::Exhausted(rule) => Some(StopCause::Exhausted(rule)),
    }
}

fn without_signals(
    sight: Sight<'_>,
    state: &State,
    event: &Event<'_>,
    after_step: bool,
) -> Decision {
    let own = event.source == Source::Own;
    let streams =
        matches!(event.kind, EventKind::Piece { .. } | EventKind::Tick | EventKind::Reply { .. });
    let is_held_back = state.pause.is_some() && is_held_back(&event.kind);
    if is_held_back || !streams && pauses(sight, state, after_step) {
        return Decision::Pause;
    }
    match &event.kind {
        EventKind::StepBegin if own && state.wrap_up.is_none() => finish_rule(sight, state)
            .map_or(Decision::Proceed, |wrap_up| Decision::Finish(Box::new(wrap_up))),
        // Only one step is left: no tools, no sub-agents, no step in parallel or after it.
        EventKind::StepBegin if own => end_of_step(state),
        kind if state.wrap_up.is_some() && is_beside_wrap_up(kind, own) => Decision::Refuse,
        // Steps of descendants would take the room of the one step that is left.
        EventKind::StepBegin => {
            finish_rule(sight, state).map_or(Decision::Proceed, |_| Decision::Refuse)
        }
        EventKind::ChildBegin { depth } if is_too_deep(sight, state, *depth) => Decision::Refuse,
        EventKind::Reply { .. } if own => reply(sight, state),
        _ if after_step || is_end_paused(state, &event.kind) => end_of_step(state),
        _ => Decision::Proceed,
    }
}

/// While only one step is left, tools, sub-agents and parallel steps are refused.
const fn is_beside_wrap_up(kind: &EventKind<'_>, own: bool) -> bool {
    match kind {
        EventKind::StepBegin | EventKind::ChildBegin { .. } => true,
        EventKind::ToolReserve { .. } | EventKind::ToolBegin { .. } => own,
        _ => false,
    }
}

/// Whether a pause or a stop has hidden that the run ended naturally, and has just been approved or taken back.
const fn is_end_paused(state: &State, kind: &EventKind<'_>) -> bool {
    let step = state.meter.step();
    let ends = !step.is_open() && step.ends_naturally();
    let is_back = matches!(kind, EventKind::Approved { .. } | EventKind::Reopened { .. });
    is_back && ends && state.ended.is_none()
}

/// Whether a pause from outside lets nothing of this kind begin.
pub(super) const fn is_held_back(kind: &EventKind<'_>) -> bool {
    matches!(kind, EventKind::StepBegin | EventKind::AttemptBegin { .. })
}

/// Whether a pause rule trips. As for a stop, numeric limits alone do not pause a run that has just ended naturally.
fn pauses(sight: Sight<'_>, state: &State, after_step: bool) -> bool {
    let natural = after_step && state.meter.step().ends_naturally();
    sight.any_met(Action::Pause)
        && sight
            .met(Action::Pause)
            .any(|rule| !state.is_disarmed(rule) && stands(sight, rule, natural))
}

/// A response that a retry rule dislikes is dropped, a few times in a row; then the rule stops the run.
fn reply(sight: Sight<'_>, state: &State) -> Decision {
    match sight.met(Action::Retry).next() {
        None => Decision::Proceed,
        Some(_) if state.retries_in_row < MAX_REPLY_RETRIES => Decision::Retry,
        Some(rule) => Decision::Stop(StopCause::Retries(rule)),
    }
}

fn end_of_step(state: &State) -> Decision {
    match &state.wrap_up {
        Some(wrap_up) => Decision::Stop(StopCause::WrapUp(wrap_up.rule)),
        None if state.meter.step().ends_naturally() => Decision::Complete,
        None => Decision::Proceed,
    }
}

/// A deeper child than a depth rule admits is refused; that rule stops no run.
fn is_too_deep(sight: Sight<'_>, state: &State, child_depth: u32) -> bool {
    let mut gauges = sight.program.gauges_of(Class::Depth).peekable();
    if gauges.peek().is_none() {
        return false;
    }
    let mut trial = sight.frame.clone();
    for gauge in gauges {
        trial.set(gauge, u64::from(child_depth).saturating_sub(1), Reading::Known);
    }
    trial.evaluate(&sight.inputs());
    let sight = sight.through(&trial);
    let is_refused = |rule| state.overrides.cover(sight, rule, false) == Cover::Refused;
    standing(sight, false).any(is_refused)
}

/// The finish rule for which the step that would begin is the last one. Either it trips; or after
/// one more ordinary step, with what that and the wrap-up may spend, it would trip and a stop rule would
/// leave no room; or what they may spend would take it past its own limit on a gauge that no stop rule
/// bounds (docs/semantics.md, section 10).
fn finish_rule(sight: Sight<'_>, state: &State) -> Option<WrapUp> {
    if !sight.program.has_action(Action::Finish) {
        return None;
    }
    if let Some(rule) = sight.met(Action::Finish).next() {
        return Some(WrapUp { rule, foreseen: None });
    }
    let ahead = state.ahead.filter(|_| sight.program.needs_reserve());
    let ahead = ahead.map(|worst| Projection::new(sight.program, &worst, true));
    let mut trial = sight.frame.clone();
    foreseen_by_stop(sight, &mut trial, ahead).or_else(|| foreseen_alone(sight, &mut trial, ahead?))
}

/// One more ordinary step, and what it may spend, would make a stop rule trip.
fn foreseen_by_stop(
    sight: Sight<'_>,
    trial: &mut Frame,
    ahead: Option<Projection>,
) -> Option<WrapUp> {
    for class in [Class::Steps, Class::Attempts, Class::Messages] {
        for gauge in sight.program.gauges_of(class) {
            trial.set_number(gauge, trial.number(gauge).saturating_add(1));
        }
    }
    trial.project(ahead.map(|ahead| ahead.with_finish(|_| true)));
    trial.evaluate(&sight.inputs());
    if !sight.through(trial).any_met(Action::Stop) {
        return None;
    }
    foreseen(sight.through(trial))
}

/// The finish rule would trip on a gauge that no stop rule bounds.
fn foreseen_alone(sight: Sight<'_>, trial: &mut Frame, ahead: Projection) -> Option<WrapUp> {
    trial.clone_from(sight.frame);
    trial.project(Some(ahead.with_finish(|_| true)));
    trial.evaluate(&sight.inputs());
    sight.through(trial).met(Action::Finish).next()?;
    let unbounded = ahead.with_finish(|part| {
        let resource = match part {
            Part::Cost => Resource::Cost,
            Part::Tokens => Resource::Tokens,
            Part::Input => Resource::Input { rate: Money::ZERO },
            Part::Output => Resource::Output { rate: Money::ZERO },
        };
        room(sight, resource, Reserved::default(), &[Action::Stop], |_| false).is_none()
    });
    trial.project(Some(unbounded));
    trial.evaluate(&sight.inputs());
    foreseen(sight.through(trial))
}

fn foreseen(trial: Sight<'_>) -> Option<WrapUp> {
    let rule = trial.met(Action::Finish).next()?;
    Some(WrapUp { rule, foreseen: Some(signal_of(trial, rule)) })
}

/// The message of a run whose driver reports a response without its step.
const RESPONSE_WITHOUT_STEP: &str = "the driver reported a model response outside a step: it has to report \
     `EventKind::StepBegin` before the responses of a step, or no limit on steps can trip";
