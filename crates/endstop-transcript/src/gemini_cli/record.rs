//! Lines and messages of a session.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::text::{Text, present};

/// The beginnings of texts that are not turns of the user: commands to the tool itself, and its own notes.
const NO_TURNS: [&str; 5] = ["/", "?", "<session_context>", "<hook_context>", "<state_snapshot>"];

/// The key of a part that is the result of a tool.
const RESULT: &str = "functionResponse";

/// A line, or a message of a document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiRecord<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
    #[serde(rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) tool_calls: Option<Vec<GeminiToolCall<'a>>>,
    pub(super) model: Option<Text<'a>>,
    pub(super) tokens: Option<&'a RawValue>,
    pub(super) session_id: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct GeminiToolCall<'a> {
    pub(super) name: Option<Text<'a>>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) status: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
}

/// Token counts of a call, still unread.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Tokens {
    pub(super) input: Value,
    pub(super) output: Option<Value>,
    pub(super) cached: Option<Value>,
    pub(super) thoughts: Option<Value>,
    pub(super) tool: Option<Value>,
}

/// Whether a person said this to the model. Results of tools are sent in the user's name.
pub(super) fn is_turn(content: Option<&RawValue>) -> bool {
    let words = words(content);
    let words = words.trim();
    let is_result = |parts: &[Value]| parts.iter().any(|part| part.get(RESULT).is_some());
    let parts = content.map(|raw| serde_json::from_str::<Vec<Value>>(raw.get()));
    !parts.is_some_and(|parts| parts.is_ok_and(|parts| is_result(&parts)))
        && !words.is_empty()
        && !NO_TURNS.iter().any(|start| words.starts_with(start))
}

/// The text of a content: a string, a part, or a list of both; thoughts do not count.
pub(super) fn words(content: Option<&RawValue>) -> String {
    let value = content.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    match value {
        Some(Value::Array(parts)) => parts.iter().filter_map(text_of).collect(),
        Some(part) => text_of(&part).unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

fn text_of(part: &Value) -> Option<&str> {
    match part {
        Value::String(text) => Some(text),
        Value::Object(part) if part.get("thought") == Some(&Value::Bool(true)) => None,
        Value::Object(part) => part.get("text")?.as_str(),
        _ => None,
    }
}

/// The result of a tool, without the ids around it, so that equal results compare equal.
pub(super) fn result_of(result: Option<&RawValue>) -> String {
    let Some(raw) = present(result) else { return String::new() };
    let Ok(value) = serde_json::from_str::<Value>(raw) else { return raw.to_owned() };
    let parts = match value {
        Value::Array(parts) => parts,
        part => vec![part],
    };
    let answers: Vec<String> = parts.iter().map(answer_of).collect();
    answers.join("\n")
}

fn answer_of(part: &Value) -> String {
    let Some(response) = part.get(RESULT).and_then(|result| result.get("response")) else {
        return text_of(part).map_or_else(|| part.to_string(), str::to_owned);
    };
    output_in(response)
}

/// The output of a tool without the keys around it, so that equal results compare equal.
pub(crate) fn output_in(response: &Value) -> String {
    let said = ["output", "error"].iter().find_map(|key| response.get(key)?.as_str());
    said.map_or_else(|| response.to_string(), str::to_owned)
}
