//! AutoGen: results of AgentChat, a `TaskResult` or its list of messages.
//!
//! - A message with `models_usage`, or a request for tools, is one model call; other messages of agents, such
//!   as summaries and the output of code, are none. A usage of 0 and 0 is what a client reports that knows
//!   nothing, so it is unknown.
//! - Messages of source `user`, and of any participant that a request for input named, are turns of the user.
//! - No model is named, so there is no money. `stop_reason` is free text and tells no outcome.

use std::collections::BTreeSet;

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::reading::Reading;
use super::step::{Full, ModelResponse};
use super::text::{Text, present, text_or_json};
use super::time::{Time, parse_time};
use super::{Head, RunSink};

/// The source of a task by default.
const USER: &str = "user";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.document() else { return false };
    if keys.in_list {
        return keys.have(&["source", "models_usage"]);
    }
    // The reason comes after all messages, so it may be in neither end of a large file.
    keys.have(&["messages"]) && head.mentions("\"models_usage\"") && head.mentions("\"source\"")
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let people = BTreeSet::from([USER.to_owned()]);
    let mut chat = AutogenChat { run: RunBuilder::new(reading, sink), people };
    reading.each_item(&["messages"], &mut |item| {
        if let Some(message) = reading.parse(item, "not a message of this format") {
            let added = chat.message(&message);
            chat.run.check(added);
        }
    });
    chat.run.end();
}

/// A message of AgentChat.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct AutogenMessage<'a> {
    source: Option<Text<'a>>,
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    content: Option<&'a RawValue>,
    models_usage: Option<&'a RawValue>,
    created_at: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct AutogenToolRequest<'a> {
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    arguments: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Execution<'a> {
    call_id: Option<Text<'a>>,
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

struct AutogenChat<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// Sources that are people.
    people: BTreeSet<String>,
}

impl AutogenChat<'_, '_> {
    fn message(&mut self, message: &AutogenMessage<'_>) -> Result<(), Full> {
        let time = message.created_at.as_deref().and_then(parse_time);
        self.run.note(time);
        let kind = message.kind.as_deref().unwrap_or_default();
        let has_usage = present(message.models_usage).is_some();
        let source = message.source.as_deref().unwrap_or_default();
        match kind {
            "ToolCallExecutionEvent" => return self.executed(message.content, time),
            "UserInputRequestedEvent" => {
                self.people.insert(source.to_owned());
            }
            "ToolCallRequestEvent" => return self.call(message, time),
            _ if has_usage => return self.call(message, time),
            _ if kind.ends_with("Message") && self.people.contains(source) => {
                self.run.user(time);
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&mut self, message: &AutogenMessage<'_>, time: Time) -> Result<(), Full> {
        let reading = self.run.reading;
        let mut reply = ModelResponse::default();
        if let Some(usage) = reading.usage::<Value>(message.models_usage, "usage") {
            let call = ModelCall::new(UsageShape::OpenAiChat, &usage).at(time);
            reading.price(&mut reply, &call, "usage");
            // No model is named, so nothing was priced.
            let usage = reply.usage.filter(|usage| usage.total() > 0);
            reply = ModelResponse { usage, ..ModelResponse::default() };
        }
        let step = self.run.reply(time, reply);
        if message.kind.as_deref() != Some("ToolCallRequestEvent") {
            return step.say(time, text_or_json(message.content));
        }
        let requests = message.content.map_or("[]", RawValue::get);
        let wrong = "not a request for tools of this format";
        let requests: Option<Vec<AutogenToolRequest<'_>>> = reading.parse_text(requests, wrong);
        requests.into_iter().flatten().try_for_each(|request| {
            let arguments = request.arguments.unwrap_or_default().into_owned();
            step.call(time, request.id, request.name.unwrap_or_default(), arguments)
        })
    }

    fn executed(&mut self, content: Option<&RawValue>, time: Time) -> Result<(), Full> {
        let results = content.map_or("[]", RawValue::get);
        let wrong = "not a list of results of this format";
        let reading = self.run.reading;
        let results: Option<Vec<Execution<'_>>> = reading.parse_text(results, wrong);
        let (Some(results), Some(_)) = (results, self.run.step()) else { return Ok(()) };
        self.run.seen(time);
        results.into_iter().try_for_each(|execution| {
            let (id, failed) = (execution.call_id.unwrap_or_default(), execution.is_error);
            let result = text_or_json(execution.content);
            self.run.result(Some(&id), time, result, failed.unwrap_or(false))
        })
    }
}

#[cfg(test)]
mod tests;
