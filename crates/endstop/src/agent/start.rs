//! Beginning to drive a run: its scope, its place in the ledger and among the tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use endstop_core::Program;
use endstop_core::run::Run;
use endstop_core::units::Millis;
use tokio::task::JoinSet;

use super::drive::Drive;
use super::keep::{Keeper, Stored};
use super::plan::ContextBound;
use super::scope::{Core, Outside, Scope, Shared};
use super::state::AgentState;
use super::{AgentLoop, ExecuteError, Inner};
use crate::observe::RunInfo;
use endstop_runtime::cancel::{CancelToken, Urgency, watch_kill_switch};
use endstop_runtime::clock::RunClock;
use endstop_runtime::ledger::{Amounts, Budget, Limits};
use endstop_runtime::store::{RunLock, Version};

/// What a run is begun with.
pub(super) struct Place {
    pub(super) parent: Option<Arc<Scope>>,
    pub(super) budget: Budget,
    pub(super) token: CancelToken,
    pub(super) shared: Arc<Shared>,
    pub(super) depth: u32,
}

/// A run that nobody else began; `lock` if it is taken already.
pub(super) async fn root(
    agent: &AgentLoop,
    state: AgentState,
    lock: Option<RunLock>,
) -> Result<Drive, ExecuteError> {
    let inner = &agent.0;
    let token = inner.token.as_ref().map_or_else(CancelToken::new, CancelToken::child);
    let limits = limits_of(&inner.program);
    let budget = match &inner.budget {
        Some(shared) => shared.child(limits),
        None => Budget::root(limits),
    };
    let shared = Arc::new(Shared {
        observers: inner.observers.clone(),
        kill: inner.kill.clone(),
        root: token.clone(),
        keeper: inner.store.clone().map(Keeper::new),
    });
    let place = Place { parent: None, budget, token, shared, depth: 0 };
    let stored = match &inner.store {
        Some(store) => {
            let lock = match lock {
                Some(lock) => lock,
                None => {
                    let lock = store.lock(&state.id).await?;
                    let events = state.execution.events;
                    if !store.read_trace(&state.id, events).await?.is_empty() {
                        return Err(ExecuteError::Outdated { run: state.id, events });
                    }
                    lock
                }
            };
            let version = store.load(&state.id).await?.map_or(Version(0), |stored| stored.version);
            Some(Stored { store: Arc::clone(store), version: Some(version), _lock: lock })
        }
        None => None,
    };
    drive(inner, state, place, stored)
}

/// A run at its place.
pub(super) fn drive(
    agent: &Arc<Inner>,
    mut state: AgentState,
    place: Place,
    stored: Option<Stored>,
) -> Result<Drive, ExecuteError> {
    let (first, agent) = (agent, continuing(agent, &state));
    state.set_label();
    let (run, is_resumed) = restore(first, &mut state)?;
    let before = if is_resumed { run.at() } else { Millis(0) };
    let info = RunInfo {
        id: state.id.clone(),
        parent: place.parent.as_ref().map(|parent| parent.info.id.clone()),
        agent: first.name.clone(),
        model: agent.model.name().to_owned(),
        provider: agent.model.provider().to_owned(),
        depth: place.depth,
        is_resumed,
    };
    let mut core = Core::new(run, stored.is_some());
    core.usage = state.execution.usage;
    core.is_estimate = state.execution.is_estimate;
    core.events = state.execution.events;
    core.still_running.clone_from(&state.execution.still_running);
    if is_resumed {
        place.budget.bring_in(spent(&core));
        if !state.execution.approvals.is_empty() {
            place.budget.set_limits(Limits::unlimited());
        }
    }
    let clock = RunClock::start(before, first.wall.clone());
    let (budget, token, parent) = (place.budget, place.token, place.parent);
    let mut scope = Scope::new(info, budget, token, clock, parent, place.shared, core);
    scope.sources.clone_from(&first.sources);
    let drive = Drive {
        context: ContextBound::new(agent.fixed_tokens)
            .knowing(&state.messages, state.execution.context),
        agent,
        first: Arc::clone(first),
        scope: Arc::new(scope),
        state,
        uses_retry_model: false,
        is_out_of_budget: false,
        is_cancellation_told: false,
        stored,
        continued: (0, 0),
        held_up: None,
        last_cap: None,
    };
    drive.scope.heed(outsides(&drive));
    Ok(drive)
}

/// The agent that continues: the one that was handed to last.
fn continuing(agent: &Arc<Inner>, state: &AgentState) -> Arc<Inner> {
    let is_other = !state.agent.is_empty() && state.agent != agent.name;
    let handed = if is_other { find(agent, &state.agent) } else { None };
    handed.unwrap_or_else(|| Arc::clone(agent))
}

/// The agent of a name among those that a run of `agent` can come to by hand-offs.
pub(super) fn find(agent: &Arc<Inner>, name: &str) -> Option<Arc<Inner>> {
    let mut seen = BTreeSet::new();
    let mut open = vec![agent];
    while let Some(next) = open.pop() {
        if next.name == name {
            return Some(Arc::clone(next));
        }
        if seen.insert(&next.name) {
            open.extend(next.handoffs.values().map(|agent| &agent.0));
        }
    }
    None
}

