//! Beginning a run of the loop: its handle in the tree, its journal, what else may end it.

use std::collections::BTreeSet;
use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_core::run::Run;
use endstop_runtime::cancel::{CancelToken, Urgency, watch_kill_switch};
use endstop_runtime::ledger::Limits;
use endstop_runtime::store::{RunLock, Version};
use endstop_runtime::trace::TraceBuffer;
use endstop_runtime::{ExternalStop, RunEnvironment, RunHandle, StopReach};
use tokio::task::JoinSet;

use super::AgentRun;
use crate::agent::context::ContextBound;
use crate::agent::journal::{Journal, Stored};
use crate::agent::node::AgentNode;
use crate::agent::state::AgentState;
use crate::agent::{AgentLoop, ExecuteError, Inner};
use crate::message::Message;
use crate::observe::{Observer, RunInfo};

/// A child run's place below the run that calls it.
pub(in crate::agent) struct ChildArgs {
    pub(in crate::agent) parent: Arc<AgentNode>,
    pub(in crate::agent) token: CancelToken,
}

/// A run that no other run began; `lock` if it is taken already.
pub(in crate::agent) async fn root(
    agent: &AgentLoop,
    state: AgentState,
    lock: Option<RunLock>,
) -> Result<AgentRun, ExecuteError> {
    let inner = &agent.0;
    let state = state.into_execution();
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
    root_at(inner, state, inner.token.as_ref(), stored)
}

/// A root run that is cancelled with `token`.
pub(in crate::agent) fn root_at(
    agent: &Arc<Inner>,
    mut state: AgentState,
    token: Option<&CancelToken>,
    stored: Option<Stored>,
) -> Result<AgentRun, ExecuteError> {
    let (run, is_resumed) = restore(agent, &mut state)?;
    let mut observers = agent.observers.clone();
    let journal = stored.as_ref().map(|stored| {
        let buffer = Arc::new(TraceBuffer::new());
        observers.insert(0, Arc::clone(&buffer) as Arc<dyn Observer>);
        Arc::new(Journal::new(state.id.clone(), buffer, Arc::clone(&stored.store)))
    });
    let environment = RunEnvironment {
        observers,
        kill: agent.kill.clone(),
        token: token.cloned(),
        budget: agent.budget.clone(),
        accounts: agent.accounts.clone(),
        wall: agent.wall.clone(),
        reach: StopReach::Run,
        driver: Some("loop"),
    };
    let carried = state.execution.carried();
    let info = info_of(agent, &mut state, is_resumed);
    let run = RunHandle::resumed(info, run, carried, environment);
    // Executing it again resumes it.
    run.resume("execute", "");
    if std::mem::take(&mut state.execution.is_reopened) || run.look(Run::was_stopped_by_other_rules)
    {
        run.record_plain(&EventKind::Reopened { by: "execute", why: "" });
        if !run.is_over() && matches!(state.messages.last(), Some(Message::Assistant { .. })) {
            // Of a response that was cut: a request that ends with a part of the answer would continue it.
            state.messages.push(Message::system(REOPENED_NOTE));
        }
    }
    if is_resumed && !state.execution.approvals.is_empty() {
        run.budget().set_limits(Limits::unlimited());
    }
    let node = AgentNode { run, sources: agent.sources.clone(), parent: None, journal };
    Ok(agent_run(agent, state, node, stored))
}

/// A run that a tool call of another run begins.
pub(in crate::agent) fn child(
    agent: &Arc<Inner>,
    mut state: AgentState,
    args: ChildArgs,
) -> AgentRun {
    let ChildArgs { parent, token } = args;
    let mut info = info_of(agent, &mut state, false);
    info.parent = Some(parent.run.info().id.clone());
    info.depth = parent.run.info().depth.saturating_add(1);
    let program = Arc::clone(&agent.program);
    let run = parent.run.child_of(info, program, token, agent.wall.clone());
    let journal = parent.journal.clone();
    let node = AgentNode { run, sources: agent.sources.clone(), parent: Some(parent), journal };
    agent_run(agent, state, node, None)
}

/// The note to the model after a response that the stop of the run cut off.
const REOPENED_NOTE: &str = "The run was stopped here, and continues now.";

fn info_of(first: &Arc<Inner>, state: &mut AgentState, is_resumed: bool) -> RunInfo {
    let agent = continuing(first, state);
    state.set_label();
    RunInfo {
        id: state.id.clone(),
        parent: None,
        agent: first.name.clone(),
        model: agent.model.name().to_owned(),
        provider: agent.model.provider().to_owned(),
        depth: 0,
        is_resumed,
    }
}

