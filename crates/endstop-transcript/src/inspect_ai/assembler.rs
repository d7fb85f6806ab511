//! Gathers the events of a sample to the acts of its agent and of its sub-agents.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::record::{
    Attachments, InspectEvent, InspectMessage, InspectToolCall, ModelOutput, name,
};
use super::report;
use crate::builder::RunBuilder;
use crate::limits::MAX_NESTING;
use crate::step::{Full, ModelResponse, ToolAnswer};
use crate::text::{Text, compact, present, word};
use crate::time::{Time, parse_time};
use crate::timeline::{AgentTimeline, TimelineEntry};
use crate::warning::WarningKind;

/// The kinds of spans and steps in which answers are graded.
const SCORERS: [&str; 2] = ["scorer", "scorers"];

/// The kinds of spans in which a tool works; a model call in there is a sub-agent's.
const TOOLS: [&str; 2] = ["tool", "handoff"];

/// The error of a tool call that was not approved: it was not made.
const NOT_APPROVED: &str = "approval";

/// A sample while its run is gathered.
pub(super) struct InspectAssembler<'s, 'w, 'a> {
    run: RunBuilder<'s, 'w>,
    attachments: Attachments<'a>,
    /// Results in the conversation, by the id of their call: some agents run their tools elsewhere.
    results: BTreeMap<String, ToolAnswer>,
    /// How many of an operator's messages stand before the response with this id.
    operators: BTreeMap<String, usize>,
    spans: BTreeMap<String, InspectSpan>,
    /// How many old steps of scorers are open.
    scoring: usize,
    has_steps: bool,
}

/// Why a tool call failed.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Failure<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
}

/// The owner of the events of a span.
#[derive(Clone, Debug, Default)]
struct InspectSpan {
    is_scorer: bool,
    /// The outermost span of a tool around it.
    tool: Option<String>,
}

