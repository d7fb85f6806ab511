//! For drivers of their own: one run among the runs of a tree, as the loop has it, without the loop.
//!
//! A [`DrivenRun`] is a decision core, a node of the ledger and a cancellation token in one. Whatever begins
//! is asked of the run and of all above it ([`DrivenRun::intend`]); whatever happened is told to all of them
//! ([`DrivenRun::tell`]); a model call is reserved before ([`DrivenRun::begin_call`]) and settled after
//! ([`OpenCall`]). The driver decides nothing: it obeys what comes back.
//!
//! Every method is synchronous and holds the locks of the run and its ancestors only while it runs.

mod call;
mod replay;

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_core::run::next_trip::Axis;
use endstop_core::run::{Directive, Notice, Run, Status};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Millis, Money, TokenUsage};

pub use super::pricing::Pricing;
pub use call::{Call, NotBegun, OpenCall, Outcome};
pub use replay::{Replay, Replayed};

use super::approval::caps_of;
use super::scope::{Core, Scope, Shared, is_over};
use super::start::limits_of;
use crate::observe::{Detail, Observer, Report, RunInfo};
use endstop_runtime::cancel::{CancelToken, KillSwitch};
use endstop_runtime::clock::{RunClock, WallClock};
use endstop_runtime::ledger::{Amounts, Budget};
use endstop_runtime::store::RunId;

/// What a tree of runs is begun with, beside its policy. By default there is nothing around it.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// They watch every run of the tree.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Looked at by [`DrivenRun::checkpoint`].
    pub kill: Option<Arc<dyn KillSwitch>>,
    /// What cancels the tree from outside; the tree has a child of it.
    pub token: Option<CancelToken>,
    /// A budget that is shared with other runs.
    pub budget: Option<Budget>,
    /// Wall time; the system's where there is none.
    pub wall: Option<WallClock>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("observers", &self.observers.len())
            .finish_non_exhaustive()
    }
}

/// One run of a tree. Clones are the same run.
#[derive(Clone, Debug)]
pub struct DrivenRun {
    scope: Arc<Scope>,
}

impl DrivenRun {
    /// A run that nobody else began. [`DrivenRun::begin`] begins it.
    #[must_use]
    pub fn root(info: RunInfo, program: Arc<Program>, around: Surroundings) -> Self {
        Self::resumed(info, Run::new(program), TokenUsage::default(), around)
    }

    /// A root run that goes on from a core that was restored or replayed, with the tokens it has used.
    #[must_use]
    pub fn resumed(info: RunInfo, run: Run, usage: TokenUsage, around: Surroundings) -> Self {
        let is_new = run.status() == Status::Pending;
        let driven = Self::root_of(info, run, around);
        let mut core = driven.scope.core();
        core.usage = usage;
        if !is_new {
            driven.scope.budget.bring_in(super::start::spent(&core));
        }
        drop(core);
        driven
    }

    fn root_of(info: RunInfo, run: Run, around: Surroundings) -> Self {
        let limits = limits_of(run.program());
        let budget = match &around.budget {
            Some(shared) => shared.child(limits),
            None => Budget::root(limits),
        };
        let token = around.token.as_ref().map_or_else(CancelToken::new, CancelToken::child);
        let clock = RunClock::start(run.at(), around.wall);
        let core = Core::new(run, false);
        let shared = Arc::new(Shared {
            observers: around.observers,
            kill: around.kill,
            root: token.clone(),
            keeper: None,
        });
        let scope = Scope::new(info, budget, token, clock, None, shared, core);
        Self { scope: Arc::new(scope) }
    }

