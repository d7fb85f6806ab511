//! The messages that a span records, whole or flattened to one attribute each.

use serde_json::{Map, Value, json};

use super::attributes::Attributes;
use crate::limits::MAX_FLATTENED_MESSAGES;
use crate::messages::{RecordedInput, RecordedOutput, asked_of, list_of, said_in, told_in};

/// The output of the model.
pub(super) fn output(attributes: &Attributes) -> RecordedOutput {
    let messages = messages_of(
        attributes,
        &["gen_ai.output.messages"],
        &["llm.output_messages.", "gen_ai.completion."],
    );
    let mut said = said_in(&messages);
    if messages.is_empty() {
        if let Some(Value::String(text)) = attributes.get("ai.response.text") {
            said.text.clone_from(text);
        }
        for call in list_of(attributes.get("ai.response.toolCalls")) {
            said.calls.extend(asked_of(&call));
        }
    }
    said
}

/// The input of the model.
pub(super) fn input(attributes: &Attributes) -> RecordedInput {
    told_in(&messages_of(
        attributes,
        &["gen_ai.input.messages", "ai.prompt.messages"],
        &["llm.input_messages.", "gen_ai.prompt."],
    ))
}

/// The messages under one of these names, whole or flattened.
fn messages_of(attributes: &Attributes, whole: &[&str], flattened: &[&str]) -> Vec<Value> {
    let mut found = whole.iter().map(|name| list_of(attributes.get(*name)));
    found.find(|messages| !messages.is_empty()).unwrap_or_else(|| {
        let mut found = flattened.iter().map(|prefix| rebuilt(attributes, prefix));
        found.find(|messages| !messages.is_empty()).unwrap_or_default()
    })
}

/// Messages from names such as `llm.input_messages.0.message.tool_calls.1.tool_call.function.name`.
fn rebuilt(attributes: &Attributes, prefix: &str) -> Vec<Value> {
    let mut messages: Vec<Map<String, Value>> = Vec::new();
    let named =
        attributes.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
    for (name, value) in named {
        let Some((index, rest)) = name.get(prefix.len()..).and_then(|name| name.split_once('.'))
        else {
            continue;
        };
        let Some(index) = index.parse().ok().filter(|index| *index < MAX_FLATTENED_MESSAGES) else {
            continue;
        };
        if messages.len() <= index {
            messages.resize_with(index + 1, Map::new);
        }
        let Some(message) = messages.get_mut(index) else { continue };
        let rest = rest.strip_prefix("message.").unwrap_or(rest);
        match rest.strip_prefix("tool_calls.").and_then(|call| call.split_once('.')) {
            Some((call, key)) => set_call(message, call, key, value),
            None => drop(message.insert(rest.to_owned(), value.clone())),
        }
    }
    messages.into_iter().map(Value::Object).collect()
}

fn set_call(message: &mut Map<String, Value>, call: &str, key: &str, value: &Value) {
    let key = key.rsplit('.').next().unwrap_or(key);
    let calls = message.entry("tool_calls").or_insert_with(|| json!({}));
    if let Some(calls) = calls.as_object_mut() {
        let call = calls.entry(call).or_insert_with(|| json!({}));
        if let Some(call) = call.as_object_mut() {
            call.insert(key.to_owned(), value.clone());
        }
    }
}
