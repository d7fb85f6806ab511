//! A run: events in, directives out. The only place that decides whether a run goes on.
//!
//! At every checkpoint (docs/semantics.md, section 5): if signals stand and no continuation is requested, stop;
//! else if one is requested, go on; else if the model asked for tools, go on; else stop, completed.

mod copy;
mod decide;
mod finish;
pub mod next_trip;
pub mod overrides;
mod read;
mod save;
pub mod watch;
mod would;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::event::{Cap, Event, EventKind, Source};
use crate::meter::Meter;
use crate::meter::project::Ahead;
use crate::policy::Program;
use crate::signal::{StopReason, StopSignal};
use crate::trip_record::TripRecord;
use overrides::Overrides;
pub use save::{MAX_STATE, RestoreError, SaveError};

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Directive {
    /// Go on; what was announced has begun.
    Proceed,
    /// The announced thing does not start and gets a typed result; the run continues. It is a separate directive,
    /// because a sub-agent that is too deep, or a tool call in the wrap-up, must not end the run.
    Refuse,
    /// Drop the reply and ask the model again, within the same step.
    Retry,
    /// Begin the announced step as the last one: tools off, the model is told to answer with what it has.
    Finish,
    /// Save and wait for a person: what was announced does not begin.
    Pause,
    /// Stop: what was announced does not begin.
    Stop,
    /// Stop, and cut what is in flight.
    CancelNow,
}

impl Directive {
    /// Whether what was announced begins.
    #[must_use]
    pub const fn admits(self) -> bool {
        matches!(self, Self::Proceed | Self::Finish | Self::Retry)
    }

    /// Whether the run is to stop.
    #[must_use]
    pub const fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::CancelNow)
    }
}

/// The status of a run (docs/semantics.md, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing has begun.
    #[default]
    Pending,
    /// Steps are taken.
    InProgress,
    /// A person decides.
    Paused,
    /// Ended by itself, or at a condition that means "done".
    Completed,
    /// Made to stop.
    Stopped,
    /// Ended by an error.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: &'static [Self] = &[
        Self::Pending,
        Self::InProgress,
        Self::Paused,
        Self::Completed,
        Self::Stopped,
        Self::Failed,
    ];

    /// The stored and printed form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// The status of a run that ended for `reason`.
    #[must_use]
    pub const fn after(reason: StopReason) -> Self {
        match reason {
            StopReason::ErrorForbade => Self::Failed,
            other if other.is_forced() => Self::Stopped,
            _ => Self::Completed,
        }
    }
}

/// A warn rule that began to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The rule.
    pub rule: String,
    /// What it observed, such as `steps is 20 (limit 20)`.
    pub message: String,
}

/// A raised signal: latched until it is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raised {
    pub(crate) signal: StopSignal,
    /// A person's cancellation, the kill switch or an error: nothing overrides it.
    pub(crate) is_final: bool,
}

/// How a run ended, or will.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// None of a run that ended by itself while nothing has come since: most go on at once with a user's message
    /// or another step, and then nobody has asked for it.
    pub(crate) verdict: Option<Box<TripRecord>>,
    /// It ended by itself: a user's message or another step goes on.
    pub(crate) natural: bool,
}

/// What a run ends by that ends by itself.
static COMPLETED: StopSignal = StopSignal::new(StopReason::Completed);

/// One run of an agent under one policy.
///
/// Not shared between threads; cheap to create: its size is set by the policy. Every method is
/// synchronous and does no I/O.
#[derive(Debug)]
pub struct Run {
    pub(crate) program: Arc<Program>,
    pub(crate) meter: Meter,
    pub(crate) status: Status,
    pub(crate) raised: Vec<Raised>,
    pub(crate) overrides: Overrides,
    /// The finish rule under which the last step runs.
    pub(crate) finishing: Option<usize>,
    /// What the run ends by after a wrap-up that began before its rule held.
    pub(crate) finish_signal: Option<StopSignal>,
    /// What the next own step and the wrap-up after it may spend.
    pub(crate) ahead: Option<Ahead>,
    pub(crate) warned: Box<[bool]>,
    pub(crate) disarmed: Box<[bool]>,
    pub(crate) retries_in_row: u32,
    pub(crate) notices: Vec<Notice>,
    pub(crate) ended: Option<Ended>,
    /// Whether the state as it is has been judged, in this process.
    pub(crate) judged: bool,
}

/// Whether the event is judged before it is counted.
#[inline]
const fn counts_as_intention(kind: &EventKind<'_>) -> bool {
    kind.is_intention() || matches!(kind, EventKind::HandOff { .. })
}

/// Most raised signals that are kept; more than a handful is a driver that does not stop.
const MAX_RAISED: usize = 64;
/// How often in a row a reply is dropped before a retry rule stops the run.
pub const MAX_REPLY_RETRIES: u32 = 2;

