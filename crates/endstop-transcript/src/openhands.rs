//! OpenHands: lines of an evaluation's output, one run per line, and exported trajectories, a list of events or an
//! object with one under `history`.
//!
//! - Actions of the agent with the same `model_response` are one model call; each requests one tool call. Actions
//!   without one, as in old files and for plain messages, are a call each.
//! - A call's usage is that of its response, priced by the table. Old files have only `metrics.costs`, what
//!   OpenHands computed for each call: it counts if there are as many as there are calls, and no usage.
//! - Messages of source `user` are turns of the user; states, recalls and other notes are none. In old files
//!   without sources the user speaks first and after each message of the agent.
//! - A tool failed if its observation is an `error`, or its exit code is above 0, or without one `success` is
//!   false. An action that the user rejected is refused. `finish` has no observation: it is done when said.
//! - An error that is of no action is a response that could not be used: a failed attempt of the next step.
//! - Between the action `delegate` and its observation it is a sub-agent that acts.
//! - A run succeeded if its report says `resolved`, or its test result is or says so in one word. A model's opinion
//!   of it (`success` of the resolver) is not read.
//! - Times have no zone; they are taken for UTC.
//!
//! More than 250 lines because it has two layouts, and old files that lack sources, responses or usage.

mod record;

use std::vec;

use endstop_core::Event;
use endstop_core::units::{Cost, Money};
use endstop_price::UsageShape;
use serde_json::Value;
use serde_json::value::RawValue;

use self::record::{
    EvaluationLine, LlmResponse, OpenHandsEvent, arguments_of, asked_for, names_of, said, words,
};
use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::layout::Layout;
use super::limits::MAX_HELD_BYTES;
use super::reading::Reading;
use super::recent::{Recent, digest};
use super::step::{CostSource, ModelResponse, ToolAnswer};
use super::time::{Time, parse_utc};
use super::timeline::{AgentTimeline, TimelineEntry};
use super::warning::{Warning, WarningKind, Warnings};
use super::{Head, RunFooter, RunHeader, RunSink};

/// Actions that no model asked for.
const NO_CALLS: [&str; 11] = [
    "system",
    "null",
    "start",
    "pause",
    "resume",
    "stop",
    "change_agent_state",
    "recall",
    "condensation",
    "condensation_request",
    "loop_recovery",
];

/// Actions that end immediately: they have no observation.
const ENDS: [&str; 2] = ["finish", "reject"];

/// The words by which benchmarks name the outcome.
const OUTCOMES: [&str; 4] = ["resolved", "correct", "score", "result"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.document() else { return false };
    if keys.in_list {
        let is_event = keys.have(&["action"]) || keys.have(&["observation"]);
        return is_event && keys.have(&["source", "timestamp"]);
    }
    // SWE-agent has a `history`, too, next to its `trajectory`.
    if keys.have(&["trajectory"]) {
        return false;
    }
    let has_task = keys.have(&["instance_id"]) || keys.have(&["issue"]);
    let lines = [["instruction", "metadata"], ["instruction", "history"], ["history", "metrics"]];
    let is_line = has_task && lines.iter().any(|names| keys.have(names));
    let has_events = head.mentions("\"action\"") && head.mentions("\"source\"");
    is_line || (keys.have(&["history"]) && has_events)
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    if Layout::of(reading.part) == Layout::Lines {
        let mut lines = reading.lines();
        while lines.advance() {
            let Some(line) = lines.parse::<EvaluationLine<'_>>() else { continue };
            let each = |_: &Warnings, take: &mut dyn FnMut(&RawValue)| {
                line.history.iter().flatten().for_each(|event| take(event));
            };
            read_run(&line, &each, reading.at(Some(lines.number())), sink);
        }
        return;
    }
    let mut beside: Vec<(String, Box<RawValue>)> = Vec::new();
    reading.look_for(&EvaluationLine::FIELDS, &mut |key, value| {
        beside.push((key.to_owned(), value.to_owned()));
    });
    let each = |warnings: &Warnings, take: &mut dyn FnMut(&RawValue)| {
        reading.telling(warnings).each_item(&["history"], take);
    };
    read_run(&EvaluationLine::of(&beside), &each, reading, sink);
}

