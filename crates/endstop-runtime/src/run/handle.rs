//! One run of a tree, for its driver.

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::event::EventKind;
use endstop_core::human::{self, Rounding};
use endstop_core::policy::Action;
use endstop_core::run::next_trip::Resource;
use endstop_core::run::{Directive, Notice, Run, Status};
use endstop_core::signal::StopSignal;
use endstop_core::units::{Cost, Millis, Money, TokenUsage};

use super::environment::{Carried, ExternalStop, RunEnvironment, StopReach};
use super::node::{RunCore, RunNode, Tree, is_over};
use crate::cancel::CancelToken;
use crate::clock::RunClock;
use crate::ledger::{Amounts, Budget, Limits};
use crate::observe::{Detail, Report, RunInfo};
use crate::store::RunId;

/// One run of a tree. Clones are the same run.
///
/// Before an act begins, the driver asks the run and its ancestors ([`RunHandle::try_begin`]). Each event is recorded
/// for all of them ([`RunHandle::record`]). A model call is reserved before it is sent ([`RunHandle::begin_call`])
/// and settled afterwards ([`OpenCall`](crate::OpenCall)). The driver decides nothing: it obeys the directives.
///
/// Methods that are not `async` hold the locks of the run and its ancestors only while they run.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(3));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// use endstop_core::{EventKind, Status};
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::observe::Detail;
///
/// // At most three steps, sub-agents included.
/// let run = RunHandle::root(info, Arc::clone(&program), RunEnvironment::default());
/// run.begin();
/// assert!(run.try_begin(&EventKind::StepBegin, Detail::None).admits());
///
/// run.try_begin(&EventKind::ChildBegin { depth: 1 }, Detail::None);
/// let child = run.child(RunId::new(), "helper", program);
/// child.begin();
/// for _ in 0..2 {
///     assert!(child.try_begin(&EventKind::StepBegin, Detail::None).admits());
/// }
/// assert!(!child.try_begin(&EventKind::StepBegin, Detail::None).admits());
/// assert_eq!((run.status(), child.status()), (Status::Stopped, Status::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunHandle {
    node: Arc<RunNode>,
}

impl RunHandle {
    /// The run of a node.
    pub(crate) const fn of_node(node: Arc<RunNode>) -> Self {
        Self { node }
    }

    /// Creates a root run. [`RunHandle::begin`] begins it.
    #[must_use]
    pub fn root(info: RunInfo, program: Arc<Program>, environment: RunEnvironment) -> Self {
        Self::resumed(info, Run::new(program), Carried::default(), environment)
    }

    /// Creates a root run that continues from a restored core and the counts saved with it. Its own budget starts at
    /// its earlier spend; its ancestors' budgets are not charged, because they count spend while they are shared.
    #[must_use]
    pub fn resumed(info: RunInfo, run: Run, carried: Carried, environment: RunEnvironment) -> Self {
        let is_new = run.status() == Status::Pending;
        let handle = Self::root_of(info, run, carried, environment);
        if !is_new {
            let spent = spent(&handle.node.core());
            handle.node.budget.bring_in(spent);
        }
        handle
    }

    /// Sets how many calls the run and its descendants were charged for before this process.
    pub(crate) fn set_charges(&self, charges: Option<u64>) {
        self.node.core().set_charges(charges);
    }

    /// A root run whose budget has nothing yet of what it spent before.
    pub(crate) fn root_of(
        info: RunInfo,
        run: Run,
        carried: Carried,
        environment: RunEnvironment,
    ) -> Self {
        Self::root_later(info, run, carried, (environment, Millis(0)))
    }

    /// Like [`RunHandle::root_of`], some time after the last event of the run.
    pub(crate) fn root_later(
        info: RunInfo,
        run: Run,
        carried: Carried,
        (environment, later): (RunEnvironment, Millis),
    ) -> Self {
        let limits = limits_of(run.program());
        let budget = match &environment.budget {
            Some(shared) => shared.child(limits),
            None => Budget::root(limits),
        };
        let token = environment.token.as_ref().map_or_else(CancelToken::new, CancelToken::child);
        let clock =
            RunClock::start(Millis(run.at().0.saturating_add(later.0)), environment.wall.clone());
        let tree = Arc::new(Tree::new(environment, token.clone()));
        let core = RunCore::new(run, carried);
        Self::of(Arc::new(RunNode::new(info, budget, (token, clock), None, tree, core)))
    }

    /// Begins a child run with a separate policy that can only narrow. The driver announces it with
    /// [`EventKind::ChildBegin`] in advance, and its end with [`EventKind::ChildEnd`].
    #[must_use]
    pub fn child(&self, id: RunId, agent: &str, program: Arc<Program>) -> Self {
        let parent = &self.node.info;
        let info = RunInfo {
            id,
            parent: Some(parent.id.clone()),
            agent: agent.to_owned(),
            depth: parent.depth.saturating_add(1),
            is_resumed: false,
            ..parent.clone()
        };
        // A limit that an ancestor reaches aborts the calls in flight of its descendants.
        self.child_of(info, program, self.in_flight().child(), None)
    }

