//! Recorded messages of a model call, in the forms of OpenAI, Anthropic, the GenAI conventions and the AI SDK: the
//! model's output, its requests and its input.
//!
//! Instrumentations mix these forms, and rename their fields, within one message. So they are read by the names that
//! occur in any of them; the readers of one API, here and in `endstop-llm`, would each refuse what is of another.

use serde_json::{Value, json};

/// The output of a model.
#[derive(Debug, Default)]
pub(super) struct RecordedOutput {
    pub(super) text: String,
    pub(super) calls: Vec<RequestedCall>,
}

/// A tool call that the model requested.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedCall {
    pub(super) id: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// The input of a model.
#[derive(Debug, Default)]
pub(super) struct RecordedInput {
    /// User turns.
    pub(super) turns: usize,
    /// Results of tool calls, by the id of the call.
    pub(super) results: Vec<(String, String)>,
}

/// The output in these messages of a model.
pub(super) fn said_in(messages: &[Value]) -> RecordedOutput {
    let mut said = RecordedOutput::default();
    for message in messages {
        for part in parts_of(message) {
            said.part(&part);
        }
    }
    said
}

/// The input in these messages to a model.
pub(super) fn told_in(messages: &[Value]) -> RecordedInput {
    let mut told = RecordedInput::default();
    for message in messages {
        let parts = parts_of(message);
        let has_words = parts.iter().any(|part| kind_of(part) == "text");
        told.turns += usize::from(field(message, &["role"]) == "user" && has_words);
        let id = field(message, &["tool_call_id"]);
        if !id.is_empty() {
            told.results.push((id.to_owned(), parts.iter().map(words_of).collect()));
        }
        told.results.extend(parts.iter().filter_map(result_of));
    }
    told
}

/// A list, or the list that a text holds as JSON.
pub(super) fn list_of(value: Option<&Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// A text as it is, anything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The parts of a message: its own, its content's, its tool calls.
fn parts_of(message: &Value) -> Vec<Value> {
    let mut parts = Vec::new();
    for key in ["parts", "content"] {
        match message.get(key) {
            Some(Value::Array(list)) => parts.extend(list.iter().cloned()),
            Some(Value::String(text)) if !text.is_empty() => {
                parts.push(json!({"type": "text", "text": text}));
            }
            _ => {}
        }
    }
    match message.get("tool_calls") {
        Some(Value::Array(calls)) => parts.extend(calls.iter().cloned()),
        Some(Value::Object(calls)) => parts.extend(calls.values().cloned()),
        _ => {}
    }
    parts
}

fn field<'a>(value: &'a Value, names: &[&str]) -> &'a str {
    let mut texts = names.iter().filter_map(|name| value.get(*name)?.as_str());
    texts.next().unwrap_or_default()
}

/// `text`, `call`, `result`, or nothing that counts.
fn kind_of(part: &Value) -> &'static str {
    match field(part, &["type"]) {
        "text" => "text",
        "tool_call" | "tool-call" | "tool_use" | "function" => "call",
        "tool_call_response" | "tool-result" | "tool_result" => "result",
        "" if asked_of(part).is_some() => "call",
        _ => "other",
    }
}

fn words_of(part: &Value) -> String {
    match kind_of(part) {
        "text" => field(part, &["content", "text"]).to_owned(),
        _ => String::new(),
    }
}

pub(super) fn asked_of(part: &Value) -> Option<RequestedCall> {
    let function = part.get("function").unwrap_or(part);
    let tool = field(function, &["name", "toolName"]);
    let arguments = ["arguments", "args", "input"];
    let arguments = arguments.iter().find_map(|name| function.get(*name)).map(text_of);
    let id = field(part, &["id", "toolCallId"]);
    (!tool.is_empty()).then(|| RequestedCall {
        id: (!id.is_empty()).then(|| id.to_owned()),
        tool: tool.to_owned(),
        arguments: arguments.unwrap_or_default(),
    })
}

fn result_of(part: &Value) -> Option<(String, String)> {
    if kind_of(part) != "result" {
        return None;
    }
    let id = field(part, &["id", "toolCallId", "tool_use_id"]);
    let names = ["response", "result", "output", "content"];
    let result = names.iter().find_map(|name| part.get(*name)).map(text_of);
    (!id.is_empty()).then(|| (id.to_owned(), result.unwrap_or_default()))
}

impl RecordedOutput {
    fn part(&mut self, part: &Value) {
        match kind_of(part) {
            "text" => {
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(&words_of(part));
            }
            "call" => self.calls.extend(asked_of(part)),
            _ => {}
        }
    }
}
