//! tau2-bench results: one JSON document, in which each of the `simulations` is a run.
//!
//! - An assistant message is one model call. The greeting with which the harness opens a conversation is
//!   none: it has neither usage nor a raw reply.
//! - The user is simulated by a model. What it says is a user turn; its tokens, its money and its own tool
//!   calls are not the agent's.
//! - A message's `cost` is what the call cost. The tool writes 0 for a model that it has no price for: with
//!   tokens beside it, such a call is priced by the table.
//! - Times carry no zone; they are taken as UTC.
//! - A run succeeded if its reward is 1.

use std::borrow::Cow;

use endstop_core::units::{Cost, Money};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::act::{Act, CostSource, Full, Reply, Step, Time, parse_time};
use super::bill::{ModelCall, bill};
use super::document::{Element, Wanted, each_element, look_for};
use super::text::{name_of, text_of};
use super::warning::{WarningKind, Warnings};
use super::writer::{Closing, RunWriter};
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};
use endstop_price::{UsageShape, billed_cost};

/// The least reward that is a success: 1, but for the rounding of the benchmark's own arithmetic.
const FULL_REWARD: f64 = 1.0 - 1e-6;

/// Who asks for the tools of the simulated user.
const USER: &str = "user";

/// The format.
pub(super) struct Tau2;

impl Format for Tau2 {
    fn id(&self) -> &'static str {
        "tau2"
    }

    fn describe(&self) -> &'static str {
        "tau2-bench results, `data/simulations/*.json`"
    }

    fn kept(&self) -> &'static str {
        "`data/simulations/` of the checkout"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let Some(keys) = head.document().filter(|keys| !keys.in_list) else { return false };
        // The tasks come before the simulations, and may fill the head.
        keys.have(&["info"])
            && (keys.have(&["simulations"]) || keys.have(&["tasks"]))
            && (head.mentions("\"agent_info\"") || head.mentions("\"reward_info\""))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            finish: true,
            ..Supplies::default()
        }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        let mut model = None;
        look_for(source.main, &["info"], &mut |_, info| model = model_of(info));
        let wanted = Wanted { list: &["simulations"], beside: &[] };
        each_element(source.main, wanted, &mut warnings, &mut |element, warnings| {
            if let Element::Item(item) = element {
                read_simulation(item, model.as_deref(), source, sink, warnings);
            }
        });
        warnings.send(sink);
    }
}

fn model_of(info: &RawValue) -> Option<String> {
    let info: Info<'_> = serde_json::from_str(info.get()).ok()?;
    Some(info.agent_info?.llm?.into_owned()).filter(|name| !name.is_empty())
}

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow)]
    agent_info: Option<AgentInfo<'a>>,
}

#[derive(Deserialize)]
struct AgentInfo<'a> {
    #[serde(borrow)]
    llm: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Simulation<'a> {
    id: Option<Value>,
    task_id: Option<Value>,
    trial: Option<Value>,
    #[serde(borrow)]
    start_time: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reward_info: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct RewardInfo {
    reward: Option<Value>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    cost: Option<&'a RawValue>,
    #[serde(borrow)]
    raw_data: Option<&'a RawValue>,
    /// Of a tool's message: its call, who asked for it, whether it failed.
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    requestor: Option<Cow<'a, str>>,
    error: Option<bool>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The provider's reply, or the one choice of it.
#[derive(Default, Deserialize)]
struct RawReply<'a> {
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

fn read_simulation(
    item: &RawValue,
    model: Option<&str>,
    source: &Source<'_>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    let simulation: Simulation<'_> = match serde_json::from_str(item.get()) {
        Ok(simulation) => simulation,
        Err(error) => {
            let message = || format!("a simulation is not of this format: {error}");
            return warnings.add(WarningKind::Malformed, source.main.name(), None, message);
        }
    };
    let mut messages = Vec::new();
    for message in simulation.messages.iter().flatten() {
        match serde_json::from_str::<Message<'_>>(message.get()) {
            Ok(message) => messages.push(message),
            Err(error) => {
                let message = || format!("a message is not of this format: {error}");
                warnings.add(WarningKind::Malformed, source.main.name(), None, message);
            }
        }
    }
    let name = |value: &Option<Value>| name_of(value.as_ref());
    let place = || {
        let (task, trial) = (name(&simulation.task_id), name(&simulation.trial));
        format!("{}/{}", task.unwrap_or_default(), trial.unwrap_or_default())
    };
    let id = name(&simulation.id).unwrap_or_else(place);
    let header = RunHeader { id: &id, format: Tau2.id(), file: source.main.name(), model };
    let start = simulation.start_time.as_deref().and_then(local_time);
    let first = start.or_else(|| messages.iter().find_map(Message::time));
    let writer = RunWriter::begin(sink, &header, first);
    let mut gather = Gather { source, model, writer, open: None, has_begun: false, last: start };
    for message in messages {
        gather.message(message, warnings);
    }
    gather.close();
    let outcome = outcome_of(simulation.reward_info);
    gather.writer.end(Closing { outcome, has_money: true, ..Closing::default() });
}

fn outcome_of(reward_info: Option<&RawValue>) -> Option<bool> {
    let info: RewardInfo = serde_json::from_str(reward_info?.get()).ok()?;
    info.reward?.as_f64().map(|reward| reward >= FULL_REWARD)
}

impl Message<'_> {
    fn time(&self) -> Time {
        self.timestamp.as_deref().and_then(local_time)
    }
}

