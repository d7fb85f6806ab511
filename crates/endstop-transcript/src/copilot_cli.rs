//! Sessions of GitHub Copilot CLI, and the transcripts that Copilot keeps for VS Code: JSON lines, one event each.
//!
//! - `assistant.message` is one model call. `tool.execution_complete` answers a tool call by its id; a call that no response
//!   lists begins with `tool.execution_start`.
//! - The usage of a call is in an `assistant.usage` event, which only the output of `copilot --output-format json`
//!   has. A session's file has sums: `session.shutdown` has the usage of each model since the session began or was
//!   resumed. The sum of the model in use is put on the last call before it, and that of each other model is a
//!   separate call: the run's tokens and cost are right at its end, and those of its parts are unknown.
//! - The input includes what was cached. Premium requests are no money; the price table computes what tokens cost.
//! - An event with an `agentId` is of a sub-agent.

use std::collections::BTreeMap;

use endstop_price::UsageShape;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::builder::RunBuilder;
use super::call_charge::{ModelCall, as_anthropic_without_cached};
use super::limits::MAX_MODELS;
use super::reading::Reading;
use super::step::{CostSource, Full, ModelResponse};
use super::text::{Text, compact, text_or_json, word};
use super::time::{Time, parse_time};
use super::timeline::AgentTimeline;
use super::warning::Warnings;
use super::{Head, RunSink};

const START: &str = "session.start";
const SHUTDOWN: &str = "session.shutdown";
const USAGE: &str = "assistant.usage";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut lines = head.lines();
    lines.any(|keys| keys.have(&["type", "data", "id", "timestamp"]))
        && (head.mentions("\"session.start\"") || head.mentions("\"copilot-agent\""))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let outline = Outline::of(reading);
    let mut run = RunBuilder::new(reading, sink);
    run.has_money(outline.has_usage || outline.last_sum > 0);
    let mut session = CopilotSession { run, outline, model: None, call: None };
    let mut lines = reading.lines();
    while lines.advance() {
        if let Some(event) = lines.parse::<Event<'_>>() {
            session.run.at_line(lines.number());
            let added = session.event(event, lines.number());
            session.run.check(added);
            session.run.write_own();
        }
    }
    session.run.end();
}

/// The facts about a file that its events depend on.
#[derive(Clone, Copy, Default)]
struct Outline {
    /// Events have the usage of each call.
    has_usage: bool,
    /// The line of the last sum; 0 without one.
    last_sum: u64,
}

impl Outline {
    fn of(reading: Reading<'_>) -> Self {
        // Warnings are given when the events are read.
        let discarded = Warnings::default();
        let reading = reading.telling(&discarded);
        let mut outline = Self::default();
        let mut lines = reading.lines();
        while lines.advance() {
            let has = |text: &str| memmem::find(lines.text(), text.as_bytes()).is_some();
            outline.has_usage |= has("\"assistant.usage\"");
            if has("\"session.shutdown\"") {
                outline.last_sum = lines.number();
            }
        }
        outline
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    timestamp: Option<&'a RawValue>,
    agent_id: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
}

/// The data of the event, for all kinds that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Data<'a> {
    session_id: Option<&'a RawValue>,
    parent_tool_call_id: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    new_model: Option<&'a RawValue>,
    selected_model: Option<&'a RawValue>,
    current_model: Option<&'a RawValue>,
    tool_requests: Option<Vec<ToolRequest<'a>>>,
    tool_call_id: Option<&'a RawValue>,
    tool_name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    success: Option<bool>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    model_metrics: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ToolRequest<'a> {
    tool_call_id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    arguments: Option<&'a RawValue>,
}

/// The result of a tool, or the reason why it failed.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Outcome<'a> {
    content: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ModelMetrics {
    usage: Option<Value>,
}

struct CopilotSession<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    outline: Outline,
    model: Option<String>,
    /// When the last call of the run itself was answered, if no sum has been recorded since.
    call: Option<Time>,
}

