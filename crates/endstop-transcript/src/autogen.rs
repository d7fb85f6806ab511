//! AutoGen: results of AgentChat, a `TaskResult` or its list of messages.
//!
//! - A message with `models_usage`, or a request for tools, is one model call; other messages of agents, such
//!   as summaries and the output of code, are none. A usage of 0 and 0 is what a client reports that knows
//!   nothing, so it is unknown.
//! - Messages of source `user`, and of whoever was asked for input, are turns of the user.
//! - No model is named, so there is no money. `stop_reason` is free text and tells no outcome.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::act::{Act, Full, Reply, Step, Time, parse_time};
use super::bill::{ModelCall, bill};
use super::document::{Element, Wanted, each_element};
use super::part::Part;
use super::player::Player;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};
use endstop_price::{PriceTable, UsageShape};

/// Who gives a task, unless it is said otherwise.
const USER: &str = "user";

/// The format.
pub(super) struct AutoGen;

impl Format for AutoGen {
    fn id(&self) -> &'static str {
        "autogen"
    }

    fn describe(&self) -> &'static str {
        "results of AutoGen AgentChat, {\"messages\": [...], \"stop_reason\": ...}"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let Some(keys) = head.document() else { return false };
        if keys.in_list {
            return keys.have(&["source", "models_usage"]);
        }
        // The reason comes after all messages, so it may be in neither end of a large file.
        keys.have(&["messages"]) && head.mentions("\"models_usage\"") && head.mentions("\"source\"")
    }

    fn supplies(&self) -> Supplies {
        Supplies { tokens: true, time: true, tool_failures: true, ..Supplies::default() }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        read_all(source, sink, &mut warnings);
        warnings.send(sink);
    }
}

/// A message of AgentChat.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    models_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Execution<'a> {
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn read_all(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let part = source.main;
    let header =
        RunHeader { id: part.stem(), format: AutoGen.id(), file: part.name(), model: None };
    let mut gather = Gather::new(part, source.prices, Player::new(sink, header));
    let wanted = Wanted { list: &["messages"], beside: &[] };
    each_element(part, wanted, warnings, &mut |element, warnings| {
        if let Element::Item(item) = element {
            gather.take(item, warnings);
        }
    });
    gather.close();
    gather.player.end(Closing::default());
}

fn too_large(part: &Part, warnings: &mut Warnings) {
    warnings.add(WarningKind::TooLarge, part.name(), None, || {
        "a step holds more than is kept; the rest of it is dropped".to_owned()
    });
}

/// Plays the messages of one result.
struct Gather<'s, 'h> {
    part: &'s Part,
    prices: &'s PriceTable,
    player: Player<'h, 's>,
    /// Sources that are people.
    people: BTreeSet<String>,
    open: Option<Step>,
    last: Time,
}

impl<'s, 'h> Gather<'s, 'h> {
    fn new(part: &'s Part, prices: &'s PriceTable, player: Player<'h, 's>) -> Self {
        let people = BTreeSet::from([USER.to_owned()]);
        Self { part, prices, player, people, open: None, last: None }
    }

