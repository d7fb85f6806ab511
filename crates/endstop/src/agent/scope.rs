//! One run among the runs of a tree: its decision core, its node of the ledger, its token.
//!
//! What a run does is its ancestors' doing too. Whatever begins is asked of every ancestor first, and begins
//! for all of them or for none; whatever is spent is settled for all of them at once. So the cores of a run
//! and its ancestors are locked together, root first; the ledger's lock is taken inside them.

mod chain;
mod ends;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_core::event::{Event, EventKind, Source};
use endstop_core::run::{Directive, Notice, Run, Status};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::TokenUsage;
use endstop_core::wire::v1::trace::Line;
use tokio::time::Instant;

pub(super) use chain::Chain;
use ends::Ends;

use super::keep::Keeper;
use super::source::CancellationSource;
use crate::observe::{Detail, Doubts, Observation, Observer, RunInfo};
use endstop_runtime::cancel::{CancelToken, KillSwitch, Urgency, kill_signal};
use endstop_runtime::clock::{LastWall, RunClock};
use endstop_runtime::ledger::Budget;

/// What all runs of a tree share.
pub(super) struct Shared {
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) kill: Option<Arc<dyn KillSwitch>>,
    /// The token of the root run: a kill reaches every run of the tree.
    pub(super) root: CancelToken,
    /// Keeps the trace of the root run, if it is kept.
    pub(super) keeper: Option<Keeper>,
}

/// What an agent that is not the root brings to end its runs by.
#[derive(Clone)]
pub(super) struct Outside {
    pub(super) kill: Option<Arc<dyn KillSwitch>>,
    pub(super) token: Option<CancelToken>,
}

/// One run of a tree.
pub(crate) struct Scope {
    pub(super) info: RunInfo,
    pub(super) budget: Budget,
    pub(super) token: CancelToken,
    pub(super) clock: RunClock,
    pub(super) parent: Option<Arc<Scope>>,
    pub(super) shared: Arc<Shared>,
    /// Asked at the checkpoints of the run and of those below it.
    pub(super) sources: Vec<Arc<dyn CancellationSource>>,
    /// Cancelled with the token, and by the run's own limits: what is in flight and what runs below hangs
    /// on it. A run that goes on after a limit has a new one.
    in_flight: Mutex<CancelToken>,
    outside: Mutex<Vec<Outside>>,
    /// How long hooks may take since the run was cut.
    late_until: Mutex<Option<Instant>>,
    ends: Ends,
    core: Mutex<Core>,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("info", &self.info).finish_non_exhaustive()
    }
}

/// What is decided and counted of a run.
pub(super) struct Core {
    pub(super) run: Run,
    pub(super) usage: TokenUsage,
    pub(super) is_estimate: bool,
    /// Descendants' calls included.
    pub(super) doubts: Doubts,
    pub(super) events: u64,
    /// Warnings that nobody has read yet.
    pub(super) notices: Vec<Notice>,
    /// Tools that could not be aborted, descendants' included.
    pub(super) still_running: Vec<String>,
    /// Lines of the trace that the store does not have yet, if there is a store.
    pub(super) journal: Option<String>,
    last_wall: LastWall,
}

impl Core {
    pub(super) fn new(run: Run, keeps_journal: bool) -> Self {
        Self {
            run,
            usage: TokenUsage::default(),
            is_estimate: false,
            doubts: Doubts::default(),
            events: 0,
            notices: Vec::new(),
            still_running: Vec::new(),
            journal: keeps_journal.then(String::new),
            last_wall: None,
        }
    }
}

impl Scope {
    pub(super) fn new(
        info: RunInfo,
        budget: Budget,
        token: CancelToken,
        clock: RunClock,
        parent: Option<Arc<Self>>,
        shared: Arc<Shared>,
        core: Core,
    ) -> Self {
        let (sources, core) = (Vec::new(), Mutex::new(core));
        let in_flight = Mutex::new(token.child());
        let (outside, late_until) = (Mutex::default(), Mutex::default());
        Self {
            info,
            budget,
            token,
            clock,
            parent,
            shared,
            sources,
            in_flight,
            outside,
            late_until,
            ends: Ends::default(),
            core,
        }
    }

