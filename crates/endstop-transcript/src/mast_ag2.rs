//! Chats of AG2 (the other line of AutoGen) as records of MAST, the collection of failures of multi-agent
//! systems, hold them.
//!
//! - The first message is the task, each other one is a call of its speaker's model. There is no usage, no
//!   time and no tool.
//! - A record whose trace is one log instead of separate messages is no transcript.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::builder::RunBuilder;
use super::reading::Reading;
use super::step::ModelResponse;
use super::text::{Text, word};
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let keys = head.list();
    keys.is_some_and(|keys| keys.have(&["trace_id", "mas_name", "trace"]))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    reading.each_item(&["records"], &mut |item| read_record(item, reading, sink));
}

/// A record of MAST.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct MastRecord<'a> {
    trace_id: Option<&'a RawValue>,
    /// JSON, or a text that holds it.
    trace: &'a RawValue,
}

#[derive(Deserialize)]
struct MastChat {
    trajectory: Vec<MastMessage>,
}

/// A message of AG2.
#[derive(Deserialize)]
struct MastMessage {
    content: Option<Value>,
}

fn read_record(item: &RawValue, reading: Reading<'_>, sink: &mut dyn RunSink) {
    let wrong = "not a chat of separate messages";
    let Some(record) = reading.parse::<MastRecord<'_>>(item, wrong) else { return };
    let trace = record.trace.get();
    let trace = word(Some(record.trace)).unwrap_or(Text::from(trace));
    let Some(chat) = reading.parse_text::<MastChat>(&trace, wrong) else { return };
    let id = record.trace_id.map(RawValue::get).unwrap_or_default();
    let id = word(record.trace_id).unwrap_or(Text::from(id));
    let mut run = RunBuilder::new(reading, sink).named(Some(id));
    for (place, said) in chat.trajectory.into_iter().enumerate() {
        if place == 0 {
            run.user(None);
            continue;
        }
        let step = run.reply(None, ModelResponse::default());
        let text = match said.content {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let added = step.say(None, text);
        run.check(added);
    }
    run.end();
}

#[cfg(test)]
mod tests;
