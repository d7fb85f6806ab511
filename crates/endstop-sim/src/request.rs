//! A request to the scripted model, in any API.

use std::borrow::Cow;

use serde_json::Value;

use crate::Api;
use crate::limits::MAX_CHOICES;

/// A parsed request.
#[derive(Clone, Debug)]
pub(crate) struct SimRequest {
    pub(crate) api: Api,
    pub(crate) model: String,
    pub(crate) is_stream: bool,
    /// Whether a stream is made of events; Gemini streams an array if that is not requested.
    pub(crate) is_sse: bool,
    /// Whether the stream should include usage, for APIs that send it only on request.
    pub(crate) wants_usage: bool,
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: ToolChoice,
    /// The schema that a text has to follow.
    pub(crate) format: Option<Value>,
    /// Turns of the model in the conversation so far.
    pub(crate) turns: u64,
    /// Messages or items in the request.
    pub(crate) messages: usize,
    /// Results of tools in the request.
    pub(crate) results: usize,
    /// The output cap in tokens.
    pub(crate) cap: Option<u64>,
    /// The number of requested answers; at least 1.
    pub(crate) choices: u64,
    /// The id of the answer that this request continues, if the conversation is kept here.
    pub(crate) continues: Option<String>,
    /// Whether the client may continue with the id of the answer alone (Anthropic message threads).
    pub(crate) is_thread: bool,
    /// Input tokens, at four bytes each.
    pub(crate) input_tokens: u64,
}

/// A tool that is offered.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The group that OpenAI's responses put it in; a call names it as well as the tool.
    pub(crate) namespace: Option<String>,
    pub(crate) schema: Value,
}

/// Whether a tool has to be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    #[default]
    Auto,
    None,
    Any,
    Named(String),
}

impl SimRequest {
    /// With what every API has in the same place.
    pub(crate) fn new(api: Api, body: &Value) -> Self {
        Self {
            api,
            model: text(body, "model").to_owned(),
            is_stream: flag(body, "stream"),
            is_sse: true,
            wants_usage: true,
            tools: Vec::new(),
            choice: ToolChoice::Auto,
            format: None,
            turns: 0,
            messages: 0,
            results: 0,
            cap: None,
            choices: 1,
            continues: None,
            is_thread: false,
            input_tokens: 0,
        }
    }

    /// Takes the number of answers asked for, within bounds.
    pub(crate) fn take_choices(&mut self, value: Option<&Value>) {
        self.choices = value.and_then(Value::as_u64).unwrap_or(1).clamp(1, MAX_CHOICES);
    }
}

/// A text member; empty if it is missing.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a member is `true`.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The elements of an array member; empty if it is not an array.
pub(crate) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// How many elements fulfil something, as a count of turns.
pub(crate) fn count(elements: &[Value], counts: impl Fn(&&Value) -> bool) -> u64 {
    elements.iter().filter(counts).count() as u64
}

/// A path's part with `%XX` resolved if it is ASCII.
pub(crate) fn unescaped(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return Cow::Borrowed(part);
    }
    let mut pieces = part.split('%');
    let mut resolved = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (code.filter(u8::is_ascii), piece.get(2..)) {
            (Some(code), Some(rest)) => {
                resolved.push(char::from(code));
                resolved.push_str(rest);
            }
            _ => {
                resolved.push('%');
                resolved.push_str(piece);
            }
        }
    }
    Cow::Owned(resolved)
}
