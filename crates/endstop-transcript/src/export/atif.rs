//! A run as an ATIF document, gathered from its events.
//!
//! The events of sub-agents that run side by side do not say which one did them. A step of theirs goes to
//! the one that began last and has not ended, so counts, tokens and money of the run stay as they are.

mod file;

use endstop_core::event::Source as Origin;
use endstop_core::units::{Cost, TokenUsage};
use endstop_core::{Event, EventKind};

use crate::atif::record::{AtifAgent, AtifReference, KeptOfRun, KeptOfStep, StepExtra};
use crate::{CostIs, RunFooter, RunHeader};
use file::{WrittenResult, WrittenStep, WrittenTrajectory};

/// The version that is written: the first with sub-agents in the same document.
const SCHEMA: &str = "ATIF-v1.7";

/// Gathers a run.
pub(super) struct Builder {
    id: String,
    format: &'static str,
    steps: Vec<WrittenStep>,
    open: Option<OpenStep>,
    children: Vec<Child>,
    /// Steps of sub-agents that are not over, the oldest first.
    descendants: Vec<OpenStep>,
    /// Whether every response names its model.
    all_name_models: bool,
}

/// A sub-agent.
struct Child {
    id: String,
    depth: u32,
    is_open: bool,
    steps: Vec<WrittenStep>,
}

/// A step that is not over.
#[derive(Default)]
struct OpenStep {
    wall: u64,
    text: String,
    failures: u64,
    reply: Option<StepResponse>,
    calls: Vec<StepToolCall>,
    refused: Vec<String>,
    /// Places of calls, in the order of their results.
    answered: Vec<usize>,
    /// Sub-agents, and the call that started them.
    children: Vec<(Option<usize>, String)>,
}

struct StepResponse {
    model: Option<String>,
    usage: Option<TokenUsage>,
    cost: Option<Cost>,
    finish: Option<String>,
}

struct StepToolCall {
    tool: String,
    arguments: String,
    /// Its result, and whether it failed.
    answer: Option<(String, bool)>,
}

impl Builder {
    pub(super) fn new(run: &RunHeader<'_>) -> Self {
        Self {
            id: run.id.to_owned(),
            format: run.format,
            steps: Vec::new(),
            open: None,
            children: Vec::new(),
            descendants: Vec::new(),
            all_name_models: true,
        }
    }

    /// Adds an event. False if the format has no place for it.
    pub(super) fn event(&mut self, event: &Event<'_>) -> bool {
        let wall = event.wall.0;
        match (&event.kind, event.source) {
            (EventKind::RunBegin { .. } | EventKind::RunEnd { .. } | EventKind::Tick, _) => {}
            // As of `next_cost`: other events have its effects.
            (EventKind::Reserve { .. } | EventKind::ToolReserve { .. }, _) => {}
            (EventKind::ChildBegin { depth }, _) => self.child(*depth, wall),
            (EventKind::ChildEnd, _) => {
                let last = self.children.iter_mut().rev().find(|child| child.is_open);
                if let Some(child) = last {
                    child.is_open = false;
                }
            }
            (EventKind::UserMessage, Origin::Own) => self.steps.push(WrittenStep::user(wall)),
            (EventKind::UserMessage, Origin::Descendant) => {
                self.add_to_child(WrittenStep::user(wall))
            }
            (kind, Origin::Own) => return self.own(kind, wall),
            (kind, Origin::Descendant) => return self.descendant(kind, wall),
        }
        true
    }

    fn own(&mut self, kind: &EventKind<'_>, wall: u64) -> bool {
        match kind {
            EventKind::StepBegin => {
                self.close();
                self.open = Some(OpenStep { wall, ..OpenStep::default() });
                true
            }
            EventKind::StepEnd => {
                self.close();
                true
            }
            kind => {
                if let EventKind::Reply { model, .. } = kind {
                    self.all_name_models &= model.is_some();
                }
                self.open.as_mut().is_some_and(|open| open.event(kind))
            }
        }
    }

    fn descendant(&mut self, kind: &EventKind<'_>, wall: u64) -> bool {
        let open = &mut self.descendants;
        let place = match kind {
            EventKind::StepBegin => {
                open.push(OpenStep { wall, ..OpenStep::default() });
                return true;
            }
            EventKind::ToolEnd { tool, .. } => open.iter().position(|open| open.runs(tool)),
            EventKind::StepEnd => open.iter().position(OpenStep::is_done),
            EventKind::ToolBegin { .. } | EventKind::ToolRefused { .. } => {
                open.iter().rposition(|open| open.reply.is_some())
            }
            _ => open.iter().position(|open| open.reply.is_none()),
        };
        let Some(place) = place.or(open.len().checked_sub(1)) else { return false };
        if matches!(kind, EventKind::StepEnd) {
            let step = open.remove(place).finish();
            self.add_to_child(step);
            return true;
        }
        open.get_mut(place).is_some_and(|open| open.event(kind))
    }

    fn child(&mut self, depth: u32, wall: u64) {
        let id = format!("sub-agent-{}", self.children.len() + 1);
        match &mut self.open {
            Some(open) => {
                let running = open.calls.iter().rposition(|call| call.answer.is_none());
                open.children.push((running, id.clone()));
            }
            None => self.steps.push(WrittenStep::refers(wall, &id)),
        }
        self.children.push(Child { id, depth, is_open: true, steps: Vec::new() });
    }