impl<'s, 'w, 'a> InspectAssembler<'s, 'w, 'a> {
    pub(super) fn new(
        run: RunBuilder<'s, 'w>,
        attachments: Attachments<'a>,
        messages: &[InspectMessage<'_>],
    ) -> Self {
        let mut assembler = Self {
            run,
            attachments,
            results: BTreeMap::new(),
            operators: BTreeMap::new(),
            spans: BTreeMap::new(),
            scoring: 0,
            has_steps: false,
        };
        let mut operators = 0;
        for message in messages {
            match (message.role.as_deref(), message.source.as_deref()) {
                (Some("user"), Some("operator")) => operators += 1,
                (Some("assistant"), _) if operators > 0 => {
                    let id = message.id.as_deref().unwrap_or_default().to_owned();
                    assembler.operators.insert(id, std::mem::take(&mut operators));
                }
                (Some("tool"), _) => {
                    let answer = assembler.answer_of(message);
                    let id = message.tool_call_id.as_deref().unwrap_or_default().to_owned();
                    assembler.results.insert(id, answer);
                }
                _ => {}
            }
        }
        assembler
    }

    fn answer_of(&self, message: &InspectMessage<'_>) -> ToolAnswer {
        ToolAnswer {
            result: self.attachments.words(message.content),
            failed: present(message.error).is_some(),
            time: None,
        }
    }

    /// User turns that the sample began with.
    pub(super) fn input(&mut self, turns: usize) {
        (0..turns).for_each(|_| self.run.own().user(None));
    }

    pub(super) fn has_steps(&self) -> bool {
        self.has_steps
    }

    /// Takes events in their order.
    pub(super) fn events(&mut self, events: &[&RawValue]) {
        for event in events {
            self.event(event, None, 0);
        }
    }

    fn event(&mut self, raw: &RawValue, tool: Option<&str>, depth: u32) {
        let wrong = "not an event of this format";
        let Some(event) = self.run.reading.parse::<InspectEvent<'_>>(raw, wrong) else { return };
        let time = event.timestamp.as_deref().and_then(parse_time);
        self.run.note(time);
        let span = event.span_id.as_deref().and_then(|id| self.spans.get(id)).cloned();
        let mut span = span.unwrap_or_default();
        span.tool = tool.map(str::to_owned).or(span.tool);
        let is_scorers = self.scoring > 0 || span.is_scorer;
        match event.event.as_deref() {
            Some("span_begin") => self.span(&event),
            Some("step") => self.old_step(&event),
            Some("input") if !is_scorers => {
                self.close(None);
                // It does not tell when the next request is made.
                self.run.own().push(TimelineEntry::User(time));
            }
            Some("model") if !is_scorers => self.model_event(&event, span.tool.as_deref(), time),
            Some("tool") if !is_scorers => {
                self.tool_event(&event, span.tool.as_deref(), time, depth);
            }
            Some("subtask") if !is_scorers => {
                self.nested(event.events, span.tool.as_deref(), depth);
            }
            _ => {}
        }
    }

    fn nested(&mut self, events: Option<&RawValue>, tool: Option<&str>, depth: u32) {
        let Some(events) = present(events).filter(|_| depth < MAX_NESTING) else { return };
        let events: Vec<&RawValue> = serde_json::from_str(events).unwrap_or_default();
        for event in events {
            self.event(event, tool, depth + 1);
        }
    }

    fn span(&mut self, event: &InspectEvent<'_>) {
        let (id, kind) = (name(event.id), word(event.kind));
        let parent = event.parent_id.as_deref().and_then(|parent| self.spans.get(parent));
        let mut span = parent.cloned().unwrap_or_default();
        span.is_scorer |= kind.as_deref().is_some_and(|kind| SCORERS.contains(&kind));
        if span.tool.is_none() && kind.is_some_and(|kind| TOOLS.contains(&&*kind)) {
            span.tool = Some(id.clone());
        }
        self.spans.insert(id, span);
    }

    fn old_step(&mut self, event: &InspectEvent<'_>) {
        if word(event.kind).is_some_and(|kind| SCORERS.contains(&&*kind)) {
            self.scoring = match word(event.action).as_deref() {
                Some("begin") => self.scoring.saturating_add(1),
                _ => self.scoring.saturating_sub(1),
            };
        }
    }

    fn model_event(&mut self, event: &InspectEvent<'_>, tool: Option<&str>, time: Time) {
        let output = present(event.output).unwrap_or("{}");
        let wrong = "not an output of a model";
        let Some(output) = self.run.reading.parse_text::<ModelOutput<'_>>(output, wrong) else {
            return;
        };
        self.close(tool);
        let model = name(event.model);
        if self.run.model().is_none() {
            self.run.set_model(Some(model.clone()));
        }
        let completed = word(event.completed).and_then(|time| parse_time(&time));
        let is_pending = present(event.pending) == Some("true");
        let replied = completed.or(time);
        let retries = present(event.retries).and_then(|text| text.parse::<usize>().ok());
        let failed = usize::from(present(event.error).is_some());
        // Old versions wrote the event, and its one time, when the response had arrived.
        let has_begun = completed.is_some() || is_pending;
        let failures = retries.unwrap_or(0).saturating_add(failed);
        self.open(tool, if has_begun { time } else { None }, replied, failures);
        let choice = output.choices.into_iter().flatten().next();
        if choice.is_none() && present(output.usage).is_none() {
            return;
        }
        let mut reply =
            ModelResponse { model: output.model.map(Into::into), ..ModelResponse::default() };
        if word(event.cache).as_deref() == Some("read") {
            report::fill_kept(&mut reply);
        } else {
            report::fill(self.run.reading, &mut reply, &model, output.usage, replied);
        }
        let stop = choice.as_ref().and_then(|choice| choice.stop_reason.as_deref());
        reply.finish = stop.filter(|stop| *stop != "unknown").map(str::to_owned);
        let message = choice.and_then(|choice| choice.message).unwrap_or_default();
        self.answered(tool, replied, reply, message);
    }

    /// Opens a step: one that began at `begun`, or after what the agent did last.
    fn open(&mut self, tool: Option<&str>, begun: Time, replied: Time, failures: usize) {
        self.has_steps = true;
        let agent = self.run.agent(tool);
        let begun = begun.or(agent.last()).or(replied);
        if tool.is_some() {
            agent.begin_child(begun, 1);
        }
        agent.seen(replied);
        let step = agent.begin(begun);
        // As many as a step holds.
        let _held = (0..failures).try_for_each(|_| step.fail(None));
    }

