//! Gathers the events of a sample to the acts of its agent and of its sub-agents.

use std::borrow::Cow;
use std::collections::BTreeMap;

use endstop_core::units::Cost;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bill;
use super::record::{Attachments, Event, Message, Output, ToolCall, compact, name, present, word};
use crate::act::{Act, Reply, Time, parse_time};
use crate::lanes::Lane;
use crate::part::Part;
use crate::pending::{Answer, Call, Open};
use crate::warning::{WarningKind, Warnings};
use endstop_price::PriceTable;

/// How deep events lie in one another: a sub-agent's sub-agents, in old logs.
const MAX_DEPTH: usize = 16;

/// The kinds of spans and steps in which answers are graded.
const SCORERS: [&str; 2] = ["scorer", "scorers"];

/// The kinds of spans in which a tool works; a model call in there is a sub-agent's.
const TOOLS: [&str; 2] = ["tool", "handoff"];

/// What a tool call that was not approved failed with: it was not made.
const NOT_APPROVED: &str = "approval";

pub(super) struct Gather<'s, 'a> {
    part: &'s Part,
    prices: &'s PriceTable,
    pub(super) attachments: Attachments<'a>,
    /// Results in the conversation, by the id of their call: some agents run their tools elsewhere.
    results: BTreeMap<String, Answer>,
    /// How many of an operator's messages stand before the reply with this id.
    operators: BTreeMap<String, usize>,
    spans: BTreeMap<String, Span>,
    /// How many old steps of scorers are open.
    scoring: usize,
    own: Agent,
    children: BTreeMap<String, Agent>,
    first: Time,
    model: Option<String>,
    has_steps: bool,
    is_overfull: bool,
}

/// Why a tool call failed.
#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

/// What the events of a span belong to.
#[derive(Clone, Debug, Default)]
struct Span {
    is_scorer: bool,
    /// The outermost span of a tool around it.
    tool: Option<String>,
}

/// One agent's acts so far.
#[derive(Default)]
struct Agent {
    lane: Lane,
    open: Option<Open>,
    last: Time,
}

/// What was gathered.
pub(super) struct Gathered {
    pub(super) own: Lane,
    pub(super) children: Vec<Lane>,
    pub(super) first: Time,
    pub(super) model: Option<String>,
}

impl<'s, 'a> Gather<'s, 'a> {
    pub(super) fn new(
        part: &'s Part,
        prices: &'s PriceTable,
        attachments: Attachments<'a>,
        messages: &[Message<'_>],
    ) -> Self {
        let mut gather = Self {
            part,
            prices,
            attachments,
            results: BTreeMap::new(),
            operators: BTreeMap::new(),
            spans: BTreeMap::new(),
            scoring: 0,
            own: Agent::default(),
            children: BTreeMap::new(),
            first: None,
            model: None,
            has_steps: false,
            is_overfull: false,
        };
        let mut operators = 0;
        for message in messages {
            match (message.role.as_deref(), message.source.as_deref()) {
                (Some("user"), Some("operator")) => operators += 1,
                (Some("assistant"), _) if operators > 0 => {
                    let id = message.id.as_deref().unwrap_or_default().to_owned();
                    gather.operators.insert(id, std::mem::take(&mut operators));
                }
                (Some("tool"), _) => {
                    let answer = gather.answer_of(message);
                    let id = message.tool_call_id.as_deref().unwrap_or_default().to_owned();
                    gather.results.insert(id, answer);
                }
                _ => {}
            }
        }
        gather
    }

    fn answer_of(&self, message: &Message<'_>) -> Answer {
        Answer {
            result: self.attachments.words(message.content),
            failed: present(message.error).is_some(),
            time: None,
        }
    }

    /// User turns that the sample began with.
    pub(super) fn input(&mut self, turns: usize) {
        self.own.lane.acts.extend((0..turns).map(|_| Act::User(None)));
    }

    pub(super) fn has_steps(&self) -> bool {
        self.has_steps
    }

    /// Takes events in their order.
    pub(super) fn events(&mut self, events: &[&RawValue], warnings: &mut Warnings) {
        for event in events {
            self.event(event, None, 0, warnings);
        }
    }

    fn event(&mut self, raw: &RawValue, tool: Option<&str>, depth: usize, warnings: &mut Warnings) {
        let event: Event<'_> = match serde_json::from_str(raw.get()) {
            Ok(event) => event,
            Err(error) => {
                let message = || format!("not an event of this format: {error}");
                return warnings.add(WarningKind::Malformed, self.part.name(), None, message);
            }
        };
        let time = event.timestamp.as_deref().and_then(parse_time);
        self.first = self.first.or(time);
        let span = event.span_id.as_deref().and_then(|id| self.spans.get(id)).cloned();
        let mut span = span.unwrap_or_default();
        span.tool = tool.map(str::to_owned).or(span.tool);
        let is_scorers = self.scoring > 0 || span.is_scorer;
        match event.event.as_deref() {
            Some("span_begin") => self.span(&event),
            Some("step") => self.old_step(&event),
            Some("input") if !is_scorers => {
                self.close(None);
                self.own.lane.acts.push(Act::User(time));
            }
            Some("model") if !is_scorers => {
                self.model_event(&event, span.tool.as_deref(), time, warnings);
            }
            Some("tool") if !is_scorers => {
                self.tool_event(&event, span.tool.as_deref(), time, depth, warnings);
            }
            Some("subtask") if !is_scorers => {
                self.nested(event.events, span.tool.as_deref(), depth, warnings);
            }
            _ => {}
        }
    }

