//! tau2-bench results: one JSON document, in which each of the `simulations` is a run; or `results.json` without
//! them, next to a directory `simulations` with a document for each.
//!
//! - An assistant message is one model call. The greeting with which the harness opens a conversation is
//!   none: it has neither usage nor a raw response.
//! - The user is simulated by a model. Its text is a user turn; its tokens, its money and its own tool calls are not
//!   the agent's.
//! - A message's `cost` is the cost of the call. The tool writes 0 for a model that it has no price for: with tokens
//!   recorded, such a call is priced by the table.
//! - Times carry no zone; they are taken as UTC.
//! - A run succeeded if its reward is 1.

use std::path::{Path, PathBuf};

use endstop_core::units::{Cost, Money};
use endstop_price::{UsageShape, billed_cost};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::head::first_keys;
use super::openai_chat::{ChatChoice, finish_of_first};
use super::paths::directory_named;
use super::reading::Reading;
use super::step::{CostSource, Full, ModelResponse};
use super::text::{Text, is_full_reward, name_of, present, text_of};
use super::time::{Time, parse_civil};
use super::warning::WarningKind;
use super::{Head, RunSink};

/// Who asks for the tools of the simulated user.
const USER: &str = "user";

/// The key of the simulations, and the directory that has them instead.
const SIMULATIONS: &str = "simulations";

/// Keys of a simulation in a separate file.
const SIMULATION: [&str; 3] = ["task_id", "start_time", "termination_reason"];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.object() else { return false };
    if keys.have(&SIMULATION) {
        return true;
    }
    // The tasks come before the simulations, and may fill the head.
    keys.have(&["info"])
        && (keys.have(&["simulations"]) || keys.have(&["tasks"]))
        && (head.mentions("\"agent_info\"") || head.mentions("\"reward_info\""))
}

/// The results that a simulation in a separate file belongs to.
pub(crate) fn parent(path: &Path, head: &Head<'_>) -> Option<PathBuf> {
    let keys = head.object().filter(|keys| keys.have(&SIMULATION));
    keys.and(Some(directory_named(path, SIMULATIONS)?.with_file_name("results.json")))
}

pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    vec![path.with_file_name(SIMULATIONS)]
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut model = None;
    reading.look_for(&["info"], &mut |_, info| model = model_of(info));
    let mut take = |item: &RawValue, reading: Reading<'_>| {
        let wrong = "a simulation is not of this format";
        if let Some(simulation) = reading.parse::<Simulation<'_>>(item, wrong) {
            read_simulation(&simulation, model.as_deref(), reading, sink);
        }
    };
    if first_keys(reading.part).is_some_and(|keys| keys.have(&SIMULATION)) {
        return reading.whole(&mut |document| take(document, reading));
    }
    reading.each_item(&[SIMULATIONS], &mut |item| take(item, reading));
    for file in reading.child_files() {
        file.whole(&mut |document| take(document, file));
    }
}

fn model_of(info: &RawValue) -> Option<String> {
    let info: TauInfo<'_> = serde_json::from_str(info.get()).ok()?;
    Some(info.agent_info?.llm?.into_owned()).filter(|name| !name.is_empty())
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct TauInfo<'a> {
    agent_info: Option<AgentInfo<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct AgentInfo<'a> {
    llm: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Simulation<'a> {
    id: Option<Value>,
    task_id: Option<Value>,
    trial: Option<Value>,
    start_time: Option<Text<'a>>,
    reward_info: Option<&'a RawValue>,
    messages: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct RewardInfo {
    reward: Option<Value>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct TauMessage<'a> {
    role: Text<'a>,
    content: Option<&'a RawValue>,
    timestamp: Option<Text<'a>>,
    tool_calls: Option<Vec<TauToolCall<'a>>>,
    usage: Option<&'a RawValue>,
    cost: Option<&'a RawValue>,
    raw_data: Option<&'a RawValue>,
    /// Of a tool's message: its call, who asked for it, whether it failed.
    id: Option<Text<'a>>,
    requestor: Option<Text<'a>>,
    error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct TauToolCall<'a> {
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    arguments: Option<&'a RawValue>,
}

/// The provider's response, or the one choice of it.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RawResponse<'a> {
    finish_reason: Option<Text<'a>>,
    choices: Option<Vec<ChatChoice<'a>>>,
}