    fn answered(
        &mut self,
        tool: Option<&str>,
        replied: Time,
        reply: ModelResponse,
        message: InspectMessage<'_>,
    ) {
        let turns = message.id.as_deref().and_then(|id| self.operators.remove(id));
        let text = self.attachments.words(message.content);
        let agent = self.run.agent(tool);
        (0..turns.unwrap_or(0)).for_each(|_| agent.before(TimelineEntry::User(None)));
        let Some(step) = agent.step() else { return };
        step.answer(replied, reply);
        let said = step.say(replied, text);
        let mut calls = message.tool_calls.into_iter().flatten();
        let added = said.and_then(|()| {
            calls.try_for_each(|InspectToolCall { id, function, arguments }| {
                let (id, tool) = (id.unwrap_or_default(), function.unwrap_or_default());
                step.call(None, Some(id), tool, compact(arguments))
            })
        });
        self.run.check(added);
    }

    /// Takes the messages of a sample that has no events.
    pub(super) fn messages(&mut self, messages: Vec<InspectMessage<'_>>) {
        for message in messages {
            match (message.role.as_deref(), message.source.as_deref()) {
                // The first messages of a sample did not come from the model.
                (Some("assistant"), Some("input")) => {}
                (Some("assistant"), _) => {
                    self.close(None);
                    self.open(None, None, None, 0);
                    self.answered(None, None, ModelResponse::unpriced(None::<String>), message);
                }
                (Some("tool"), _) => {
                    let answer = self.answer_of(&message);
                    if let (Some(step), Some(id)) = (self.run.step(), message.tool_call_id) {
                        let added = step.end_call(&id, answer).map(drop);
                        self.run.check(added);
                    }
                }
                _ => {}
            }
        }
    }

    fn tool_event(&mut self, event: &InspectEvent<'_>, tool: Option<&str>, time: Time, depth: u32) {
        let id = name(event.id);
        self.nested(event.events, Some(tool.unwrap_or(&id)), depth);
        let completed = word(event.completed).and_then(|time| parse_time(&time));
        let failed = present(event.error).is_some() || present(event.failed) == Some("true");
        let result = self.attachments.words(event.result);
        let answer = ToolAnswer { result, failed, time: completed.or(time) };
        let is_pending = present(event.pending) == Some("true");
        let begun = completed.or(is_pending.then_some(time).flatten()).and(time);
        let is_refused = is_not_approved(event.error);
        let agent = self.run.agent(tool);
        let Some(step) = agent.step().filter(|step| step.awaits(&id)) else {
            let function = name(event.function);
            return self.run.reading.warn(WarningKind::LateLine, || {
                format!("a call of `{function}` was not asked for by the last response")
            });
        };
        step.set_call(&id, begun, is_refused);
        if is_pending {
            return;
        }
        let ended = answer.time;
        let added = step.end_call(&id, answer);
        agent.seen(ended);
        self.run.check(added.map(drop));
    }

    fn close(&mut self, tool: Option<&str>) {
        let agent = self.run.agent(tool);
        let ended = end_step(agent, &self.results);
        self.run.check(ended);
    }

    /// Ends the run.
    pub(super) fn end(mut self, outcome: Option<bool>) {
        let mut ended = Ok(());
        for agent in self.run.agents() {
            ended = ended.and(end_step(agent, &self.results));
        }
        self.run.check(ended);
        self.run.begin_noted();
        self.run.outcome(outcome);
        self.run.end();
    }
}

/// Ends the open step of an agent by the facts about its calls recorded elsewhere.
fn end_step(agent: &mut AgentTimeline, results: &BTreeMap<String, ToolAnswer>) -> Result<(), Full> {
    let ended = agent.step().map_or(Ok(()), |step| step.end_calls(results));
    agent.close();
    ended
}

fn is_not_approved(error: Option<&RawValue>) -> bool {
    let error = present(error).and_then(|error| serde_json::from_str::<Failure<'_>>(error).ok());
    error.and_then(|error| error.kind).as_deref() == Some(NOT_APPROVED)
}