    fn nested(
        &mut self,
        events: Option<&RawValue>,
        tool: Option<&str>,
        depth: usize,
        warnings: &mut Warnings,
    ) {
        let Some(events) = present(events).filter(|_| depth < MAX_DEPTH) else { return };
        let events: Vec<&RawValue> = serde_json::from_str(events).unwrap_or_default();
        for event in events {
            self.event(event, tool, depth + 1, warnings);
        }
    }

    fn span(&mut self, event: &Event<'_>) {
        let (id, kind) = (name(event.id), word(event.kind));
        let parent = event.parent_id.as_deref().and_then(|parent| self.spans.get(parent));
        let mut span = parent.cloned().unwrap_or_default();
        span.is_scorer |= kind.as_deref().is_some_and(|kind| SCORERS.contains(&kind));
        if span.tool.is_none() && kind.is_some_and(|kind| TOOLS.contains(&&*kind)) {
            span.tool = Some(id.clone());
        }
        self.spans.insert(id, span);
    }

    fn old_step(&mut self, event: &Event<'_>) {
        if word(event.kind).is_some_and(|kind| SCORERS.contains(&&*kind)) {
            self.scoring = match word(event.action).as_deref() {
                Some("begin") => self.scoring.saturating_add(1),
                _ => self.scoring.saturating_sub(1),
            };
        }
    }

    fn agent(&mut self, tool: Option<&str>) -> &mut Agent {
        match tool {
            Some(tool) => self.children.entry(tool.to_owned()).or_default(),
            None => &mut self.own,
        }
    }

