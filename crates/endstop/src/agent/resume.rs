//! Resuming a stored run: its state, and what its trace says beyond that state.

use std::sync::Arc;

use endstop_core::event::{Event, EventKind, Source};
use endstop_core::run::Run;
use endstop_core::units::{Cost, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::Line;

use super::state::AgentState;
use super::{AgentLoop, ExecuteError};
use crate::store::{RunId, Store};

/// Reads a run back. What a dead process had begun is brought to an end: a request that was sent and not
/// settled is charged its worst case, a tool call counts as failed, the step is closed.
pub(super) async fn load(agent: &AgentLoop, id: &RunId) -> Result<AgentState, ExecuteError> {
    let Some(store) = &agent.0.store else {
        return Err(ExecuteError::NoStore(agent.name().to_owned()));
    };
    let stored = store.load(id).await?;
    let mut state = match stored {
        Some(stored) => AgentState::from_json(&stored.text)?,
        None => return Err(ExecuteError::NoRun(id.clone())),
    };
    let lines = lines_after(&**store, id, state.execution.events).await?;
    if lines.is_empty() {
        return Ok(state);
    }
    let program = Arc::clone(agent.program());
    let mut run = match state.execution.core.take() {
        Some(core) => Run::from_state(program, *core)
            .map_err(|error| ExecuteError::Restore { run: id.clone(), error })?,
        None => Run::new(program),
    };
    let mut tail = Tail::default();
    for line in &lines {
        if let Ok(line) = serde_json::from_str::<Line<'_>>(line) {
            let event = line.as_event();
            run.observe(&event);
            tail.note(&event);
        }
        tail.events = tail.events.saturating_add(1);
    }
    let added = tail.close(&mut run);
    let mut text = String::new();
    for event in &added {
        text.push_str(&serde_json::to_string(&Line::from_event(event)).unwrap_or_default());
        text.push('\n');
    }
    store.append(id, &text).await?;
    let execution = &mut state.execution;
    let added = u64::try_from(added.len()).unwrap_or(u64::MAX);
    execution.events = execution.events.saturating_add(tail.events).saturating_add(added);
    execution.usage = execution.usage.checked_add(&tail.usage).unwrap_or(execution.usage);
    execution.is_estimate |= tail.is_estimate;
    execution.status = run.status();
    execution.step_count = run.step_count();
    execution.cost_picos = run.cost().map(endstop_core::units::Money::picos);
    execution.at_ms = run.at().0;
    execution.open_step = None;
    execution.core = run.to_state().ok().map(Box::new);
    Ok(state)
}

async fn lines_after(
    store: &dyn Store,
    id: &RunId,
    from: u64,
) -> Result<Vec<String>, ExecuteError> {
    let mut lines: Vec<String> = Vec::new();
    loop {
        let known = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let page = store.read_trace(id, from.saturating_add(known)).await?;
        if page.is_empty() {
            return Ok(lines);
        }
        lines.extend(page);
    }
}

/// What the trace leaves open. Several sub-agents may have requests out at once; what they held is known
/// together.
#[derive(Default)]
struct Tail {
    events: u64,
    last: Option<(endstop_core::units::Millis, WallTime)>,
    /// Requests out, own and of descendants, and the worst case of the last one of each.
    out: [u64; 2],
    worst: [(TokenUsage, Option<Cost>); 2],
    /// Tools of the run itself that have begun.
    tools: Vec<String>,
    children: u64,
    is_step_open: bool,
    usage: TokenUsage,
    is_estimate: bool,
}

const fn index(source: Source) -> usize {
    match source {
        Source::Own => 0,
        Source::Descendant => 1,
    }
}

impl Tail {
    fn note(&mut self, event: &Event<'_>) {
        self.last = Some((event.at, event.wall));
        let (at, is_own) = (index(event.source), event.source == Source::Own);
        let Some(out) = self.out.get_mut(at) else { return };
        match &event.kind {
            EventKind::StepBegin if is_own => self.is_step_open = true,
            EventKind::StepEnd if is_own => self.is_step_open = false,
            EventKind::Reserve { input_tokens, output_tokens, cost } => {
                let usage = TokenUsage {
                    input: *input_tokens,
                    output: *output_tokens,
                    ..TokenUsage::default()
                };
                if let Some(worst) = self.worst.get_mut(at) {
                    *worst = (usage, *cost);
                }
            }
            EventKind::AttemptBegin { next_cost } => {
                *out = out.saturating_add(1);
                if let Some(worst) = self.worst.get_mut(at) {
                    worst.1 = worst.1.or(*next_cost);
                }
            }
            EventKind::Reply { usage, .. } | EventKind::AttemptFailed { usage, .. } => {
                *out = out.saturating_sub(1);
                let sum = usage.and_then(|usage| self.usage.checked_add(&usage));
                self.usage = sum.unwrap_or(self.usage);
            }
            EventKind::ToolBegin { tool } if is_own => self.tools.push((*tool).to_owned()),
            EventKind::ToolEnd { tool, .. } if is_own => {
                if let Some(place) = self.tools.iter().position(|begun| begun == tool) {
                    self.tools.remove(place);
                }
            }
            EventKind::ChildBegin { .. } if is_own => {
                self.children = self.children.saturating_add(1);
            }
            EventKind::ChildEnd if is_own => self.children = self.children.saturating_sub(1),
            _ => {}
        }
    }

    /// Ends what is open; gives the events for the trace.
    fn close(&mut self, run: &mut Run) -> Vec<Event<'static>> {
        let (at, wall) = self.last.unwrap_or((run.at(), WallTime(0)));
        let mut added = Vec::new();
        let mut tell = |source, kind| {
            let event = Event { at, wall, source, kind };
            run.observe(&event);
            added.push(event);
        };
        for source in [Source::Descendant, Source::Own] {
            let Some(out) = self.out.get(index(source)).copied().filter(|out| *out > 0) else {
                continue;
            };
            // What the last one reserved contains what the others held.
            let (usage, cost) = self.worst.get(index(source)).copied().unwrap_or_default();
            self.usage = self.usage.checked_add(&usage).unwrap_or(self.usage);
            self.is_estimate = true;
            let cost = Some(cost.unwrap_or(Cost::Unpriced));
            tell(source, EventKind::AttemptFailed { usage: Some(usage), cost });
            for _ in 1..out {
                tell(source, EventKind::AttemptFailed { usage: None, cost: None });
            }
        }
        for _ in 0..self.children {
            tell(Source::Own, EventKind::ChildEnd);
        }
        for _ in &self.tools {
            tell(Source::Own, EventKind::ToolRefused { tool: "" });
        }
        if self.is_step_open {
            tell(Source::Own, EventKind::StepEnd);
        }
        added
    }
}