    /// Like [`RunHandle::child`], with all that is fixed about the child: its info, its token and its wall clock.
    #[must_use]
    pub fn child_of(
        &self,
        info: RunInfo,
        program: Arc<Program>,
        token: CancelToken,
        wall: Option<crate::clock::WallClock>,
    ) -> Self {
        let budget = self.node.budget.child(limits_of(&program));
        let clock = RunClock::start(Millis(0), wall);
        let core = RunCore::new(Run::new(program), Carried::default());
        let (parent, tree) = (Some(Arc::clone(&self.node)), self.node.tree());
        Self::of(Arc::new(RunNode::new(info, budget, (token, clock), parent, tree, core)))
    }

    pub(crate) const fn of(node: Arc<RunNode>) -> Self {
        Self { node }
    }

    pub(crate) const fn node(&self) -> &Arc<RunNode> {
        &self.node
    }

    /// Returns the facts that are fixed about the run.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.node.info
    }

    /// Returns the run's node of the ledger.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.node.budget
    }

    /// Returns the token that cancels the run and its descendants.
    #[must_use]
    pub fn token(&self) -> &CancelToken {
        self.node.token()
    }

    /// Returns the token that calls in flight depend on. It is cancelled with [`RunHandle::token`], and when limits of
    /// this run are reached. A run that continues after a limit has a new one.
    #[must_use]
    pub fn in_flight(&self) -> CancelToken {
        self.node.in_flight()
    }

    /// Lets the run continue after one of its limits has aborted its calls in flight.
    pub fn renew_in_flight(&self) {
        self.node.renew_in_flight();
    }

    /// Lets the run continue if a budget that it shares with others stopped it, because the limit of that was raised.
    /// Returns whether it continues. The next call asks the budget again. `by` and `why` say who raised it and why.
    pub fn reopen_refused(&self, by: &str, why: &str) -> bool {
        self.record_plain(&EventKind::Reopened { by, why });
        if self.is_over() {
            return false;
        }
        self.node.set_out_of_budget(false);
        self.node.renew_in_flight();
        true
    }

    /// Returns whether nothing may be sent or run now. Checks the kill switch first.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.node.is_aborted()
    }

    /// Replaces the kill switches and tokens that end this run and its descendants, in addition to those of the whole
    /// tree.
    pub fn set_external_stops(&self, stops: Vec<ExternalStop>) {
        self.node.set_external_stops(stops);
    }

    /// Announces the run, once: [`EventKind::RunBegin`].
    pub fn begin(&self) -> Directive {
        self.begin_with(Detail::None)
    }

    /// Like [`RunHandle::begin`], with a detail for observers.
    pub fn begin_with(&self, detail: Detail<'_>) -> Directive {
        let (agent, depth) = (Some(self.node.info.agent.as_str()), self.node.info.depth);
        self.try_begin(&EventKind::RunBegin { agent, depth }, detail)
    }

    /// Admits an event for the run and its ancestors, or for none.
    pub fn try_begin(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.node.chain().try_begin(kind, detail)
    }

    /// Records an event; the ancestors see the part that concerns them. If it stops the run, its descendants stop as
    /// the tree's [`StopReach`] says.
    pub fn record(&self, kind: &EventKind<'_>, detail: Detail<'_>) -> Directive {
        let directive = self.node.record(kind, detail);
        if directive.stops() && self.node.reach() == StopReach::Tree {
            self.node.stop_descendants(directive);
        }
        directive
    }

    /// Like [`RunHandle::record`], without a detail.
    pub fn record_plain(&self, kind: &EventKind<'_>) -> Directive {
        self.record(kind, Detail::None)
    }

    /// Sets the external signal `name` (`signal("name")`, `ExternalSignal`). It stays set. A rule that trips by it stops the
    /// run at once, before its next model call or tool call.
    pub fn signal(&self, name: &str) -> Directive {
        self.signal_by(name, "", "")
    }

    /// Like [`RunHandle::signal`], with who sets it and why, which the trace keeps. Both may be empty.
    pub fn signal_by(&self, name: &str, by: &str, why: &str) -> Directive {
        self.record_plain(&EventKind::Signal { name, by, why })
    }

    /// Returns whether the run and its ancestors would admit the event. Nothing is counted.
    #[must_use]
    pub fn would_admit(&self, kind: &EventKind<'_>) -> bool {
        self.node.chain().would_admit(|_, _| kind.clone())
    }

    /// Returns the directive for a tool call, once calls of the tools `before` had begun. Nothing is counted.
    #[must_use]
    pub fn would_call(&self, before: &[&str], tool: &str) -> Directive {
        self.node.chain().would_admit_after(before, |_, _| EventKind::ToolBegin { tool })
    }

    /// Returns whether a descendant's step is refused only because the run's next step will be its wrap-up, or the
    /// wrap-up is running.
    #[must_use]
    pub fn awaits_wrap_up(&self) -> bool {
        self.node.chain().refuses_step_below()
    }

    /// Aborts the run if its kill switch is on.
    pub fn look_at_kill_switch(&self) {
        self.node.look_at_kill_switch();
    }

    /// Records the cancellations that have reached the run, each once: after the stop, as late signals. A run that
    /// completed does not take them.
    pub fn take_cancellations(&self) {
        self.node.take_cancellations();
    }

    /// Checks the kill switch and cancellations, late ones of a completed run too, and returns the resulting status.
    pub fn checkpoint(&self) -> Status {
        self.node.look_at_kill_switch();
        self.node.take_cancellations();
        self.node.take_late_cancellations();
        self.status()
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.node.core().run.status()
    }

    /// Returns whether the run has ended; one that completed continues with its next step.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_over(self.status())
    }

    /// Reads the core, under its lock.
    pub fn look<T>(&self, look: impl FnOnce(&Run) -> T) -> T {
        look(&self.node.core().run)
    }

    /// Reads the core and its further counts, under one lock.
    pub fn look_at_all<T>(&self, look: impl FnOnce(&Run, &Carried) -> T) -> T {
        let core = self.node.core();
        look(&core.run, core.carried())
    }

    /// Tokens used, descendants' included, and whether some of them are estimates.
    #[must_use]
    pub fn usage(&self) -> (TokenUsage, bool) {
        self.look_at_all(|_, carried| (carried.usage, carried.is_estimate))
    }

    /// Returns the settled cost; unpriced if a call had no price.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.look(|run| run.cost().map_or(Cost::Unpriced, Cost::Known))
    }

    /// Returns the run as it is now. Sub-agents are not in it: a [`Reporter`](crate::observe::Reporter) sees them.
    #[must_use]
    pub fn report(&self) -> Report {
        let (core, budget) = (self.node.core(), &self.node.budget);
        let report = Report::of(&self.node.info, &core.run, budget);
        report.with_uncertainty(&core.run, budget, core.carried().uncertainty.clone())
    }

    /// Takes the warnings that no driver has taken yet.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.node.core().take_notices()
    }

    /// Returns the steps, tokens, money and time that are left, as a sentence that begins with a space; empty if
    /// nothing is limited.
    #[must_use]
    pub fn what_is_left(&self) -> String {
        let core = self.node.core();
        let left =
            |resource| core.run.next_trip(resource, &[Action::Stop]).map(|trip| trip.distance);
        let mut parts = Vec::new();
        if let Some(steps) = left(Resource::Steps) {
            parts.push(human::counted(steps, "step"));
        }
        if let Some(tokens) = left(Resource::Tokens) {
            parts.push(human::tokens(tokens));
        }
        if let Some(picos) = left(Resource::Cost) {
            parts.push(human::money_rounded(Money::from_picos(picos), Rounding::Down));
        }
        if let Some(time) = left(Resource::Time) {
            parts.push(human::duration(Millis(time)));
        }
        if parts.is_empty() { String::new() } else { format!(" Left: {}.", parts.join(", ")) }
    }

    /// Reports a tool that could not be aborted, for the run and its ancestors.
    pub fn add_still_running(&self, tool: &str) {
        self.node.chain().add_still_running(tool);
    }

    /// Raises a stop signal: it latches, here and only here.
    pub fn raise(&self, signal: &StopSignal) -> Directive {
        self.record_plain(&EventKind::StopRaised { signal })
    }

    /// Reports to every observer that the run is over, or paused. They may take their time, and read the run: it
    /// waits for none of them. Ends of one run are reported one after the other. An end that arrives while another is
    /// being reported, by an observer or in another thread, is reported by the caller that reports that one.
    pub fn ended(&self) {
        self.node.report_end();
    }
}

/// The spend of a run that is resumed, as the ledger counts it.
fn spent(core: &RunCore) -> Amounts {
    Amounts {
        steps: core.run.step_count(),
        attempts: core.run.attempts(),
        tool_calls: core.run.tool_calls(),
        tokens: core.carried().usage.total(),
        // Calls without a price count by the policy's rates, if it has some.
        cost: core.run.known_cost(),
    }
}

/// The limits that the ledger holds a run to: the bounds of its policy, which its descendants share. The core knows
/// more exactly, and sooner.
///
/// Limits that are not bounds, such as `cost >= $2 and steps >= 5`, are judged by the core at every reservation, under
/// the locks of all runs concerned. Approvals and raised limits stay within the bounds.
fn limits_of(program: &Program) -> Limits {
    let bounds = program.policy().bounds_of_tree();
    let of = |bound: Option<endstop_core::policy::bounds::Bound>| bound.map(|b| b.with_overrides);
    Limits {
        steps: of(bounds.steps),
        tokens: of(bounds.tokens),
        cost: of(bounds.cost).map(Money::from_picos),
        ..Limits::default()
    }
}