fn read_simulation(
    simulation: &Simulation<'_>,
    model: Option<&str>,
    reading: Reading<'_>,
    sink: &mut dyn RunSink,
) {
    let messages = simulation.messages.iter().flatten();
    let messages: Vec<TauMessage<'_>> = messages
        .filter_map(|message| reading.parse(message, "a message is not of this format"))
        .collect();
    if messages.is_empty() {
        return reading.warn(WarningKind::NoRuns, || {
            "a simulation without messages, as of voice agents, is not read".to_owned()
        });
    }
    let name = |value: &Option<Value>| name_of(value.as_ref());
    let place = || {
        let (task, trial) = (name(&simulation.task_id), name(&simulation.trial));
        format!("{}/{}", task.unwrap_or_default(), trial.unwrap_or_default())
    };
    let id = name(&simulation.id).unwrap_or_else(place);
    let start = simulation.start_time.as_deref().and_then(parse_civil);
    let mut run = RunBuilder::new(reading, sink).named(Some(id)).with_model(model);
    run.begin(start.or_else(|| messages.iter().find_map(TauMessage::time)));
    run.seen(start);
    let mut dialog = Dialog { run, has_begun: false };
    for message in messages {
        let time = message.time();
        let added = dialog.message(message, time);
        dialog.run.seen(time);
        dialog.run.check(added);
    }
    dialog.run.outcome(outcome_of(simulation.reward_info));
    dialog.run.end();
}

fn outcome_of(reward_info: Option<&RawValue>) -> Option<bool> {
    let info: RewardInfo = serde_json::from_str(reward_info?.get()).ok()?;
    info.reward?.as_f64().map(is_full_reward)
}

impl TauMessage<'_> {
    fn time(&self) -> Time {
        self.timestamp.as_deref().and_then(parse_civil)
    }
}

struct Dialog<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// A message that counts was seen.
    has_begun: bool,
}

impl Dialog<'_, '_> {
    fn message(&mut self, message: TauMessage<'_>, time: Time) -> Result<(), Full> {
        match &*message.role {
            "user" => {
                // A call of one of the user's tools says nothing to the agent.
                if text_of(message.content).is_some_and(|text| !text.trim().is_empty()) {
                    self.has_begun = true;
                    self.run.user(time);
                }
                Ok(())
            }
            "assistant" => self.reply(message, time),
            "tool" if message.requestor.as_deref() != Some(USER) => {
                let (id, failed) = (message.id.as_deref(), message.error == Some(true));
                self.run.result(id, time, text_of(message.content).unwrap_or_default(), failed)
            }
            _ => Ok(()),
        }
    }

    fn reply(&mut self, message: TauMessage<'_>, time: Time) -> Result<(), Full> {
        let has_nothing =
            [message.usage, message.raw_data].into_iter().all(|r| present(r).is_none());
        if !self.has_begun && has_nothing && message.tool_calls.is_none() {
            return Ok(());
        }
        self.has_begun = true;
        let reply = self.price(&message, time);
        let step = self.run.reply(time, reply);
        step.say(time, text_of(message.content).unwrap_or_default())?;
        for call in message.tool_calls.into_iter().flatten() {
            let arguments = text_of(call.arguments).unwrap_or_default();
            step.call(time, call.id, call.name.unwrap_or_default(), arguments)?;
        }
        Ok(())
    }

    fn price(&self, message: &TauMessage<'_>, time: Time) -> ModelResponse {
        const USAGE: &str = "usage of a message";
        let raw = message.raw_data.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let reading = self.run.reading;
        let stated = stated_cost(message.cost).unwrap_or_else(|cost| {
            reading.warn(WarningKind::BadNumber, || {
                format!("{USAGE}: `cost` is not an amount of dollars: `{cost}`")
            });
            None
        });
        let (provider, model) = match self.run.model().and_then(|model| model.split_once('/')) {
            Some((provider, model)) => (Some(provider), Some(model)),
            None => (None, None),
        };
        let providers = &[provider, None];
        let usage = reading.usage::<Value>(message.usage, USAGE);
        let call = usage.as_ref().map(|usage| ModelCall::new(UsageShape::OpenAiChat, usage));
        let call = call.map(|call| ModelCall { model, ..call.of(providers).at(time) });
        let mut reply = reading.reply(self.run.model(), call, USAGE);
        if stated.is_some() {
            (reply.cost, reply.source) = (stated, CostSource::Billed);
        }
        ModelResponse { finish: finish_of(raw.unwrap_or_default()), ..reply }
    }
}

fn finish_of(raw: RawResponse<'_>) -> Option<String> {
    raw.finish_reason.map(Text::into_owned).or_else(|| finish_of_first(raw.choices))
}

/// The cost that a message records, unless it is absent or 0; as an error, the text that is not a cost.
fn stated_cost(cost: Option<&RawValue>) -> Result<Option<Cost>, &str> {
    let Some(cost) = present(cost) else { return Ok(None) };
    let value: Value = serde_json::from_str(cost).map_err(|_| cost)?;
    let money = billed_cost(&serde_json::json!({ "cost": value })).ok_or(cost)?;
    Ok((money > Money::ZERO).then_some(Cost::Known(money)))
}

#[cfg(test)]
mod tests;
