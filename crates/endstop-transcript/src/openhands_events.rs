//! Conversations of the OpenHands SDK: a directory with `base_state.json` and one JSON document for each event in
//! `events/`. The directory is one run.
//!
//! - Actions with one `llm_response_id` are one model call, and so is a message of the agent. Observations and errors
//!   answer them by the id of the tool call.
//! - Usage and cost of calls are in `base_state.json`, by the id of the response; without it, they are unknown. Usage
//!   there that belongs to no event, such as that of a condenser, makes tokens and cost lower bounds.
//! - Times carry no zone; they are taken as UTC.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::call_charge::{ModelCall, with_cost};
use super::head::first_keys;
use super::paths::{directory_named, entries_of};
use super::reading::Reading;
use super::step::Full;
use super::text::{Text, text_of, text_or_json};
use super::time::{Time, parse_civil};
use super::warning::WarningKind;
use super::{Head, RunSink};

/// The file with the state of a whole conversation, and the directory of its events.
const STATE: &str = "base_state.json";
const EVENTS: &str = "events";

/// Keys of an event.
const EVENT: [&str; 4] = ["id", "timestamp", "source", "kind"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.object() else { return false };
    let is_state = keys.have(&["id", "agent"])
        && (head.mentions("\"usage_to_metrics\"") || head.mentions("\"execution_status\""));
    is_state || (keys.have(&EVENT) && head.mentions("Event\""))
}

pub(crate) fn parent(path: &Path, _: &Head<'_>) -> Option<PathBuf> {
    let events = directory_named(path, EVENTS)?;
    let state = events.parent()?.join(STATE);
    if state.is_file() {
        return Some(state);
    }
    // Without the state, the first event stands for the run.
    entries_of(Some(events)).min().filter(|first| first != path)
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    let events = || path.with_file_name(EVENTS);
    vec![directory_named(path, EVENTS).map_or_else(events, Path::to_owned)]
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let is_state = !first_keys(reading.part).is_some_and(|keys| keys.have(&EVENT));
    let mut state = RecordedCalls::default();
    if is_state {
        reading.whole(&mut |document| {
            let wrong = "not a state of this format";
            state = reading
                .parse::<RecordedState>(document, wrong)
                .map(RecordedCalls::of)
                .unwrap_or_default();
        });
    }
    let own = (!is_state).then_some(reading);
    let mut files: Vec<Reading<'_>> = own.into_iter().chain(reading.child_files()).collect();
    files.sort_by(|one, other| one.part.name().cmp(other.part.name()));
    let run = RunBuilder::new(reading, sink).named(state.id.take()).with_model(state.model.clone());
    let mut chat = OpenHandsConversation { run, state, response: None };
    for file in files {
        file.whole(&mut |document| {
            if let Some(event) =
                file.parse::<RecordedEvent<'_>>(document, "not an event of this format")
            {
                let added = chat.event(event, file);
                chat.run.check(added);
            }
        });
    }
    let left = !chat.state.usage.is_empty();
    if left {
        reading.warn(WarningKind::LowerBound, || {
            "calls without an event are not counted: tokens and cost are lower bounds".to_owned()
        });
    }
    chat.run.is_lower_bound(left);
    chat.run.end();
}

#[derive(Deserialize)]
struct RecordedState {
    id: Option<String>,
    agent: Option<Agent>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
struct Agent {
    llm: Option<Llm>,
}

#[derive(Deserialize)]
struct Llm {
    model: Option<String>,
}

#[derive(Deserialize)]
struct Stats {
    usage_to_metrics: Option<BTreeMap<String, RecordedMetrics>>,
}

#[derive(Deserialize)]
struct RecordedMetrics {
    costs: Option<Vec<Cost>>,
    token_usages: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Cost {
    cost: Option<Value>,
}

/// The data about calls in the state.
#[derive(Default)]
struct RecordedCalls {
    id: Option<String>,
    model: Option<String>,
    /// By the id of the response, with what it cost as `cost`.
    usage: BTreeMap<String, Value>,
}

impl RecordedCalls {
    fn of(recorded: RecordedState) -> Self {
        let metrics = recorded.stats.and_then(|stats| stats.usage_to_metrics);
        let mut usage = BTreeMap::new();
        for metrics in metrics.into_iter().flat_map(BTreeMap::into_values) {
            let usages = metrics.token_usages.unwrap_or_default();
            let costs = metrics.costs.unwrap_or_default();
            // Costs name no response: they are assigned by their order, if each call has one.
            let has_costs = costs.len() == usages.len();
            let costs = costs.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            for (one, cost) in usages.into_iter().zip(costs) {
                let id = one.get("response_id").and_then(Value::as_str).unwrap_or_default();
                let cost = cost.and_then(|cost| cost.cost).filter(|_| has_costs);
                usage.insert(id.to_owned(), with_cost(one, cost));
            }
        }
        let model = recorded.agent.and_then(|agent| agent.llm).and_then(|llm| llm.model);
        Self { id: recorded.id, model, usage }
    }
}

/// An event.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RecordedEvent<'a> {
    kind: Option<Text<'a>>,
    source: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    llm_response_id: Option<Text<'a>>,
    llm_message: Option<RecordedMessage<'a>>,
    thought: Option<&'a RawValue>,
    tool_name: Option<Text<'a>>,
    tool_call_id: Option<Text<'a>>,
    tool_call: Option<RecordedToolCall<'a>>,
    observation: Option<Observation<'a>>,
    error: Option<&'a RawValue>,
    rejection_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RecordedMessage<'a> {
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RecordedToolCall<'a> {
    arguments: Option<&'a RawValue>,
    /// Where earlier versions kept the arguments.
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Function<'a> {
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Observation<'a> {
    content: Option<&'a RawValue>,
    /// Where earlier versions kept the result.
    output: Option<&'a RawValue>,
    is_error: Option<bool>,
}

struct OpenHandsConversation<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    state: RecordedCalls,
    /// The response that the open step is of.
    response: Option<String>,
}

