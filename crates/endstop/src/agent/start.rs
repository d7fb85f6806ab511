//! Beginning to drive a run: its scope, its place in the ledger and among the tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use endstop_core::policy::Program;
use endstop_core::run::{Run, Status};
use endstop_core::units::Millis;

use super::drive::Drive;
use super::keep::{Keeper, Stored};
use super::plan::ContextBound;
use super::scope::{Core, Scope, Shared};
use super::state::AgentState;
use super::{AgentLoop, ExecuteError, Inner};
use crate::cancel::{CancelToken, Urgency, watch_kill_switch};
use crate::clock::RunClock;
use crate::ledger::{Amounts, Budget, Limits};
use crate::observe::RunInfo;
use crate::store::{RunLock, Version};

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
                None => store.lock(&state.id).await?,
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
        place.budget.charge(spent(&core));
        if !state.execution.approvals.is_empty() {
            place.budget.set_limits(Limits::unlimited());
        }
    }
    let clock = RunClock::start(before, first.wall.clone());
    let (budget, token, parent) = (place.budget, place.token, place.parent);
    let mut scope = Scope::new(info, budget, token, clock, parent, place.shared, core);
    scope.sources.clone_from(&first.sources);
    Ok(Drive {
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
        handoff: None,
        held_up: None,
        last_cap: None,
    })
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
            if core.status == Status::Paused {
                // Whatever begins next is judged anew: what held the run up may be gone.
                core.status = Status::InProgress;
            }
            let run = Run::from_state(program, *core)
                .map_err(|error| ExecuteError::Restore { run: state.id.clone(), error })?;
            Ok((run, true))
        }
    }
}

/// What a resumed run has spent already.
fn spent(core: &Core) -> Amounts {
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
    tasks: tokio::task::JoinSet<()>,
    token: CancelToken,
}

impl Watch {
    /// Of a root run with something to look at.
    pub(super) fn of(drive: &Drive) -> Option<Self> {
        let mut tasks = tokio::task::JoinSet::new();
        let token = drive.scope.token.clone();
        let agent = &drive.agent;
        let kill = drive.scope.shared.kill.clone();
        if let Some(kill) = kill.filter(|_| drive.scope.parent.is_none()) {
            tasks.spawn(watch_kill_switch(kill, token.clone(), agent.kill_interval));
        }
        for source in &agent.sources {
            let (source, token) = (Arc::clone(source), token.clone());
            tasks.spawn(async move {
                let signal = source.requested().await;
                token.cancel(signal, Urgency::Now);
            });
        }
        Some(Self { tasks, token })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.abort_all();
        // Whatever still runs below a run that is dropped is nobody's any more.
        if self.token.urgency().is_none() {
            let signal = endstop_core::signal::StopSignal::new(
                endstop_core::signal::StopReason::StopRequested,
            );
            self.token.cancel(signal.with_message("the run is over"), Urgency::Now);
        }
    }
}