fn agent_run(
    first: &Arc<Inner>,
    state: AgentState,
    node: AgentNode,
    stored: Option<Stored>,
) -> AgentRun {
    let agent = continuing(first, &state);
    let run = AgentRun {
        context: ContextBound::new(agent.fixed_tokens)
            .knowing(&state.messages, state.execution.context),
        agent,
        first: Arc::clone(first),
        node: Arc::new(node),
        state,
        uses_retry_model: false,
        stored,
        was_over: false,
        unanswered: None,
        continued: (0, 0),
        held_up: None,
        last_limit: None,
    };
    run.run().set_external_stops(external_stops(&run));
    run
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
            // The next act is judged again: the reason of the pause may be gone.
            core.go_on();
            let run = Run::from_state(program, *core)
                .map_err(|error| ExecuteError::Restore { run: state.id.clone(), error })?;
            Ok((run, true))
        }
    }
}

/// Checks everything outside while the run waits; ends with the run.
pub(in crate::agent) struct Watch {
    /// For the agent that began, and for the one that continues.
    tasks: [JoinSet<()>; 2],
    watched: Arc<Inner>,
    token: CancelToken,
}

impl Watch {
    /// The watch of a run that has something to check.
    pub(in crate::agent) fn of(run: &AgentRun) -> Option<Self> {
        let first = &run.first;
        let token = run.run().token().clone();
        let mut watch = Self {
            tasks: [JoinSet::new(), JoinSet::new()],
            watched: Arc::clone(first),
            token: token.clone(),
        };
        let is_root = run.node.parent.is_none();
        let outside = if is_root {
            ExternalStop { kill: first.kill.clone(), token: None }
        } else {
            external_stop_of(first)
        };
        let [tasks, _] = &mut watch.tasks;
        look(tasks, first, outside, &token);
        watch.follow(run);
        Some(watch)
    }

    /// Follows the agent that continues now, in addition to the first one.
    pub(in crate::agent) fn follow(&mut self, run: &AgentRun) {
        let (agent, token) = (&run.agent, run.run().token());
        if Arc::ptr_eq(&self.watched, agent) {
            return;
        }
        self.watched = Arc::clone(agent);
        let [_, tasks] = &mut self.tasks;
        *tasks = JoinSet::new();
        if !Arc::ptr_eq(&run.first, agent) {
            look(tasks, agent, external_stop_of(agent), token);
        }
    }
}

fn external_stop_of(agent: &Inner) -> ExternalStop {
    ExternalStop { kill: agent.kill.clone(), token: agent.token.clone() }
}

/// Further stops of a run, in addition to those of the whole tree: the agent's own as a sub-agent, and those of an
/// agent that took over in a handoff.
pub(super) fn external_stops(run: &AgentRun) -> Vec<ExternalStop> {
    let below = run.node.parent.as_ref().map(|_| external_stop_of(&run.first));
    let is_other = !Arc::ptr_eq(&run.first, &run.agent);
    below.into_iter().chain(is_other.then(|| external_stop_of(&run.agent))).collect()
}

/// Begins to look for an agent at what ends the run whose token it is.
fn look(tasks: &mut JoinSet<()>, agent: &Inner, outside: ExternalStop, token: &CancelToken) {
    if let Some(kill) = outside.kill {
        tasks.spawn(watch_kill_switch(kill, token.clone(), agent.kill_interval));
    }
    if let Some(outer) = outside.token {
        let token = token.clone();
        tasks.spawn(async move {
            outer.cancelled().await;
            let Some(signal) = outer.signal() else { return };
            token.cancel((*signal).clone(), Urgency::Graceful);
            outer.aborted().await;
            for signal in outer.signals() {
                token.cancel((*signal).clone(), Urgency::Now);
            }
        });
    }
    for source in &agent.sources {
        let (source, token) = (Arc::clone(source), token.clone());
        tasks.spawn(async move {
            let signal = source.aborted().await;
            token.cancel(signal, Urgency::Now);
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter_mut().for_each(JoinSet::abort_all);
        // Descendants that still run have no owner after their run is dropped.
        if self.token.urgency().is_none() {
            let signal = endstop_core::signal::StopSignal::new(
                endstop_core::signal::StopReason::StopRequested,
            );
            self.token.cancel(signal.with_message("the run is over"), Urgency::Now);
        }
    }
}