/// Hands over the events of a run. Warnings are those of the list.
type EachEvent<'e> = dyn Fn(&Warnings, &mut dyn FnMut(&RawValue)) + 'e;

/// Reads a run. Whether its costs count is known only after its last event: a first pass counts them.
fn read_run(
    line: &EvaluationLine<'_>,
    each: &EachEvent<'_>,
    reading: Reading<'_>,
    sink: &mut dyn RunSink,
) {
    let (name, mut costs) = (line.name(), line.costs());
    if !costs.is_empty() {
        let discarded = Warnings::default();
        let mut null = NullSink;
        let mut run = Evaluation::new(reading.telling(&discarded), Vec::new(), &mut null);
        each(&discarded, &mut |event| run.take(event));
        if !run.finish().takes(costs.len()) {
            costs = Vec::new();
        }
    }
    let mut run = Evaluation::new(reading, costs, sink);
    run.run.set_id(|| name);
    run.run.outcome(outcome_of(line));
    each(reading.warnings, &mut |event| run.take(event));
    run.finish();
}

/// Takes a run that is only counted.
struct NullSink;

impl RunSink for NullSink {
    fn begin(&mut self, _: &RunHeader<'_>) {}
    fn event(&mut self, _: &Event<'_>) {}
    fn end(&mut self, _: &RunFooter<'_>) {}
    fn warn(&mut self, _: Warning) {}
}

fn outcome_of(line: &EvaluationLine<'_>) -> Option<bool> {
    let read = |raw: Option<&RawValue>| serde_json::from_str::<Value>(raw?.get()).ok();
    let (report, result) = (read(line.report), read(line.test_result));
    let resolved = |value: &Value| value.get("resolved")?.as_bool();
    let outcome = |result: &Value| {
        let said = || OUTCOMES.iter().find_map(|word| result.get(word)?.as_bool());
        result.get("report").and_then(resolved).or_else(|| result.as_bool()).or_else(said)
    };
    report.as_ref().and_then(resolved).or_else(|| result.as_ref().and_then(outcome))
}

struct Evaluation<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// Costs of the following calls, if they have no usage.
    costs: vec::IntoIter<Money>,
    own: AgentState,
    /// The sub-agent that acts, and what it did.
    child: Option<(AgentState, AgentTimeline)>,
    /// The events of sub-agents that are held, in bytes.
    held: usize,
    /// Responses that were counted.
    seen: Recent,
    has_begun: bool,
    /// Whether the last message was the agent's, in files that do not say.
    agent_spoke: bool,
    tally: CallTally,
}

#[derive(Default)]
struct AgentState {
    /// The response whose step is open.
    response: Option<u64>,
    /// Responses before the next step that could not be used.
    failures: usize,
}

/// The calls of a run.
#[derive(Debug, Default)]
struct CallTally {
    replies: usize,
    tells_usage: bool,
    has_children: bool,
}

impl CallTally {
    /// Whether that many costs are those of its calls.
    const fn takes(&self, costs: usize) -> bool {
        self.replies == costs && !self.tells_usage && !self.has_children
    }
}

impl<'s, 'w> Evaluation<'s, 'w> {
    fn new(reading: Reading<'s>, costs: Vec<Money>, sink: &'w mut dyn RunSink) -> Self {
        Self {
            run: RunBuilder::new(reading, sink),
            costs: costs.into_iter(),
            own: AgentState::default(),
            child: None,
            held: 0,
            seen: Recent::default(),
            has_begun: false,
            agent_spoke: false,
            tally: CallTally::default(),
        }
    }

    /// Takes an event, or a pair of action and observation, as the oldest files have them.
    fn take(&mut self, raw: &RawValue) {
        let events: Vec<&RawValue> = match raw.get().starts_with('[') {
            true => serde_json::from_str(raw.get()).unwrap_or_default(),
            false => vec![raw],
        };
        for raw in events {
            let wrong = "not an event of this format";
            if let Some(event) = self.run.reading.parse::<OpenHandsEvent<'_>>(raw, wrong) {
                self.event(&event, raw);
            }
        }
    }

    fn event(&mut self, event: &OpenHandsEvent<'_>, raw: &RawValue) {
        let time = event.timestamp.as_deref().and_then(parse_utc);
        self.run.note(time);
        if !self.holds(event, raw) {
            return;
        }
        let source = event.source.as_deref();
        match (event.action.as_deref(), event.observation.as_deref()) {
            (Some("message"), _) if source.map_or(!self.is_agents_turn(), |s| s == "user") => {
                self.agent_spoke = false;
                self.close();
                self.agent().1.seen_by(time);
                self.push(TimelineEntry::User(time));
            }
            (Some(action), _)
                if source.is_none_or(|source| source == "agent") && !NO_CALLS.contains(&action) =>
            {
                self.action(event, raw, action, time);
            }
            (_, Some("delegate")) => {
                if self.child.is_some() {
                    self.end_child();
                }
                self.observation(event, time);
            }
            (_, Some(_)) => self.observation(event, time),
            _ => {}
        }
    }

    /// Holds the acts of a sub-agent until the run's own step is over. Returns `false` if that is too much.
    fn holds(&mut self, event: &OpenHandsEvent<'_>, raw: &RawValue) -> bool {
        if self.child.is_none() || event.observation.as_deref() == Some("delegate") {
            return true;
        }
        let held = self.held.saturating_add(raw.get().len());
        if held > MAX_HELD_BYTES {
            self.run.reading.warn(WarningKind::TooLarge, || {
                "sub-agents do more than is kept; the rest of it is dropped".to_owned()
            });
            return false;
        }
        self.held = held;
        true
    }

    /// In files without sources: whether a message would be the agent's.
    const fn is_agents_turn(&self) -> bool {
        self.has_begun && !self.agent_spoke
    }

    fn action(&mut self, event: &OpenHandsEvent<'_>, raw: &RawValue, action: &str, time: Time) {
        let metadata = event.tool_call_metadata.as_ref();
        let response = metadata.and_then(|metadata| metadata.model_response);
        let response = response.filter(|raw| raw.get() != "null").and_then(|raw| {
            self.run.reading.parse::<LlmResponse<'_>>(raw, "not a response of a model")
        });
        let id = response.as_ref().and_then(|response| response.id.as_deref()).map(digest);
        let (name, tool) = names_of(event, metadata, action);
        let arguments = asked_for(response.as_ref(), &name);
        self.agent_spoke = action == "message";
        let (state, timeline) = self.agent();
        let is_same = timeline.step().is_some() && id.is_some() && state.response == id;
        if !is_same {
            self.close();
            if id.is_some_and(|id| !self.seen.insert(id)) {
                return self.run.reading.warn(WarningKind::LateLine, || {
                    "an action of a response that was already over".to_owned()
                });
            }
            let text = said(event, response.as_ref());
            let mut reply = reply_of(self.run.reading, response, time);
            self.tally.replies = self.tally.replies.saturating_add(1);
            self.tally.tells_usage |= reply.usage.is_some();
            if let Some(cost) = self.costs.next() {
                (reply.cost, reply.source) = (Some(Cost::Known(cost)), CostSource::Computed);
            }
            self.has_begun = true;
            self.begin(id, time, reply, text);
        }
        let (_, timeline) = self.agent();
        if let (Some(step), true) = (timeline.step(), action != "message") {
            let arguments = arguments.unwrap_or_else(|| arguments_of(event.args.unwrap_or(raw)));
            let mut added = step.call(None, Some(name.clone()), tool, arguments);
            if ENDS.contains(&action) && added.is_ok() {
                let answer = ToolAnswer { result: String::new(), failed: false, time };
                added = step.end_call(&name, answer).map(|_| ());
            }
            self.run.check(added);
        }
        if action == "delegate" && self.child.is_none() {
            self.child = Some((AgentState::default(), AgentTimeline::child(time)));
        }
    }

    fn begin(&mut self, response: Option<u64>, time: Time, reply: ModelResponse, text: String) {
        let (state, timeline) = self.agent();
        state.response = response;
        let failures = std::mem::take(&mut state.failures);
        let begun = timeline.last().or(time);
        timeline.seen_by(time);
        let step = timeline.begin(begun);
        // As many as a step holds.
        let _held = (0..failures).try_for_each(|_| step.fail(None));
        step.answer(time, reply);
        let added = step.say(time, text);
        self.run.check(added);
    }

    fn observation(&mut self, event: &OpenHandsEvent<'_>, time: Time) {
        let metadata = event.tool_call_metadata.as_ref();
        let id = metadata.and_then(|metadata| metadata.tool_call_id.as_deref());
        let cause = event.cause.map(|cause| cause.get().to_owned());
        let is_old = event.source.is_none() && event.id.is_none();
        let kind = event.observation.as_deref();
        let (state, timeline) = self.agent();
        let call = timeline.step().and_then(|step| {
            let named = [id, cause.as_deref()].into_iter().flatten().find(|id| step.awaits(id));
            // An old observation names none.
            let name = named.or_else(|| step.waiting().filter(|_| is_old))?.to_owned();
            Some((step, name))
        });
        match call {
            Some((step, name)) => {
                step.set_call(&name, None, kind == Some("user_rejected"));
                let (result, failed) = (words(event.content), event.has_failed());
                let added = step.end_call(&name, ToolAnswer { result, failed, time });
                timeline.seen_by(time);
                self.run.check(added.map(drop));
            }
            None if kind == Some("error") && event.cause.is_none() => {
                state.failures = state.failures.saturating_add(1);
            }
            None => {}
        }
    }

    fn agent(&mut self) -> (&mut AgentState, &mut AgentTimeline) {
        match &mut self.child {
            Some((state, timeline)) => (state, timeline),
            None => (&mut self.own, self.run.own()),
        }
    }

    /// The next entry of an agent. One of the run itself is written, with the acts of sub-agents in the meantime.
    fn push(&mut self, entry: TimelineEntry) {
        self.has_begun = true;
        self.agent().1.push(entry);
        self.write();
    }

    fn close(&mut self) {
        let (_, timeline) = self.agent();
        if timeline.step().is_some() {
            timeline.close();
            self.has_begun = true;
            self.write();
        }
    }

    fn write(&mut self) {
        if self.child.is_none() {
            self.run.write_own();
            self.held = 0;
        }
    }

    fn end_child(&mut self) {
        self.close();
        if let Some((_, mut timeline)) = self.child.take() {
            timeline.end_child();
            self.run.child(timeline);
            self.tally.has_children = true;
        }
    }

    /// Ends the run, if it has begun.
    fn finish(mut self) -> CallTally {
        if self.child.is_some() {
            self.end_child();
        }
        self.close();
        self.run.end();
        self.tally
    }
}

fn reply_of(reading: Reading<'_>, response: Option<LlmResponse<'_>>, time: Time) -> ModelResponse {
    let response = response.unwrap_or_default();
    let usage = reading.usage::<Value>(response.usage, "usage");
    let call = usage.as_ref().map(|usage| ModelCall {
        service_tier: response.service_tier.as_deref(),
        ..ModelCall::new(UsageShape::OpenAiChat, usage).at(time)
    });
    let finish = response.choices.and_then(|choices| choices.into_iter().next()?.finish_reason);
    let reply = reading.reply(response.model, call, "usage");
    ModelResponse { finish: finish.map(Into::into), ..reply }
}

#[cfg(test)]
mod tests;
