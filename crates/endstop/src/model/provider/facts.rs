//! Facts about an answer, other than its text, from the frames of a stream. `endstop-llm` reads them, except for data
//! that goes back to the provider and for errors, which that crate keeps as text alone.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::units::TokenUsage;
use endstop_llm::sse::SseEvent;
use endstop_llm::{Api, CallRequest, CallResponse, StreamReader};
use genai::adapter::AdapterKind;
use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::{Map, Value, json};

use crate::limits::MAX_OPAQUE;
use crate::message::ToolCall;
use crate::model::{ModelEnd, ReportedUsage};

/// Whether a provider speaks the chat protocol of OpenAI.
pub(super) const fn is_chat(kind: AdapterKind) -> bool {
    !matches!(
        kind,
        AdapterKind::OpenAIResp
            | AdapterKind::Anthropic
            | AdapterKind::Gemini
            | AdapterKind::Ollama
    )
}

/// The place where a stream's frames are read.
pub(super) struct Tap {
    kind: AdapterKind,
    facts: Mutex<Facts>,
}

/// The facts in the frames so far.
pub(super) struct Facts {
    /// How many frames there were.
    pub(super) frames: u64,
    /// Their bytes.
    pub(super) bytes: usize,
    /// An error that stood in the stream.
    pub(super) error: Option<Value>,
    /// A frame came apart, so that words may be lost.
    pub(super) is_torn: bool,
    /// Data that the provider needs back and `genai` does not keep.
    opaque: Vec<Value>,
    reader: Box<dyn StreamReader>,
}

impl Tap {
    pub(super) fn new(kind: AdapterKind) -> Self {
        let api = match kind {
            AdapterKind::OpenAIResp => Api::Responses,
            AdapterKind::Anthropic => Api::Messages,
            AdapterKind::Gemini => Api::Gemini,
            _ => Api::Chat,
        };
        let facts = Facts {
            frames: 0,
            bytes: 0,
            error: None,
            is_torn: false,
            opaque: Vec::new(),
            reader: api.dialect().stream(&CallRequest::default()),
        };
        Self { kind, facts: Mutex::new(facts) }
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl ChatFrameSink for Tap {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut facts = self.facts();
        facts.frames = facts.frames.saturating_add(1);
        facts.bytes = facts.bytes.saturating_add(frame.data.len());
        // `genai` takes a line end of two bytes that come apart for two line ends. Only Anthropic's events
        // need the line before the data.
        let is_name_alone = frame.event.is_some() && frame.data.is_empty();
        facts.is_torn |= is_name_alone && self.kind == AdapterKind::Anthropic;
        let body = frame.json();
        let translated = body.as_ref().filter(|_| self.kind == AdapterKind::Ollama).map(as_chat);
        let data = translated.as_deref().unwrap_or(frame.data);
        facts.reader.event(&SseEvent { name: frame.event.unwrap_or_default(), data });
        if let Some(body) = body {
            facts.body(self.kind, &body);
        }
    }
}

impl Facts {
    fn body(&mut self, kind: AdapterKind, body: &Value) {
        if let Some(error) = error_of(body) {
            self.error = Some(error.clone());
        }
        match kind {
            AdapterKind::OpenAIResp => self.keep(reasoning_item(body)),
            AdapterKind::OpenRouter => self.reasoning_details(body),
            _ => {}
        }
    }

    fn keep(&mut self, value: Option<&Value>) {
        if let Some(value) = value.filter(|_| self.opaque.len() < MAX_OPAQUE) {
            self.opaque.push(value.clone());
        }
    }

    /// Blocks of reasoning come in pieces that have to go back whole: those of one index belong together.
    fn reasoning_details(&mut self, body: &Value) {
        let details = body.pointer("/choices/0/delta/reasoning_details").and_then(Value::as_array);
        for detail in details.into_iter().flatten() {
            let same = |known: &&mut Value| {
                ["index", "type"].iter().all(|key| known.get(key) == detail.get(key))
            };
            match (self.opaque.last_mut().filter(same), detail) {
                (Some(Value::Object(known)), Value::Object(more)) => append(known, more),
                _ => self.keep(Some(detail)),
            }
        }
    }

    /// The response so far.
    pub(super) fn response(&self) -> &CallResponse {
        self.reader.response()
    }

    /// The usage reported so far.
    pub(super) fn reported(&self) -> Option<&ReportedUsage> {
        self.response().usage.as_ref()
    }

    /// The usage, if the answer is complete and the report too: a report without output for an answer with text is
    /// not.
    pub(super) fn usage(&self) -> Option<TokenUsage> {
        let response = self.response();
        if response.finish.is_none() && !response.is_whole {
            return None;
        }
        let usage = response.usage.as_ref().filter(|usage| usage.is_whole(response.output_bytes));
        usage.map(|usage| usage.tokens)
    }

    /// The tool calls of a chat, each with an id.
    pub(super) fn calls(&self) -> Vec<ToolCall> {
        let calls = self.response().tool_calls.iter().enumerate();
        let named = calls.map(|(place, call)| {
            let id = if call.id.is_empty() { format!("call_{place}") } else { call.id.clone() };
            ToolCall { id, tool: call.tool.clone(), arguments: call.arguments.clone() }
        });
        named.collect()
    }

    /// How the answer ended, by its frames.
    pub(super) fn end(&self) -> ModelEnd {
        let response = self.response();
        ModelEnd {
            model: response.model.clone(),
            usage: response.usage.clone(),
            finish: response.finish.clone(),
            opaque: self.opaque.clone(),
        }
    }
}

/// A frame of Ollama in the form of a chat: it has its counts and its finish reason next to everything else.
fn as_chat(body: &Value) -> String {
    let usage = [("prompt_eval_count", "prompt_tokens"), ("eval_count", "completion_tokens")];
    let usage = usage
        .iter()
        .filter_map(|(field, name)| Some(((*name).to_owned(), body.get(field)?.clone())));
    let usage: Map<String, Value> = usage.collect();
    let usage = if usage.is_empty() { Value::Null } else { Value::Object(usage) };
    let choice = json!({ "index": 0, "finish_reason": body.get("done_reason") });
    json!({ "model": body.get("model"), "choices": [choice], "usage": usage }).to_string()
}

/// Joins the texts of two pieces; of anything else the later one stands.
fn append(known: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        match (known.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(piece))
                if ["text", "summary", "data"].contains(&key.as_str()) =>
            {
                text.push_str(piece);
            }
            (Some(_), Value::Null) => {}
            _ => {
                known.insert(key.clone(), value.clone());
            }
        }
    }
}

fn error_of(body: &Value) -> Option<&Value> {
    let inner = body.get("error").or_else(|| body.pointer("/response/error"));
    let is_error = body.get("type").and_then(Value::as_str) == Some("error");
    inner.filter(|error| !error.is_null()).or_else(|| is_error.then_some(body))
}

/// A finished item of reasoning with what has to go back.
fn reasoning_item(body: &Value) -> Option<&Value> {
    let item = body.get("item")?;
    let is_done = body.get("type")?.as_str()? == "response.output_item.done";
    let is_reasoning = item.get("type")?.as_str()? == "reasoning";
    item.get("encrypted_content")?.as_str().filter(|content| !content.is_empty())?;
    (is_done && is_reasoning).then_some(item)
}
