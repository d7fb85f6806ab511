//! Sessions of the coding agent pi, and of OpenClaw, which is built on it: JSON lines that begin with a line of type
//! `session`.
//!
//! - A line of type `message` has the message of a `user`, of the `assistant` or of a tool (`toolResult`). An assistant's
//!   message is one model call. It carries its usage, and what pi computed as its cost; 0 is what pi writes if it
//!   knows no price, so the price table computes that.
//! - A message whose `stopReason` is `error` or `aborted` and that used nothing is a failed attempt of the next call.
//! - Entries form a tree: a session that went back has the calls of every branch, which were all paid for.

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::builder::RunBuilder;
use super::call_charge::{ModelCall, as_anthropic, with_cost};
use super::reading::Reading;
use super::step::{Failures, Full, ModelResponse};
use super::text::{Text, compact, whole_text, word};
use super::time::{Time, parse_time};
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut lines = head.lines();
    lines.any(|keys| keys.have(&["type", "id", "timestamp", "cwd"]) && !keys.have(&["sessionId"]))
        && head.mentions("\"session\"")
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let run = RunBuilder::new(reading, sink);
    let mut session = PiSession { run, failures: Failures::default() };
    let mut lines = reading.lines();
    while lines.advance() {
        if let Some(line) = lines.parse::<PiLine<'_>>() {
            session.run.at_line(lines.number());
            let added = session.line(line);
            session.run.check(added);
        }
    }
    session.run.end();
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct PiLine<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    id: Option<Text<'a>>,
    timestamp: Option<&'a RawValue>,
    message: Option<PiMessage<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct PiMessage<'a> {
    role: Option<Text<'a>>,
    content: Option<&'a RawValue>,
    model: Option<Text<'a>>,
    provider: Option<Text<'a>>,
    usage: Option<&'a RawValue>,
    stop_reason: Option<Text<'a>>,
    tool_call_id: Option<Text<'a>>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct PiBlock<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    arguments: Option<&'a RawValue>,
}

struct PiSession<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// Calls that failed since the last response.
    failures: Failures,
}

impl PiSession<'_, '_> {
    fn line(&mut self, line: PiLine<'_>) -> Result<(), Full> {
        let time = word(line.timestamp).and_then(|text| parse_time(&text));
        if line.kind.as_deref() == Some("session") {
            let id = line.id.map(Text::into_owned);
            self.run.set_id(|| id);
            return Ok(());
        }
        let Some(message) = line.message.filter(|_| line.kind.as_deref() == Some("message")) else {
            return Ok(());
        };
        match message.role.as_deref() {
            Some("user") => {
                self.run.user(time);
                Ok(())
            }
            Some("assistant") => self.reply(message, time),
            Some("toolResult") => {
                let (id, failed) =
                    (message.tool_call_id.as_deref(), message.is_error == Some(true));
                self.run.result(id, time, whole_text(message.content), failed)
            }
            _ => Ok(()),
        }
    }

    fn reply(&mut self, message: PiMessage<'_>, time: Time) -> Result<(), Full> {
        const USAGE: &str = "usage of a message";
        let reading = self.run.reading;
        let usage = reading.usage::<Value>(message.usage, USAGE);
        let count = |name: &&str| usage.as_ref().and_then(|usage| usage.get(*name)?.as_u64());
        // Earlier versions have no total.
        let used = ["input", "output", "cacheRead", "cacheWrite"].iter().filter_map(count).max();
        if matches!(message.stop_reason.as_deref(), Some("error" | "aborted"))
            && used.unwrap_or(0) == 0
        {
            self.failures.add(time);
            return Ok(());
        }
        let usage = usage.as_ref().map(counts_of);
        let providers = &[message.provider.as_deref(), None];
        let call = usage.as_ref().map(|usage| ModelCall::new(UsageShape::Anthropic, usage));
        let call = call.map(|call| call.of(providers).at(time));
        let reply = reading.reply(message.model, call, USAGE);
        let reply = ModelResponse { finish: message.stop_reason.map(Text::into_owned), ..reply };
        let blocks = message.content.map_or("[]", RawValue::get);
        let wrong = "content is not of this format";
        let blocks: Vec<PiBlock<'_>> = reading.parse_text(blocks, wrong).unwrap_or_default();
        let step = self.run.reply(time, reply);
        step.fail_as(&mut self.failures)?;
        for block in blocks {
            match (block.kind.as_deref(), block.text, block.name) {
                (Some("text"), Some(text), _) => step.say(time, text)?,
                (Some("toolCall"), _, Some(name)) => {
                    step.call(time, block.id, name, compact(block.arguments))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The counts of pi under its own names, with the cost.
fn counts_of(usage: &Value) -> Value {
    let count = |name: &str| usage.get(name).cloned().unwrap_or_else(|| json!(0));
    let cost = usage.get("cost").and_then(|cost| cost.get("total"));
    let counts = as_anthropic(["input", "output", "cacheRead", "cacheWrite"].map(count));
    with_cost(counts, cost.cloned())
}