/// The decision core of a saved state, under the agent's policy of now; a new one for a new run.
fn restore(agent: &Inner, state: &mut AgentState) -> Result<(Run, bool), ExecuteError> {
    let program = Arc::clone(&agent.program);
    match state.execution.core.take() {
        None => Ok((Run::new(program), false)),
        Some(mut core) => {
            // Whatever begins next is judged anew: what held the run up may be gone.
            core.go_on();
            let run = Run::from_state(program, *core)
                .map_err(|error| ExecuteError::Restore { run: state.id.clone(), error })?;
            Ok((run, true))
        }
    }
}

/// What a resumed run has spent already.
pub(super) fn spent(core: &Core) -> Amounts {
    let reading = |gauge: &str| core.run.reading(gauge).unwrap_or(0);
    Amounts {
        steps: reading("steps"),
        attempts: reading("attempts"),
        tool_calls: reading("tool_calls"),
        tokens: core.usage.total(),
        cost: core.run.cost().unwrap_or_default(),
    }
}

/// What the ledger holds a run to: the bounds of its policy, which every run below it shares. The core
/// knows more exactly, and sooner.
///
/// Limits that are not bounds, such as `cost >= $2 and steps >= 5`, are judged by the core at every reservation, under
/// the locks of all runs concerned. After an approval only the core knows the limits.
pub(super) fn limits_of(program: &Program) -> Limits {
    let bounds = program.policy().bounds_of_tree();
    let of = |bound: Option<endstop_core::policy::bounds::Bound>| bound.map(|b| b.with_overrides);
    Limits {
        steps: of(bounds.steps),
        tokens: of(bounds.tokens),
        cost: of(bounds.money).map(endstop_core::units::Money::from_picos),
        ..Limits::default()
    }
}

/// Looks at what is outside while the run waits; ends with the run.
pub(super) struct Watch {
    /// For the agent that began, and for the one that continues.
    tasks: [JoinSet<()>; 2],
    watched: Arc<Inner>,
    token: CancelToken,
}

impl Watch {
    /// Of a run with something to look at.
    pub(super) fn of(drive: &Drive) -> Option<Self> {
        let first = &drive.first;
        let token = drive.scope.token.clone();
        let mut watch = Self {
            tasks: [JoinSet::new(), JoinSet::new()],
            watched: Arc::clone(first),
            token: token.clone(),
        };
        let is_root = drive.scope.parent.is_none();
        let outside = if is_root {
            Outside { kill: drive.scope.shared.kill.clone(), token: None }
        } else {
            outside_of(first)
        };
        let [tasks, _] = &mut watch.tasks;
        look(tasks, first, outside, &token);
        watch.follow(drive);
        Some(watch)
    }

    /// Looks for the agent that continues now, beside the one that began.
    pub(super) fn follow(&mut self, drive: &Drive) {
        let (agent, token) = (&drive.agent, &drive.scope.token);
        if Arc::ptr_eq(&self.watched, agent) {
            return;
        }
        self.watched = Arc::clone(agent);
        let [_, tasks] = &mut self.tasks;
        *tasks = JoinSet::new();
        if !Arc::ptr_eq(&drive.first, agent) {
            look(tasks, agent, outside_of(agent), token);
        }
    }
}

fn outside_of(agent: &Inner) -> Outside {
    Outside { kill: agent.kill.clone(), token: agent.token.clone() }
}

/// What else ends a run than what ends its whole tree: the agent's own below another run, and that of an
/// agent which was handed to.
pub(super) fn outsides(drive: &Drive) -> Vec<Outside> {
    let below = drive.scope.parent.as_ref().map(|_| outside_of(&drive.first));
    let is_other = !Arc::ptr_eq(&drive.first, &drive.agent);
    below.into_iter().chain(is_other.then(|| outside_of(&drive.agent))).collect()
}

/// Begins to look for an agent at what ends the run whose token it is.
fn look(tasks: &mut JoinSet<()>, agent: &Inner, outside: Outside, token: &CancelToken) {
    if let Some(kill) = outside.kill {
        tasks.spawn(watch_kill_switch(kill, token.clone(), agent.kill_interval));
    }
    if let Some(outer) = outside.token {
        let token = token.clone();
        tasks.spawn(async move {
            outer.cancelled().await;
            let Some(signal) = outer.signal() else { return };
            token.cancel((*signal).clone(), Urgency::Graceful);
            outer.cut().await;
            token.cancel((*signal).clone(), Urgency::Now);
        });
    }
    for source in &agent.sources {
        let (source, token) = (Arc::clone(source), token.clone());
        tasks.spawn(async move {
            let signal = source.requested().await;
            token.cancel(signal, Urgency::Now);
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter_mut().for_each(JoinSet::abort_all);
        // Whatever still runs below a run that is dropped is nobody's any more.
        if self.token.urgency().is_none() {
            let signal = endstop_core::signal::StopSignal::new(
                endstop_core::signal::StopReason::StopRequested,
            );
            self.token.cancel(signal.with_message("the run is over"), Urgency::Now);
        }
    }
}