impl OpenHandsConversation<'_, '_> {
    fn event(&mut self, event: RecordedEvent<'_>, file: Reading<'_>) -> Result<(), Full> {
        let time = event.timestamp.as_deref().and_then(parse_civil);
        self.run.note(time);
        let is_agent = event.source.as_deref() == Some("agent");
        match event.kind.as_deref() {
            Some("MessageEvent") if is_agent => {
                let words = event.llm_message.and_then(|message| text_of(message.content));
                self.reply(event.llm_response_id, time, words, file)
            }
            Some("MessageEvent") if event.source.as_deref() == Some("user") => {
                self.run.user(time);
                self.response = None;
                Ok(())
            }
            Some("ActionEvent") => {
                let words = text_of(event.thought);
                self.reply(event.llm_response_id, time, words, file)?;
                let asked = event.tool_call;
                let arguments = asked.and_then(|asked| {
                    asked.arguments.or(asked.function.and_then(|function| function.arguments))
                });
                let tool = event.tool_name.unwrap_or_default();
                let step = self.run.step_or_begin(time);
                step.call(time, event.tool_call_id, tool, text_or_json(arguments))
            }
            Some("ObservationEvent") => {
                let seen = event.observation;
                let failed = seen.as_ref().is_some_and(|seen| seen.is_error == Some(true));
                let result = seen.and_then(|seen| text_of(seen.content.or(seen.output)));
                self.run.result(
                    event.tool_call_id.as_deref(),
                    time,
                    result.unwrap_or_default(),
                    failed,
                )
            }
            Some("AgentErrorEvent") => {
                let result = text_or_json(event.error);
                self.run.result(event.tool_call_id.as_deref(), time, result, true)
            }
            Some("UserRejectObservation") => {
                let result = event.rejection_reason.unwrap_or_default().into_owned();
                self.run.result(event.tool_call_id.as_deref(), time, result, true)
            }
            _ => Ok(()),
        }
    }

    /// The response that an event comes from is answered, unless its step is open.
    fn reply(
        &mut self,
        id: Option<Text<'_>>,
        time: Time,
        words: Option<String>,
        file: Reading<'_>,
    ) -> Result<(), Full> {
        const USAGE: &str = "usage of a response";
        let id = id.map(Text::into_owned);
        if id.is_none() || self.response != id || self.run.step().is_none() {
            let usage = id.as_ref().and_then(|id| self.state.usage.remove(id)).map(as_chat_usage);
            let model = usage.as_ref().and_then(|usage| usage.get("model")?.as_str());
            let model = model.filter(|model| !model.is_empty()).or(self.run.model());
            let call = usage.as_ref().map(|usage| ModelCall::new(UsageShape::OpenAiChat, usage));
            let reply = file.reply(model, call.map(|call| call.at(time)), USAGE);
            self.run.reply(time, reply);
            self.response = id;
        }
        let step = self.run.step();
        step.map_or(Ok(()), |step| step.say(time, words.unwrap_or_default()))
    }
}

/// The SDK's own names of counts, as chat completions have them. Its input includes what was cached.
fn as_chat_usage(mut usage: Value) -> Value {
    let Some(fields) = usage.as_object_mut() else { return usage };
    let mut details = serde_json::Map::new();
    for (from, to) in
        [("cache_read_tokens", "cached_tokens"), ("cache_write_tokens", "cache_write_tokens")]
    {
        details.extend(fields.remove(from).map(|count| (to.to_owned(), count)));
    }
    fields.insert("prompt_tokens_details".to_owned(), Value::Object(details));
    usage
}