    /// A run below this one, with a policy of its own that can only narrow. The driver announces it by
    /// [`EventKind::ChildBegin`] before, and tells its end by [`EventKind::ChildEnd`].
    #[must_use]
    pub fn child(&self, id: RunId, agent: &str, program: Arc<Program>) -> Self {
        let parent = &self.scope;
        let info = RunInfo {
            id,
            parent: Some(parent.info.id.clone()),
            agent: agent.to_owned(),
            depth: parent.info.depth.saturating_add(1),
            is_resumed: false,
            ..parent.info.clone()
        };
        let budget = parent.budget.child(limits_of(&program));
        // A limit that is reached above cuts what is in flight below.
        let token = parent.in_flight().child();
        let clock = RunClock::start(Millis(0), None);
        let (parent, shared) = (Some(Arc::clone(parent)), Arc::clone(&parent.shared));
        let core = Core::new(Run::new(program), false);
        Self { scope: Arc::new(Scope::new(info, budget, token, clock, parent, shared, core)) }
    }

    /// What is fixed about the run.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.scope.info
    }

    /// The run's node of the ledger.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.scope.budget
    }

    /// Cancels the run and all below it.
    #[must_use]
    pub fn token(&self) -> &CancelToken {
        &self.scope.token
    }

    /// Cancelled with [`DrivenRun::token`], and by limits of this run that are reached: what is in flight
    /// hangs on it. A run that goes on after a limit has a new one.
    #[must_use]
    pub fn in_flight(&self) -> CancelToken {
        self.scope.in_flight()
    }

    /// Announces the run, once: [`EventKind::RunBegin`].
    pub fn begin(&self) -> Directive {
        let (agent, depth) = (Some(self.scope.info.agent.as_str()), self.scope.info.depth);
        self.intend(&EventKind::RunBegin { agent, depth }, Detail::None)
    }

    /// Asks whether something may begin; it begins for the run and all above it, or for none.
    pub fn intend(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.scope.intend(kind, detail)
    }

    /// Takes in what happened; the runs above see what concerns them. Where it stops the run, nothing more begins
    /// below it; what is in flight there ends by itself, but for a limit in time or a cancellation, which cut it.
    pub fn tell(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        let directive = self.scope.tell(kind, detail);
        if directive.stops() {
            self.scope.stop_below(directive);
        }
        directive
    }

    /// Whether the run and all above it would let this begin. Nothing is counted.
    #[must_use]
    pub fn would(&self, kind: &EventKind<'_>) -> bool {
        self.scope.chain().would(|_, _| kind.clone())
    }

    /// What would become of a tool call, once calls of the tools `before` had begun. Nothing is counted.
    #[must_use]
    pub fn would_call(&self, before: &[&str], tool: &str) -> Directive {
        self.scope.chain().would_after(before, |_, _| EventKind::ToolBegin { tool })
    }

    /// Whether a step below is refused only because the run's next one is to be its wrap-up, or is it already.
    #[must_use]
    pub fn awaits_wrap_up(&self) -> bool {
        self.scope.chain().refuses_step_below()
    }

    /// Looks at the kill switch and at cancellations, and tells where the run stands then.
    pub fn checkpoint(&self) -> Status {
        self.scope.look_at_kill_switch();
        if self.scope.token.is_cancelled() {
            self.scope.take_cancellation();
            self.scope.take_late_cancellation();
        }
        self.status()
    }

    /// A timer fired: what trips by time alone trips, and cuts what is in flight.
    pub fn tick(&self) -> Directive {
        self.tell(&EventKind::Tick, Detail::None)
    }

    /// When the next stop rule of the run or of one above it can trip by time alone, from now.
    #[must_use]
    pub fn next_limit_in_time(&self) -> Option<Millis> {
        let mut next = Some(&self.scope);
        let mut least: Option<u64> = None;
        while let Some(scope) = next {
            let trip = scope.core().run.next_trip(Axis::Time, &[Action::Stop]);
            least = least.into_iter().chain(trip.map(|trip| trip.distance)).min();
            next = scope.parent.as_ref();
        }
        least.map(Millis)
    }

    /// Where the run stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.scope.core().run.status()
    }

    /// Whether the run has ended; one that ended by itself goes on with its next step.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_over(self.status())
    }

    /// Looks at the core, under its lock.
    pub fn look<T>(&self, look: impl FnOnce(&Run) -> T) -> T {
        look(&self.scope.core().run)
    }

    /// Tokens used, descendants' included, and whether some of them are estimates.
    #[must_use]
    pub fn usage(&self) -> (TokenUsage, bool) {
        let core = self.scope.core();
        (core.usage, core.is_estimate)
    }

    /// The run as it stands. The sub-agents are not in it: a [`Reporter`](crate::observe::Reporter) sees them.
    #[must_use]
    pub fn report(&self) -> Report {
        let (core, budget) = (self.scope.core(), &self.scope.budget);
        Report::of(&self.scope.info, &core.run, budget).with_doubts(&core.run, budget, core.doubts)
    }

    /// Warnings that nobody has read yet.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.scope.core().notices)
    }

    /// What is left of steps, tokens, money and time, as a sentence that begins with a space; empty where
    /// nothing is limited.
    #[must_use]
    pub fn what_is_left(&self) -> String {
        self.scope.what_is_left()
    }

    /// Raises a signal: it latches, here and only here.
    pub fn raise(&self, signal: &StopSignal) -> Directive {
        self.tell(&EventKind::StopRaised { signal }, Detail::None)
    }

    /// A person approves a pause rule: it no longer holds up the run, or does so again where its money has
    /// reached the cap. Not approved is a rule that names no money, where a cap is given; then it says so.
    pub fn approve(&self, rule: &str, cap: Option<Money>) -> bool {
        let program = self.look(|run| Arc::clone(run.program()));
        let Some(known) = program.policy().rule(rule) else { return false };
        let caps = caps_of(Some(known), cap);
        for cap in &caps {
            self.tell(&EventKind::Approved { rule, cap: *cap }, Detail::None);
        }
        if !caps.is_empty() {
            // From here on the core alone knows the limits.
            self.scope.budget.set_limits(endstop_runtime::ledger::Limits::unlimited());
        }
        !caps.is_empty()
    }

    /// Tells every observer that the run is over, or paused. They may take their time, and look at the run: it
    /// waits for none of them. Ends of one run are told one after the other; one that comes while another is being
    /// told, by an observer or in another thread, is told by whoever tells that one.
    pub fn ended(&self) {
        self.scope.tell_end();
    }

    /// Lets a step begin, whose call is known, for the run and all above it. `Finish`: it begins as the
    /// wrap-up. Where it does not begin, the run says why: also where the budget that is shared with other runs has
    /// no room for the call, which then is no step of this one.
    pub fn begin_step(&self, call: &Call<'_>) -> Directive {
        if self.scope.budget_is_shared() && self.would(&EventKind::StepBegin) {
            let plan = self.plan(call);
            let checked = self.scope.chain().check_shared(&plan);
            if let Err(why) = checked {
                self.not_admitted(&why, call.pricing.model());
                return Directive::Stop;
            }
        }
        let needs_look_ahead = self
            .look(|run| run.program().needs_reserve() && run.program().has_action(Action::Finish));
        if needs_look_ahead {
            let plan = self.plan(call);
            self.scope.chain().look_ahead(&plan);
        }
        let one = Amounts { steps: 1, ..Amounts::default() };
        let reserved = self.scope.budget.reserve(one);
        // A limit of a rule shows in the cores, which know it more exactly.
        let directive = match &reserved {
            Err(refused) if self.would(&EventKind::StepBegin) => {
                self.refused_by_ledger(refused);
                return Directive::Stop;
            }
            _ => self.scope.intend(&EventKind::StepBegin, Detail::None),
        };
        match reserved {
            Ok(hold) if directive.admits() => hold.settle(one),
            Ok(hold) => hold.release(),
            Err(_) => {}
        }
        if directive == Directive::Refuse {
            let signal = StopSignal::new(StopReason::StopRequested).with_message(
                "no step can begin now: a run above is about to answer with what it has",
            );
            return self.raise(&signal);
        }
        directive
    }

    /// What is settled of money; unknown where a call had no price.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.look(|run| run.cost().map_or(Cost::Unpriced, Cost::Known))
    }
}