    fn take(&mut self, raw: &RawValue, warnings: &mut Warnings) {
        let message: Message<'_> = match serde_json::from_str(raw.get()) {
            Ok(message) => message,
            Err(error) => return self.malformed("a message", &error, warnings),
        };
        let time = message.created_at.as_deref().and_then(parse_time);
        self.player.note(time);
        let kind = message.kind.as_deref().unwrap_or_default();
        let usage = message.models_usage.map(RawValue::get).filter(|usage| *usage != "null");
        let source = message.source.as_deref().unwrap_or_default();
        let taken = match kind {
            "ToolCallExecutionEvent" => self.executed(message.content, time, warnings),
            "UserInputRequestedEvent" => {
                self.people.insert(source.to_owned());
                Ok(())
            }
            "ToolCallRequestEvent" => self.call(&message, usage, time, warnings),
            _ if usage.is_some() => self.call(&message, usage, time, warnings),
            _ if kind.ends_with("Message") && self.people.contains(source) => {
                self.close();
                self.player.act(Act::User(time));
                self.last = time.or(self.last);
                Ok(())
            }
            _ => Ok(()),
        };
        if taken == Err(Full) {
            too_large(self.part, warnings);
        }
    }

    fn malformed(&self, what: &str, error: &serde_json::Error, warnings: &mut Warnings) {
        let message = || format!("not {what} of this format: {error}");
        warnings.add(WarningKind::Malformed, self.part.name(), None, message);
    }

    fn call(
        &mut self,
        message: &Message<'_>,
        usage: Option<&str>,
        time: Time,
        warnings: &mut Warnings,
    ) -> Result<(), Full> {
        self.close();
        let reply = self.reply(usage, time, warnings);
        let mut step = Step::begin(self.last.or(time));
        self.last = time.or(self.last);
        step.answer(time, reply);
        let step = self.open.insert(step);
        if message.kind.as_deref() != Some("ToolCallRequestEvent") {
            let text = words(message.content);
            return if text.is_empty() { Ok(()) } else { step.say(time, text) };
        }
        let requests = message.content.map_or("[]", RawValue::get);
        match serde_json::from_str::<Vec<Request<'_>>>(requests) {
            Ok(requests) => requests.into_iter().try_for_each(|request| {
                let (name, arguments) = (request.name, request.arguments);
                let text = |text: Option<Cow<'_, str>>| text.unwrap_or_default().into_owned();
                step.call(time, request.id.map(Cow::into_owned), text(name), text(arguments))
            }),
            Err(error) => {
                self.malformed("a request for tools", &error, warnings);
                Ok(())
            }
        }
    }

    fn reply(&self, usage: Option<&str>, time: Time, warnings: &mut Warnings) -> Reply {
        let mut reply = Reply::default();
        let told = |problem: &str, warnings: &mut Warnings| {
            let message = || format!("usage: {problem}");
            warnings.add(WarningKind::BadNumber, self.part.name(), None, message);
        };
        let Some(usage) = usage else { return reply };
        let usage: Value = match serde_json::from_str(usage) {
            Ok(usage) => usage,
            Err(error) => {
                told(&error.to_string(), warnings);
                return reply;
            }
        };
        let call = ModelCall {
            providers: &[],
            model: None,
            shape: UsageShape::OpenAiChat,
            usage: &usage,
            service_tier: None,
            time,
        };
        let bill = bill(&call, self.prices);
        if let Some(problem) = &bill.problem {
            told(problem, warnings);
        }
        reply.usage = bill.usage.filter(|usage| usage.total() > 0);
        reply
    }

    fn executed(
        &mut self,
        content: Option<&RawValue>,
        time: Time,
        warnings: &mut Warnings,
    ) -> Result<(), Full> {
        let results = content.map_or("[]", RawValue::get);
        let results: Vec<Execution<'_>> = match serde_json::from_str(results) {
            Ok(results) => results,
            Err(error) => {
                self.malformed("a list of results", &error, warnings);
                return Ok(());
            }
        };
        let Some(step) = &mut self.open else { return Ok(()) };
        self.last = time.or(self.last);
        results.into_iter().try_for_each(|execution| {
            let (id, failed) = (execution.call_id.unwrap_or_default(), execution.is_error);
            let result = words(execution.content);
            step.result_of(&id, time, result, failed.unwrap_or(false)).map(|_| ())
        })
    }

    fn close(&mut self) {
        if let Some(step) = self.open.take() {
            self.player.act(Act::Step(Box::new(step)));
        }
    }
}

/// A text, or the JSON as it is. Null and absent are empty.
fn words(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else {
        return String::new();
    };
    serde_json::from_str::<Text<'_>>(raw).map_or(raw.to_owned(), |text| text.0.into_owned())
}

#[cfg(test)]
#[path = "autogen_tests.rs"]
mod tests;