/// Plays a simulation.
struct Gather<'s, 'w> {
    source: &'s Source<'s>,
    model: Option<&'s str>,
    writer: RunWriter<'w>,
    open: Option<Step>,
    /// Something was said that counts.
    has_begun: bool,
    last: Time,
}

impl Gather<'_, '_> {
    fn message(&mut self, message: Message<'_>, warnings: &mut Warnings) {
        let time = message.time();
        let taken = match &*message.role {
            "user" => self.user(&message, time),
            "assistant" => self.reply(message, time, warnings),
            "tool" => self.result(&message, time),
            _ => Ok(()),
        };
        self.last = time.or(self.last);
        if taken == Err(Full) {
            warnings.add(WarningKind::TooLarge, self.source.main.name(), None, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
    }

    /// A call of one of the user's own tools says nothing to the agent.
    fn user(&mut self, message: &Message<'_>, time: Time) -> Result<(), Full> {
        if text_of(message.content).is_some_and(|text| !text.trim().is_empty()) {
            self.close();
            self.has_begun = true;
            self.writer.act(&Act::User(time));
        }
        Ok(())
    }

    fn reply(
        &mut self,
        message: Message<'_>,
        time: Time,
        warnings: &mut Warnings,
    ) -> Result<(), Full> {
        let has_nothing = [message.usage, message.raw_data].into_iter().all(is_null);
        if !self.has_begun && has_nothing && message.tool_calls.is_none() {
            return Ok(());
        }
        self.close();
        self.has_begun = true;
        let mut step = Step::begin(self.last.or(time));
        step.answer(time, self.price(&message, time, warnings));
        let step = self.open.insert(step);
        if let Some(text) = text_of(message.content).filter(|text| !text.is_empty()) {
            step.say(time, text)?;
        }
        for call in message.tool_calls.into_iter().flatten() {
            let arguments = text_of(call.arguments).unwrap_or_default();
            let tool = call.name.unwrap_or_default().into_owned();
            step.call(time, call.id.map(Cow::into_owned), tool, arguments)?;
        }
        Ok(())
    }

    fn result(&mut self, message: &Message<'_>, time: Time) -> Result<(), Full> {
        let Some(step) = &mut self.open else { return Ok(()) };
        if message.requestor.as_deref() == Some(USER) {
            return Ok(());
        }
        let result = text_of(message.content).unwrap_or_default();
        let failed = message.error == Some(true);
        match message.id.as_deref() {
            Some(id) => step.result_of(id, time, result, failed)?,
            None => step.next_result(time, result, failed)?,
        };
        Ok(())
    }

    fn price(&self, message: &Message<'_>, time: Time, warnings: &mut Warnings) -> Reply {
        let raw = message.raw_data.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let mut reply = Reply {
            model: self.model.map(str::to_owned),
            cost: Some(Cost::Unpriced),
            finish: finish_of(raw.unwrap_or_default()),
            ..Reply::default()
        };
        let mut tell = |problem: &str| {
            let message = || format!("usage of a message: {problem}");
            warnings.add(WarningKind::BadNumber, self.source.main.name(), None, message);
        };
        match stated_cost(message.cost) {
            Ok(Some(cost)) => (reply.cost, reply.source) = (Some(cost), CostSource::Billed),
            Ok(None) => {}
            Err(problem) => tell(&problem),
        }
        let Some(usage) = message.usage.filter(|usage| !is_null(Some(usage))) else { return reply };
        let usage: Value = match serde_json::from_str(usage.get()) {
            Ok(usage) => usage,
            Err(error) => {
                tell(&error.to_string());
                return reply;
            }
        };
        let (provider, model) = match self.model.and_then(|model| model.split_once('/')) {
            Some((provider, model)) => (Some(provider), Some(model)),
            None => (None, self.model),
        };
        let call = ModelCall {
            providers: &[provider, None],
            model,
            shape: UsageShape::OpenAiChat,
            usage: &usage,
            service_tier: None,
            time,
        };
        let bill = bill(&call, self.source.prices);
        if let Some(problem) = bill.problem {
            tell(&problem);
        }
        reply.usage = bill.usage;
        if reply.source != CostSource::Billed {
            (reply.cost, reply.source) = (Some(bill.cost), bill.source);
        }
        reply
    }

    fn close(&mut self) {
        if let Some(step) = self.open.take() {
            self.writer.act(&Act::Step(Box::new(step)));
        }
    }
}

fn is_null(raw: Option<&RawValue>) -> bool {
    raw.is_none_or(|raw| raw.get() == "null")
}

fn finish_of(raw: RawReply<'_>) -> Option<String> {
    let choice = raw.choices.and_then(|choices| choices.into_iter().next());
    raw.finish_reason.or_else(|| choice?.finish_reason).map(Cow::into_owned)
}

/// The cost that a message tells; none where it is absent or 0.
fn stated_cost(cost: Option<&RawValue>) -> Result<Option<Cost>, String> {
    let Some(cost) = cost.filter(|cost| !is_null(Some(cost))) else { return Ok(None) };
    let wrong = || format!("`cost` is not an amount of dollars: `{}`", cost.get());
    let value: Value = serde_json::from_str(cost.get()).map_err(|_| wrong())?;
    let money = billed_cost(&serde_json::json!({ "cost": value })).ok_or_else(wrong)?;
    Ok((money > Money::ZERO).then_some(Cost::Known(money)))
}

/// A time with a zone, or one without, as if of UTC.
fn local_time(text: &str) -> Time {
    let civil = || {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        u64::try_from(time.as_millisecond()).ok()
    };
    parse_time(text).or_else(civil)
}

#[cfg(test)]
#[path = "tau2_tests.rs"]
mod tests;