impl Run {
    /// A run that has not begun.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        let rules = program.rules.len();
        Self {
            meter: Meter::new(&program),
            status: Status::Pending,
            raised: Vec::new(),
            overrides: Overrides::new(rules),
            finishing: None,
            finish_signal: None,
            ahead: None,
            warned: vec![false; rules].into_boxed_slice(),
            disarmed: vec![false; rules].into_boxed_slice(),
            retries_in_row: 0,
            notices: Vec::new(),
            ended: None,
            judged: false,
            program,
        }
    }

    /// Takes in an event and says what to do next. O(conditions of the policy); allocates only when
    /// something trips.
    pub fn observe(&mut self, event: &Event<'_>) -> Directive {
        let goes_on = matches!(event.kind, EventKind::UserMessage | EventKind::StepBegin);
        if !(goes_on && event.source == Source::Own) {
            self.record_end();
        }
        self.hide_next_cost();
        self.meter.arrive(event);
        let after_step = self.meter.closes_own_step(event);
        match event.kind {
            EventKind::Piece { .. } | EventKind::Tick => {
                let changed = self.meter.stream(&self.program, event);
                // What has not changed was decided at the checkpoint before.
                if !changed && self.judged && self.ended.is_none() && self.raised.is_empty() {
                    return Directive::Proceed;
                }
            }
            _ if counts_as_intention(&event.kind) => return self.intend(event),
            _ => {
                if after_step {
                    self.overrides.lapse();
                }
                self.meter.apply(&self.program, event);
                self.take_in(event);
                self.settle_late(event);
            }
        }
        self.decide(event, after_step)
    }

    /// Makes the trip record of a run that has just ended by itself, before anything changes that it tells of.
    #[inline]
    fn record_end(&mut self) {
        if self.ended.as_ref().is_some_and(|ended| ended.verdict.is_none()) {
            let verdict = Some(Box::new(self.natural_end()));
            self.ended = Some(Ended { verdict, natural: true });
        }
    }

    /// The trip record of a run that has just ended by itself.
    fn natural_end(&self) -> TripRecord {
        TripRecord::new(self, core::iter::once(COMPLETED.clone()).collect(), None)
    }

    /// What was in flight when the run stopped is in the trip record once it is settled.
    fn settle_late(&mut self, event: &Event<'_>) {
        let settles =
            matches!(event.kind, EventKind::Reply { .. } | EventKind::AttemptFailed { .. });
        if settles && let Some(mut ended) = self.ended.take() {
            if let Some(verdict) = &mut ended.verdict {
                verdict.settle(self);
            }
            self.ended = Some(ended);
        }
    }

    /// What an event means for the run itself, beyond what is measured.
    fn take_in(&mut self, event: &Event<'_>) {
        let person =
            |message: &str| StopSignal::new(StopReason::UserRequested).with_message(message);
        match &event.kind {
            EventKind::UserMessage if event.source == Source::Own => self.revive_completed(),
            EventKind::Cancel { message } => self.cancel(person(message)),
            EventKind::Kill { message } => {
                let message =
                    if message.is_empty() { "the kill switch is thrown" } else { message };
                self.raise(person(message).with_source("kill switch"), true);
            }
            EventKind::StopRaised { signal } => {
                let is_final =
                    matches!(signal.reason, StopReason::ErrorForbade | StopReason::UserRequested);
                self.raise((*signal).clone(), is_final);
            }
            EventKind::ContinuationRequested { by } => self.request_continuation(by),
            EventKind::Approved { rule, cap } => self.approve(rule, cap.as_ref()),
            _ => {}
        }
        if self.meter.overflowed
            && !self.raised.iter().any(|r| r.signal.reason == StopReason::ErrorForbade)
        {
            let signal = StopSignal::new(StopReason::ErrorForbade)
                .with_message("an amount passed the largest number that can be counted");
            self.raise(signal, true);
        }
    }

    /// A cancellation that was raised as a signal already is known with its source and context.
    fn cancel(&mut self, signal: StopSignal) {
        let is_same =
            |known: &StopSignal| (known.reason, &known.message) == (signal.reason, &signal.message);
        if !self.raised.iter().any(|raised| is_same(&raised.signal)) {
            self.raise(signal, true);
        }
    }

    fn raise(&mut self, signal: StopSignal, is_final: bool) {
        if self.raised.len() < MAX_RAISED {
            self.raised.push(Raised { signal, is_final });
        }
    }

    /// A run that ended by itself goes on with a user's next message, or where its driver takes another
    /// step.
    fn revive_completed(&mut self) {
        if !self.meter.step.own.open {
            // The last answer ends nothing any more.
            self.meter.step.has_reply = false;
        }
        if self.ended.as_ref().is_some_and(|ended| ended.natural) {
            self.ended = None;
            self.status = Status::InProgress;
        }
    }

    fn approve(&mut self, rule: &str, cap: Option<&Cap<'_>>) {
        let Some(index) = self.program.policy.rules.iter().position(|known| known.id == rule)
        else {
            return;
        };
        let mut capped = false;
        if let Some(cap) = cap {
            for compare in self.meter.compares.iter_mut().filter(|compare| compare.rule == index) {
                let gauge =
                    self.program.gauges.get(compare.gauge).and_then(|slot| slot.gauge.as_ref());
                if gauge.is_some_and(|gauge| gauge.row().name == cap.gauge)
                    && compare.range.is_lower_bound()
                {
                    // An approval lets more pass; it tightens nothing.
                    compare.range.lo = compare.range.lo.max(cap.limit);
                    compare.range.span = u64::MAX - compare.range.lo;
                    self.meter.is_behind = true;
                    capped = true;
                }
            }
        }
        if let Some(disarmed) = self.disarmed.get_mut(index) {
            *disarmed |= !capped;
        }
        self.overrides.record_approval(&self.meter, rule, cap);
        if self.status == Status::Paused {
            self.status = Status::InProgress;
        }
    }
}