    fn model_event(
        &mut self,
        event: &Event<'_>,
        tool: Option<&str>,
        time: Time,
        warnings: &mut Warnings,
    ) {
        let output: Output<'_> = match serde_json::from_str(present(event.output).unwrap_or("{}")) {
            Ok(output) => output,
            Err(error) => {
                let message = || format!("not an output of a model: {error}");
                return warnings.add(WarningKind::Malformed, self.part.name(), None, message);
            }
        };
        self.close(tool);
        let model = name(event.model);
        self.model.get_or_insert_with(|| model.clone());
        let completed = word(event.completed).and_then(|time| parse_time(&time));
        let is_pending = present(event.pending) == Some("true");
        let replied = completed.or(time);
        let retries = present(event.retries).and_then(|text| text.parse::<usize>().ok());
        let failed = usize::from(present(event.error).is_some());
        // Old versions wrote the event, and its one time, when the reply was there.
        let has_begun = completed.is_some() || is_pending;
        let failures = retries.unwrap_or(0).saturating_add(failed);
        self.open(tool, if has_begun { time } else { None }, replied, failures);
        let usage = present(output.usage);
        let choice = output.choices.into_iter().flatten().next();
        if choice.is_none() && usage.is_none() {
            return;
        }
        let mut reply = Reply { model: output.model.map(Into::into), ..Reply::default() };
        if word(event.cache).as_deref() == Some("read") {
            bill::fill_kept(&mut reply);
        } else if let Some(problem) = bill::fill(&mut reply, &model, usage, replied, self.prices) {
            let message = || format!("usage of a call of `{model}`: {problem}");
            warnings.add(WarningKind::BadNumber, self.part.name(), None, message);
        }
        let stop = choice.as_ref().and_then(|choice| choice.stop_reason.as_deref());
        reply.finish = stop.filter(|stop| *stop != "unknown").map(str::to_owned);
        let message = choice.and_then(|choice| choice.message).unwrap_or_default();
        self.answered(tool, reply, message);
    }

    /// Opens a step: one that began at `begun`, or after what the agent did last.
    fn open(&mut self, tool: Option<&str>, begun: Time, replied: Time, failures: usize) {
        self.has_steps = true;
        let agent = self.agent(tool);
        let begun = begun.or(agent.last).or(replied);
        agent.last = replied.or(agent.last);
        if tool.is_some() && agent.lane.acts.is_empty() {
            agent.lane.acts.push(Act::ChildBegin(begun));
        }
        agent.open = Some(Open::new(begun, replied, failures));
    }

    fn answered(&mut self, tool: Option<&str>, reply: Reply, message: Message<'_>) {
        let turns = message.id.as_deref().and_then(|id| self.operators.remove(id));
        let text = self.attachments.words(message.content);
        let agent = self.agent(tool);
        agent.lane.acts.extend((0..turns.unwrap_or(0)).map(|_| Act::User(None)));
        if let Some(open) = &mut agent.open {
            let calls = message.tool_calls.into_iter().flatten();
            open.answered(reply, text, calls.map(call_of).collect());
        }
    }

    /// Takes the messages of a sample that has no events.
    pub(super) fn messages(&mut self, messages: Vec<Message<'_>>) {
        for message in messages {
            match (message.role.as_deref(), message.source.as_deref()) {
                // What the sample began with was not asked of the model.
                (Some("assistant"), Some("input")) => {}
                (Some("assistant"), _) => {
                    self.close(None);
                    self.open(None, None, None, 0);
                    let reply = Reply { cost: Some(Cost::Unpriced), ..Reply::default() };
                    self.answered(None, reply, message);
                }
                (Some("tool"), _) => {
                    let answer = self.answer_of(&message);
                    if let (Some(open), Some(id)) = (&mut self.own.open, message.tool_call_id) {
                        open.answer(&id, answer);
                    }
                }
                _ => {}
            }
        }
    }

    fn tool_event(
        &mut self,
        event: &Event<'_>,
        tool: Option<&str>,
        time: Time,
        depth: usize,
        warnings: &mut Warnings,
    ) {
        let id = name(event.id);
        self.nested(event.events, Some(tool.unwrap_or(&id)), depth, warnings);
        let completed = word(event.completed).and_then(|time| parse_time(&time));
        let failed = present(event.error).is_some() || present(event.failed) == Some("true");
        let result = self.attachments.words(event.result);
        let answer = Answer { result, failed, time: completed.or(time) };
        let is_pending = present(event.pending) == Some("true");
        let agent = self.agent(tool);
        let call = agent.open.as_mut().and_then(|open| open.call(&id));
        let Some(call) = call else {
            let function = name(event.function);
            return warnings.add(WarningKind::LateLine, self.part.name(), None, || {
                format!("a call of `{function}` was not asked for by the last reply")
            });
        };
        call.begun = completed.or(is_pending.then_some(time).flatten()).and(time);
        call.is_refused = is_not_approved(event.error);
        if is_pending {
            return;
        }
        agent.last = answer.time.or(agent.last);
        if let Some(open) = &mut agent.open {
            open.answer(&id, answer);
        }
    }

    fn close(&mut self, tool: Option<&str>) {
        let Some(open) = self.agent(tool).open.take() else { return };
        let (step, is_whole) = open.finish(&self.results);
        self.is_overfull |= is_whole.is_err();
        self.agent(tool).lane.acts.push(Act::Step(Box::new(step)));
    }

    pub(super) fn finish(mut self, warnings: &mut Warnings) -> Gathered {
        self.close(None);
        let tools: Vec<String> = self.children.keys().cloned().collect();
        for tool in &tools {
            self.close(Some(tool));
        }
        if self.is_overfull {
            warnings.add(WarningKind::TooLarge, self.part.name(), None, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
        let children = self.children.into_values().filter(|child| !child.lane.acts.is_empty());
        let children = children.map(|mut child| {
            child.lane.acts.push(Act::ChildEnd(child.last));
            child.lane
        });
        Gathered {
            own: self.own.lane,
            children: children.collect(),
            first: self.first,
            model: self.model,
        }
    }
}

fn call_of(call: ToolCall<'_>) -> Call {
    let (id, tool) = (call.id.unwrap_or_default(), call.function.unwrap_or_default());
    Call::new(id.into_owned(), tool.into_owned(), compact(call.arguments))
}

fn is_not_approved(error: Option<&RawValue>) -> bool {
    let error = present(error).and_then(|error| serde_json::from_str::<Failure<'_>>(error).ok());
    error.and_then(|error| error.kind).is_some_and(|kind| kind == NOT_APPROVED)
}