impl CopilotSession<'_, '_> {
    fn event(&mut self, event: Event<'_>, line: u64) -> Result<(), Full> {
        let kind = event.kind.unwrap_or_default();
        let time = word(event.timestamp).and_then(|text| parse_time(&text));
        let wrong = "data is not of this format";
        let data = event.data.and_then(|data| self.run.reading.parse::<Data<'_>>(data, wrong));
        let data = data.unwrap_or_default();
        let model =
            [data.new_model, data.selected_model, data.current_model].into_iter().find_map(word);
        let agent = word(event.agent_id).or_else(|| word(data.parent_tool_call_id));
        if let (Some(model), None) = (model, &agent) {
            self.model = Some(model.into_owned());
        }
        match (&*kind, agent) {
            (START, _) => {
                let id = word(data.session_id).map(Text::into_owned);
                self.run.set_id(|| id);
            }
            ("user.message", None) => self.run.own().user(time),
            ("assistant.message", agent) => {
                return self.reply(data, agent.as_deref(), time, line);
            }
            (USAGE, agent) => {
                self.used(event.data, word(data.model).as_deref(), agent.as_deref(), time);
            }
            ("tool.execution_start", agent) => {
                let step = self.agent(agent.as_deref(), time).step();
                if let (Some(id), Some(step)) = (word(data.tool_call_id), step)
                    && !step.set_call(&id, time, false)
                {
                    // Some versions do not list in a response what it asked for.
                    let tool = word(data.tool_name).unwrap_or_default();
                    return step.call(time, Some(id), tool, compact(data.arguments));
                }
            }
            ("tool.execution_complete", agent) => {
                return self.result(&data, agent.as_deref(), time);
            }
            ("subagent.completed" | "subagent.failed", agent) => {
                if let Some(agent) = agent.or_else(|| word(data.tool_call_id)) {
                    self.run.end_agent(&agent, time);
                }
            }
            (SHUTDOWN, _) if !self.outline.has_usage => self.sums(data.model_metrics),
            _ => {}
        }
        Ok(())
    }

    /// The timeline of a sub-agent, which begins with it, or of the run itself.
    fn agent(&mut self, agent: Option<&str>, time: Time) -> &mut AgentTimeline {
        let timeline = self.run.agent(agent);
        if agent.is_some() {
            timeline.begin_child(time, 1);
        }
        timeline
    }

    fn reply(
        &mut self,
        data: Data<'_>,
        agent: Option<&str>,
        time: Time,
        line: u64,
    ) -> Result<(), Full> {
        let named = word(data.model).map(Text::into_owned);
        let mut reply =
            ModelResponse::of_model(named.or(self.model.clone().filter(|_| agent.is_none())));
        if line < self.outline.last_sum && !self.outline.has_usage {
            // Its cost is in the sum.
            reply.source = CostSource::Computed;
        }
        if agent.is_none() {
            self.call = Some(time);
        }
        let step = self.agent(agent, time).reply(time, reply);
        step.say(time, word(data.content).unwrap_or_default())?;
        for request in data.tool_requests.into_iter().flatten() {
            let tool = request.name.unwrap_or_default();
            step.call(time, request.tool_call_id, tool, compact(request.arguments))?;
        }
        Ok(())
    }

    fn result(&mut self, data: &Data<'_>, agent: Option<&str>, time: Time) -> Result<(), Full> {
        let failed = data.success == Some(false);
        let told = if failed { data.error.or(data.result) } else { data.result };
        let outcome = told.and_then(|told| serde_json::from_str::<Outcome<'_>>(told.get()).ok());
        let text = outcome.and_then(|outcome| outcome.content.or(outcome.message)).or(told);
        let timeline = self.agent(agent, time);
        timeline.seen(time);
        let (Some(id), Some(step)) = (word(data.tool_call_id), timeline.step()) else {
            return Ok(());
        };
        step.result_of(&id, time, text_or_json(text), failed).map(drop)
    }

    /// The usage of the call that was answered last.
    fn used(
        &mut self,
        usage: Option<&RawValue>,
        model: Option<&str>,
        agent: Option<&str>,
        time: Time,
    ) {
        let reading = self.run.reading;
        let Some(usage) = reading.usage::<Value>(usage, USAGE) else { return };
        let reply = priced(reading, model, &usage, time);
        if let Some(step) = self.agent(agent, time).step() {
            step.answer(time, reply);
        }
    }

    /// The usage of each model since the session began or was resumed.
    fn sums(&mut self, metrics: Option<&RawValue>) {
        let reading = self.run.reading;
        let metrics = reading.usage::<BTreeMap<String, ModelMetrics>>(metrics, "modelMetrics");
        let call = self.call.take();
        let mut models: Vec<_> = metrics.unwrap_or_default().into_iter().collect();
        models.truncate(MAX_MODELS);
        // The sort is stable: the model in use comes first.
        models.sort_by_key(|(model, _)| Some(model) != self.model.as_ref());
        let mut call = call.filter(|_| self.run.step().is_some());
        for (model, usage) in models {
            let Some(usage) = usage.usage else { continue };
            let last = self.run.last();
            let reply = priced(reading, Some(&model), &usage, call.flatten().or(last));
            match (call.take(), self.run.step()) {
                (Some(time), Some(step)) => step.answer(time, reply),
                _ => self.run.own().begin(last).answer(last, reply),
            }
        }
    }
}

/// A response of this model with its usage and cost.
fn priced(reading: Reading<'_>, model: Option<&str>, usage: &Value, time: Time) -> ModelResponse {
    // The names of Anthropic's models have dashes elsewhere, and no length of the context.
    let listed = model.map(|model| match model.strip_prefix("claude-") {
        Some(_) => model.trim_end_matches("-1m").replace('.', "-"),
        None => model.to_owned(),
    });
    let count = |name: &str| usage.get(name).cloned().unwrap_or_else(|| json!(0));
    let names = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"];
    let usage = as_anthropic_without_cached(names.map(count));
    let call = ModelCall::new(UsageShape::Anthropic, &usage).at(time);
    let call = ModelCall { model: listed.as_deref(), ..call };
    reading.reply(model, Some(call), "usage of a model")
}