    fn add_to_child(&mut self, step: WrittenStep) {
        if self.children.is_empty() {
            self.child(1, 0);
        }
        let place = self.children.iter().rposition(|child| child.is_open);
        let place = place.unwrap_or(self.children.len().saturating_sub(1));
        if let Some(child) = self.children.get_mut(place) {
            child.steps.push(step);
        }
    }

    fn close(&mut self) {
        self.steps.extend(self.open.take().map(OpenStep::finish));
    }

    /// The document, with a line feed.
    pub(super) fn finish(mut self, end: &RunFooter<'_>) -> serde_json::Result<String> {
        self.close();
        for open in std::mem::take(&mut self.descendants) {
            self.add_to_child(open.finish());
        }
        let agent = |model: Option<&str>| AtifAgent {
            name: self.format,
            version: "unknown",
            // A step without a model would be taken to be of this one.
            model_name: model.filter(|_| self.all_name_models).map(str::to_owned),
        };
        let children = std::mem::take(&mut self.children);
        let children = children.into_iter().map(|child| WrittenTrajectory {
            schema_version: SCHEMA,
            session_id: None,
            trajectory_id: Some(child.id),
            agent: agent(None),
            final_metrics: file::total(&child.steps),
            steps: file::numbered(child.steps),
            extra: file::run_extra(KeptOfRun { depth: Some(child.depth), ..KeptOfRun::default() }),
            subagent_trajectories: Vec::new(),
        });
        let kept = KeptOfRun {
            outcome: end.outcome,
            cost_is: (end.cost_is != CostIs::Billed).then(|| end.cost_is.value().to_owned()),
            ..KeptOfRun::default()
        };
        let run = WrittenTrajectory {
            schema_version: SCHEMA,
            session_id: Some(self.id.clone()),
            trajectory_id: None,
            agent: agent(end.model),
            final_metrics: file::total(&self.steps),
            subagent_trajectories: children.collect(),
            steps: file::numbered(self.steps),
            extra: file::run_extra(kept),
        };
        serde_json::to_string(&run).map(|text| text + "\n")
    }
}

impl OpenStep {
    fn event(&mut self, kind: &EventKind<'_>) -> bool {
        match kind {
            EventKind::AttemptBegin { .. } => {}
            EventKind::AttemptFailed { usage, cost } => {
                self.failures += 1;
                self.text.clear();
                // Only its number is kept.
                return usage.is_none() && cost.is_none();
            }
            EventKind::Piece { text } => self.text.push_str(text),
            EventKind::Reply { model, usage, cost, finish, .. } => {
                self.reply = Some(StepResponse {
                    model: model.map(str::to_owned),
                    usage: *usage,
                    cost: *cost,
                    finish: finish.map(str::to_owned),
                });
            }
            EventKind::ToolBegin { tool } => {
                let (tool, arguments) = ((*tool).to_owned(), String::new());
                self.calls.push(StepToolCall { tool, arguments, answer: None });
            }
            EventKind::ToolRefused { tool } => self.refused.push((*tool).to_owned()),
            EventKind::ToolEnd { tool, arguments, result, failed } => {
                let place = self.calls.iter().position(|call| call.waits_for(tool));
                let Some(call) = place.and_then(|place| self.calls.get_mut(place)) else {
                    return false;
                };
                (*arguments).clone_into(&mut call.arguments);
                call.answer = Some(((*result).to_owned(), *failed));
                self.answered.extend(place);
            }
            _ => return false,
        }
        true
    }

    /// Whether a call of this tool waits for its result.
    fn runs(&self, tool: &str) -> bool {
        self.calls.iter().any(|call| call.waits_for(tool))
    }

    fn is_done(&self) -> bool {
        self.reply.is_some() && self.calls.iter().all(|call| call.answer.is_some())
    }

    fn finish(self) -> WrittenStep {
        let reply = self.reply.as_ref();
        let id = |place: usize| format!("call-{}", place + 1);
        let calls = self.calls.iter().enumerate();
        let tool_calls = calls.map(|(place, call)| {
            let arguments = call.answer.is_some().then_some(call.arguments.as_str());
            file::call(id(place), &call.tool, arguments)
        });
        let refers = |place: Option<usize>| {
            let children = self.children.iter().filter(move |(call, _)| *call == place);
            children.map(|(_, child)| file::reference(child)).collect::<Vec<_>>()
        };
        let answered = self.answered.iter().filter_map(|&place| {
            let (content, failed) = self.calls.get(place)?.answer.as_ref()?;
            Some(file::answer(id(place), content, *failed, refers(Some(place))))
        });
        let mut results: Vec<WrittenResult> = answered.collect();
        let waiting = self.calls.iter().enumerate().filter(|(_, call)| call.answer.is_none());
        let without: Vec<AtifReference<'static>> =
            waiting.flat_map(|(place, _)| refers(Some(place))).chain(refers(None)).collect();
        results.extend((!without.is_empty()).then(|| file::refers_to(without)));
        let tool_calls = tool_calls.collect();
        let endstop = KeptOfStep {
            failed_attempts: self.failures,
            refused: self.refused,
            has_no_reply: reply.is_none(),
        };
        let finish_reason = reply.and_then(|reply| reply.finish.clone());
        let extra = StepExtra { finish_reason, endstop };
        WrittenStep::agent(
            self.wall,
            reply.and_then(|reply| reply.model.clone()),
            self.text,
            tool_calls,
            results,
            reply.and_then(|reply| file::metrics(reply.usage, reply.cost)),
            (extra != StepExtra::default()).then_some(extra),
        )
    }
}

impl StepToolCall {
    fn waits_for(&self, tool: &str) -> bool {
        self.answer.is_none() && self.tool == tool
    }
}
