//! Logged model calls of the OpenHands SDK (`log_completions`): a directory with one JSON document for each call, which
//! holds the request and the response. The directory is one run.
//!
//! - Calls are in the order of their times. Results of tools are in the messages of subsequent calls.
//! - `cost` is what the SDK computed when it made the call; 0 is what it writes where it knows no price, so the price
//!   table computes that.
//! - A document with an error in place of a response is a failed attempt.
//! - Calls outside the agent's own, such as those of a condenser, are calls of the run.

use std::path::{Path, PathBuf};

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};

use super::builder::RunBuilder;
use super::call_charge::{ModelCall, with_cost};
use super::limits::MAX_HISTORY_BYTES;
use super::messages::{list_of, said_in, told_in};
use super::paths::{directory_of, documents_in};
use super::reading::Reading;
use super::step::{Full, ModelResponse};
use super::text::{Text, present, value_of};
use super::time::{Time, of_seconds};
use super::warning::WarningKind;
use super::{Head, RunSink};

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let Some(keys) = head.object() else { return false };
    // The keys after the messages may be in the file's end alone.
    let says = |key: &str| keys.have(&[key]) || head.mentions(&format!("\"{key}\""));
    let is_request = keys.have(&["messages"]) || keys.have(&["input"]);
    is_request && ["context_window", "timestamp", "latency_sec"].into_iter().all(says)
}

/// The calls of the directory.
pub(crate) fn companions(path: &Path) -> Vec<PathBuf> {
    documents_in(path.parent()).collect()
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut calls: Vec<(Time, Reading<'_>)> = std::iter::once(reading)
        .chain(reading.child_files())
        .map(|file| (time_of(file), file))
        .collect();
    // The sort is stable: calls without a time stay in the order of their files.
    calls.sort_by_key(|(time, _)| *time);
    let mut run = RunBuilder::new(reading, sink).named(directory_of(reading.part.name()));
    for (_, file) in calls {
        file.whole(&mut |document| {
            if let Some(call) =
                file.parse::<OpenHandsCall<'_>>(document, "not a call of this format")
            {
                let added = add(&mut run, &call, file);
                run.check(added);
                run.write_own();
            }
        });
    }
    let finished = run.own().finish();
    run.check(finished);
    run.write_own();
    run.end();
}

fn time_of(file: Reading<'_>) -> Time {
    let mut time = None;
    file.look_for(&["timestamp"], &mut |_, value| time = seconds(Some(value)));
    time
}

fn seconds(raw: Option<&RawValue>) -> Time {
    let number: Number = serde_json::from_str(raw?.get()).ok()?;
    of_seconds(&number)
}

/// A document.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct OpenHandsCall<'a> {
    messages: Option<&'a RawValue>,
    /// In place of `messages` where the API is that of responses.
    input: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    cost: Option<&'a RawValue>,
    timestamp: Option<&'a RawValue>,
    latency_sec: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct OpenHandsResponse<'a> {
    model: Option<Text<'a>>,
    choices: Option<Vec<Value>>,
    output: Option<Vec<Value>>,
    usage: Option<&'a RawValue>,
    service_tier: Option<Text<'a>>,
}

fn add(
    run: &mut RunBuilder<'_, '_>,
    call: &OpenHandsCall<'_>,
    file: Reading<'_>,
) -> Result<(), Full> {
    let ended = seconds(call.timestamp);
    let took = seconds(call.latency_sec).unwrap_or(0);
    let begun = ended.map(|ended| ended.saturating_sub(took));
    // A call is held as a whole, and its messages read take many times their length.
    let messages = call.messages.or(call.input);
    let messages = messages.filter(|raw| {
        let is_read = raw.get().len() <= MAX_HISTORY_BYTES;
        if !is_read {
            file.warn(WarningKind::TooLarge, || {
                format!("the messages of a call have more than {MAX_HISTORY_BYTES} bytes; they are not read")
            });
        }
        is_read
    });
    let messages = value_of(messages);
    let messages: Vec<Value> = list_of(messages.as_ref()).into_iter().map(as_message).collect();
    run.own().ask(&told_in(&messages), begun)?;
    let response = present(call.response).filter(|_| present(call.error).is_none());
    let wrong = "not a response of this format";
    let response = response.and_then(|text| file.parse_text::<OpenHandsResponse<'_>>(text, wrong));
    let Some(response) = response else {
        run.own().fail(ended);
        return Ok(());
    };
    let reply = reply_of(call, &response, ended, file);
    let first = response.choices.into_iter().flatten().next();
    let said = match first.and_then(|choice| choice.get("message").cloned()) {
        Some(message) => vec![message],
        None => response.output.into_iter().flatten().map(as_message).collect(),
    };
    run.own().answer(ended, reply, &said_in(&said))
}

fn reply_of(
    call: &OpenHandsCall<'_>,
    response: &OpenHandsResponse<'_>,
    time: Time,
    file: Reading<'_>,
) -> ModelResponse {
    const USAGE: &str = "usage of a response";
    let usage = file.usage::<Value>(response.usage, USAGE);
    let usage = usage.map(|usage| with_cost(usage, value_of(call.cost)));
    let call = usage.as_ref().map(|usage| {
        let shape = match usage.get("prompt_tokens") {
            Some(_) => UsageShape::OpenAiChat,
            None => UsageShape::OpenAiResponses,
        };
        let service_tier = response.service_tier.as_deref();
        ModelCall { service_tier, ..ModelCall::new(shape, usage).at(time) }
    });
    let finish = |choice: &Value| choice.get("finish_reason")?.as_str().map(str::to_owned);
    let finish = response.choices.iter().flatten().next().and_then(finish);
    ModelResponse { finish, ..file.reply(response.model.as_deref(), call, USAGE) }
}

/// An item of the API of responses as a message; anything else as it is.
fn as_message(item: Value) -> Value {
    let field = |name: &str| item.get(name).cloned().unwrap_or_default();
    match item.get("type").and_then(Value::as_str) {
        Some("function_call") => json!({ "role": "assistant", "tool_calls": [{
            "type": "function",
            "id": field("call_id"),
            "function": { "name": field("name"), "arguments": field("arguments") },
        }] }),
        Some("function_call_output") => json!({
            "role": "tool", "tool_call_id": field("call_id"), "content": field("output"),
        }),
        Some("message") => json!({ "role": field("role"), "content": words_of(&field("content")) }),
        _ => item,
    }
}

/// Words of a content of the API of responses, whose parts are `input_text` and `output_text`.
fn words_of(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        Value::String(text) => text.clone(),
        _ => String::new(),
    }
}
