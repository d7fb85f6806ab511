//! Resuming a stored run: its state, and what its trace says beyond that state.

use std::sync::Arc;

use endstop_core::run::Run;

use super::state::{AgentState, ToolExecution};
use super::{AgentLoop, ExecuteError};
use crate::message::{Message, ToolOutcome};
use endstop_runtime::Carried;
use endstop_runtime::observe::RunInfo;
use endstop_runtime::store::{RunId, RunLock, stored_lines};
use endstop_runtime::trace::{Replay, trace_line};

/// Reads a run back, under its lock. Work that a dead process had started is ended: a request that was sent and not
/// settled is charged its worst case, a tool call counts as failed, the step is closed.
pub(super) async fn load(
    agent: &AgentLoop,
    id: &RunId,
) -> Result<(AgentState, RunLock), ExecuteError> {
    let Some(store) = &agent.0.store else {
        return Err(ExecuteError::NoStore(agent.name().to_owned()));
    };
    // The process that drives the run is not dead.
    let lock = store.lock(id).await?;
    let Some(stored) = store.load(id).await? else {
        return Err(ExecuteError::NoRun(id.clone()));
    };
    let mut state = AgentState::from_json(&stored.text)?;
    let events = state.execution.events;
    let lines = stored_lines(&**store, id, events).await?;
    if lines.is_empty() {
        if events > 0 && store.read_trace(id, 0).await?.is_empty() {
            return Err(ExecuteError::NoTrace { run: id.clone(), events });
        }
        return Ok((state, lock));
    }
    let program = Arc::clone(agent.program());
    let run = match state.execution.core.take() {
        Some(core) => Run::from_state(program, *core)
            .map_err(|error| ExecuteError::Restore { run: id.clone(), error })?,
        None => Run::new(program),
    };
    let was_open = state.execution.open_step.take().is_some();
    let mut replay = Replay::continuing(run, was_open);
    for (place, line) in (state.execution.events..).zip(&lines) {
        replay.take_line(line.as_bytes()).map_err(|error| ExecuteError::Damaged {
            run: id.clone(),
            line: place.saturating_add(1),
            error,
        })?;
    }
    let replayed = replay.finish();
    let (run, (usage, is_estimate)) = (replayed.run(), replayed.usage());
    let text: String = replayed.added().iter().map(trace_line).collect();
    store.append(id, &text).await?;
    replayed.tell_added(&info_of(agent, id), &agent.0.observers);
    if was_open {
        answer_open_calls(&mut state);
    }
    let execution = &mut state.execution;
    let events = lines.len().saturating_add(replayed.added().len());
    let before = execution.carried();
    let carried = Carried {
        usage: before.usage.checked_add(&usage).unwrap_or(before.usage),
        is_estimate: before.is_estimate || is_estimate,
        uncertainty: before.uncertainty.plus(replayed.uncertainty()),
        events: before.events.saturating_add(u64::try_from(events).unwrap_or(u64::MAX)),
        ..before
    };
    execution.follow(run, &carried);
    execution.core = run.to_state().ok().map(Box::new);
    store.save(id, &state.to_json(), Some(stored.version)).await?;
    Ok((state, lock))
}

/// The facts about a run that is read back.
fn info_of(agent: &AgentLoop, id: &RunId) -> RunInfo {
    let inner = &agent.0;
    RunInfo {
        id: id.clone(),
        parent: None,
        agent: inner.name.clone(),
        model: inner.model.name().to_owned(),
        provider: inner.model.provider().to_owned(),
        depth: 0,
        is_resumed: true,
    }
}

/// Answers the tool calls of a step that was open when a pause interrupted it: it continued in the dead process, and
/// the outcome of its calls is unknown.
fn answer_open_calls(state: &mut AgentState) {
    for call in state.unanswered() {
        let (outcome, place) = (ToolOutcome::Aborted, state.place_of_answer());
        let execution = ToolExecution {
            id: call.id.clone(),
            tool: call.tool.clone(),
            outcome,
            answer: place,
            took_ms: 0,
        };
        if let Some(step) = state.execution.steps.last_mut() {
            step.tool_executions.push(execution);
        }
        let text = format!(
            "The process ended before the result of `{}` was kept. It may have done all, some or nothing \
             of its work.",
            call.tool
        );
        let answer = Message::Tool { id: call.id, tool: call.tool, outcome, text };
        state.insert_answer(place, answer);
    }
}