    /// What else ends the run and those below it, beside what ends the whole tree.
    pub(super) fn heed(&self, outside: Vec<Outside>) {
        *self.outside.lock().unwrap_or_else(PoisonError::into_inner) = outside;
    }

    /// What is in flight and what runs below hangs on this token.
    pub(super) fn in_flight(&self) -> CancelToken {
        self.look_at_in_flight(CancelToken::clone)
    }

    /// As [`Scope::in_flight`], only looked at.
    pub(super) fn look_at_in_flight<T>(&self, look: impl FnOnce(&CancelToken) -> T) -> T {
        look(&self.in_flight.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The run goes on after a limit of its own has cut what was in flight.
    pub(super) fn go_on(&self) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if in_flight.is_cancelled() {
            *in_flight = self.token.child();
        }
        *self.late_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The end of the time that is left to hooks, which begins when it is asked for first.
    pub(super) fn late_until(&self, grace: Duration) -> Instant {
        let mut until = self.late_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until.get_or_insert_with(|| Instant::now() + grace)
    }

    /// The core of this run alone.
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cores of the run and its ancestors.
    pub(super) fn chain(&self) -> Chain<'_> {
        let mut scopes: Vec<&Self> = Vec::new();
        let mut next = self.parent.as_deref();
        while let Some(scope) = next {
            scopes.push(scope);
            next = scope.parent.as_deref();
        }
        let ancestors = scopes.into_iter().rev().map(|scope| (scope, scope.core())).collect();
        let core = self.core();
        // Read under the locks: no core takes in an earlier time after a later one.
        Chain { ancestors, own: self, core, now: Instant::now() }
    }

    /// Whether a budget stands above that of the outermost run.
    pub(super) fn budget_is_shared(&self) -> bool {
        let mut root = self;
        while let Some(parent) = root.parent.as_deref() {
            root = parent;
        }
        root.budget.parent().is_some()
    }

    /// Takes in what happened.
    pub(super) fn tell(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.chain().tell(kind, detail)
    }

    /// As [`Scope::tell`], without more to say.
    pub(super) fn note(&self, kind: &EventKind<'_>) -> Directive {
        self.tell(kind, Detail::None)
    }

    /// Asks whether something may begin.
    pub(super) fn intend(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.chain().intend(kind, detail)
    }

    /// Throws the kill switch for the whole tree if it is thrown outside; that of an agent in it for its runs.
    pub(super) fn look_at_kill_switch(&self) {
        let mut next = Some(self);
        while let Some(scope) = next {
            scope.look_outside();
            next = scope.parent.as_deref();
        }
        if let Some(message) = self.shared.kill.as_ref().and_then(|kill| kill.thrown()) {
            self.shared.root.cancel(kill_signal(message), Urgency::Now);
            self.token.cancel(kill_signal(String::new()), Urgency::Now);
        }
    }

    fn look_outside(&self) {
        let all = self.outside.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for Outside { kill, token } in all {
            if let Some(message) = kill.and_then(|kill| kill.thrown()) {
                self.token.cancel(kill_signal(message), Urgency::Now);
            }
            let cancelled = token.and_then(|token| Some((token.signal()?, token.urgency()?)));
            if let Some((signal, urgency)) = cancelled {
                self.token.cancel((*signal).clone(), urgency);
            }
        }
    }

    /// Whether nothing may be sent or run any more; also if the kill switch was thrown just now.
    pub(super) fn is_cut(&self) -> bool {
        self.look_at_kill_switch();
        self.look_at_in_flight(CancelToken::urgency) == Some(Urgency::Now)
    }

    /// Tells the core of a cancellation that has reached the run. One that is over does not take it.
    pub(super) fn take_cancellation(&self) -> Option<Directive> {
        let signal = self.token.signal()?;
        if is_over(self.core().run.status()) {
            return Some(Directive::Stop);
        }
        Some(self.tell_cancellation(&signal))
    }

    /// As [`Scope::take_cancellation`], of a root run that could go on although it is over, with its next step or
    /// under another policy: what a person has stopped does not.
    pub(super) fn take_late_cancellation(&self) {
        let Some(signal) = self.token.signal() else { return };
        let is_new = {
            let core = self.core();
            is_over(core.run.status()) && !core.run.has_raised(StopReason::UserRequested)
        };
        if is_new && self.parent.is_none() && signal.reason == StopReason::UserRequested {
            self.tell_cancellation(&signal);
        }
    }

    fn tell_cancellation(&self, signal: &StopSignal) -> Directive {
        let is_kill = signal.source.as_deref() == kill_signal(String::new()).source.as_deref();
        let kind = match signal.reason {
            StopReason::UserRequested if is_kill => EventKind::Kill { message: &signal.message },
            StopReason::UserRequested => {
                // The signal keeps source and context; the event says that it was a person.
                self.note(&EventKind::StopRaised { signal });
                EventKind::Cancel { message: &signal.message }
            }
            _ => EventKind::StopRaised { signal },
        };
        self.note(&kind)
    }

    /// The run has stopped: what runs below it is cut.
    pub(super) fn cut_below(&self) {
        let core = self.core();
        self.trip(&core, Directive::CancelNow);
    }

    /// The run has stopped: what runs below it begins nothing more, and is cut where the directive or a limit
    /// in time says so. One that ended by itself may go on.
    pub(super) fn stop_below(&self, directive: Directive) {
        let core = self.core();
        if core.run.stop_reason() != Some(StopReason::Completed) {
            self.trip(&core, directive);
        }
    }

    fn event<'e>(
        &self,
        core: &mut Core,
        now: Instant,
        source: Source,
        kind: &EventKind<'e>,
    ) -> Event<'e> {
        let at = self.clock.at_instant(now);
        let wall = self.clock.wall_at(at, &mut core.last_wall);
        Event { at, wall, source, kind: kind.clone() }
    }

    fn take_in(
        &self,
        core: &mut Core,
        now: Instant,
        source: Source,
        kind: &EventKind<'_>,
        detail: Detail<'_>,
    ) -> Directive {
        let event = self.event(core, now, source, kind);
        let directive = core.run.observe(&event);
        core.events = core.events.saturating_add(1);
        core.doubts.take(kind, detail.is_estimate());
        let notices = core.run.take_notices();
        if let Some(journal) = &mut core.journal {
            let estimate = detail.is_estimate();
            let line = Line { estimate, ..Line::answered(&event, directive) };
            journal.push_str(&serde_json::to_string(&line).unwrap_or_default());
            journal.push('\n');
        }
        let (info, run, budget) = (&self.info, &core.run, &self.budget);
        for observer in &self.shared.observers {
            let seen = Observation { info, event: &event, directive, detail, run, budget };
            // A sink that fails must not end what it watches.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                observer.observe(&seen);
                notices.iter().for_each(|notice| observer.warned(info, notice, run));
            }));
        }
        core.notices.extend(notices);
        directive
    }

    /// A limit of this run was reached below it: the runs below stop for that reason.
    fn trip(&self, core: &Core, directive: Directive) {
        let Some(signal) = core.run.last_stop_signal() else { return };
        let is_urgent =
            directive == Directive::CancelNow || signal.reason == StopReason::TimeLimitReached;
        let urgency = if is_urgent { Urgency::Now } else { Urgency::Graceful };
        let name = &self.info.agent;
        let mut signal = signal.clone();
        signal.source.get_or_insert_with(|| name.clone());
        self.in_flight().cancel(signal, urgency);
    }
}

/// Whether a run with this status has ended.
pub(super) const fn is_over(status: Status) -> bool {
    matches!(status, Status::Completed | Status::Stopped | Status::Failed)
}
