//! What the frames of a stream tell about an answer, beside its words and tool calls.

use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::units::TokenUsage;
use genai::adapter::AdapterKind;
use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::{Map, Value};

use crate::limits::{MAX_COUNTED_CALLS, MAX_OPAQUE};
use crate::message::ToolCall;
use crate::model::ModelEnd;
use endstop_price::{
    MAX_COUNT, Unit, UsageCounts, UsageShape, billed_cost, detect_shape, model_of, read_usage,
    usage_of,
};

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

/// Where a stream's frames are looked at.
#[derive(Debug)]
pub(super) struct Tap {
    kind: AdapterKind,
    facts: Mutex<Facts>,
}

/// What the frames so far have told.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// How many frames there were.
    pub(super) frames: u64,
    /// Their bytes.
    pub(super) bytes: usize,
    /// The model that answered.
    pub(super) model: Option<String>,
    /// The finish reason, raw.
    pub(super) finish: Option<String>,
    /// An error that stood in the stream.
    pub(super) error: Option<Value>,
    /// What the provider wants back and `genai` does not keep.
    pub(super) opaque: Vec<Value>,
    /// The frame that ends a stream was there.
    pub(super) has_end: bool,
    /// The tool calls of a chat, in order.
    pub(super) calls: Vec<ToolCall>,
    /// The place that a chat gives each of them.
    places: Vec<Option<u64>>,
    /// A frame came apart, so that words may be lost.
    pub(super) is_torn: bool,
    usage: Map<String, Value>,
}

impl Tap {
    pub(super) fn new(kind: AdapterKind) -> Self {
        Self { kind, facts: Mutex::default() }
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for Tap {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut facts = self.facts();
        facts.frames = facts.frames.saturating_add(1);
        facts.bytes = facts.bytes.saturating_add(frame.data.len());
        if frame.data == "[DONE]" || frame.event == Some("message_stop") {
            facts.has_end = true;
        }
        // `genai` takes a line end of two bytes that come apart for two line ends. Only Anthropic's events
        // need the line before the data.
        let is_name_alone = frame.event.is_some() && frame.data.is_empty();
        facts.is_torn |= is_name_alone && self.kind == AdapterKind::Anthropic;
        if let Some(body) = frame.json() {
            facts.body(self.kind, &body);
        }
    }
}

impl Facts {
    fn body(&mut self, kind: AdapterKind, body: &Value) {
        if self.model.is_none() {
            self.model = model_of(body).filter(|model| !model.is_empty());
        }
        let groq = body.pointer("/x_groq/usage").filter(|usage| usage.is_object());
        if let Some(Value::Object(usage)) = usage_of(body).or(groq) {
            merge(&mut self.usage, usage);
        }
        if let Some(finish) = finish_of(body) {
            self.finish = Some(finish.to_owned());
        }
        if let Some(error) = error_of(body) {
            self.error = Some(error.clone());
        }
        match kind {
            AdapterKind::OpenAIResp => self.keep(reasoning_item(body)),
            AdapterKind::Ollama => self.ollama(body),
            AdapterKind::OpenRouter => self.reasoning_details(body),
            _ => {}
        }
        if is_chat(kind) {
            self.tool_calls(body);
        }
    }

    /// Gathers tool calls from their pieces. Some servers leave out the index, or give all the same one.
    fn tool_calls(&mut self, body: &Value) {
        let pieces = body.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array);
        for piece in pieces.into_iter().flatten() {
            let index = piece.get("index").and_then(Value::as_u64);
            let id = piece.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let function = |key| piece.get("function")?.get(key);
            let name = function("name").and_then(Value::as_str).unwrap_or_default();
            let is_it = |(call, place): (&ToolCall, &Option<u64>)| {
                (index.is_none() || *place == index) && id.is_none_or(|id| call.id == id)
            };
            let known = self.calls.iter().zip(&self.places).rposition(is_it);
            if known.is_none() {
                if self.calls.len() >= MAX_COUNTED_CALLS {
                    continue;
                }
                let id = id.map(str::to_owned);
                let id = id.unwrap_or_else(|| format!("call_{}", self.calls.len()));
                self.places.push(index);
                self.calls.push(ToolCall { id, ..ToolCall::default() });
            }
            let at = known.unwrap_or(self.calls.len().saturating_sub(1));
            let Some(call) = self.calls.get_mut(at) else { continue };
            if call.tool.is_empty() {
                call.tool.push_str(name);
            }
            match function("arguments") {
                Some(Value::String(text)) => call.arguments.push_str(text),
                None | Some(Value::Null) => {}
                Some(whole) => call.arguments = whole.to_string(),
            }
        }
    }

    fn keep(&mut self, value: Option<&Value>) {
        if let Some(value) = value.filter(|_| self.opaque.len() < MAX_OPAQUE) {
            self.opaque.push(value.clone());
        }
    }

    /// Ollama writes its counts beside everything else; they are those of a chat under other names.
    fn ollama(&mut self, body: &Value) {
        for (field, name) in
            [("prompt_eval_count", "prompt_tokens"), ("eval_count", "completion_tokens")]
        {
            if let Some(count) = body.get(field) {
                self.usage.insert(name.to_owned(), count.clone());
            }
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

    /// The usage as far as it is known.
    pub(super) fn usage(&self, kind: AdapterKind) -> (Option<TokenUsage>, Option<u64>) {
        let usage = Value::Object(self.usage.clone());
        let shape = match kind {
            AdapterKind::OpenAIResp => Some(UsageShape::OpenAiResponses),
            AdapterKind::Anthropic => Some(UsageShape::Anthropic),
            AdapterKind::Gemini => Some(UsageShape::Gemini),
            _ => Some(UsageShape::OpenAiChat),
        };
        let shapes = [shape, detect_shape(&usage)].into_iter().flatten();
        let counts = shapes.map(|shape| read_usage(shape, &usage)).find_map(Result::ok);
        let Some(counts) = counts else { return (None, None) };
        let reasoning = Unit::named("output_reasoning_tokens").and_then(|unit| counts.get(unit));
        (Some(with_reasoning(&counts, &usage, reasoning)), reasoning)
    }

    /// How the answer ended, as the frames tell.
    pub(super) fn end(&self, kind: AdapterKind) -> ModelEnd {
        let (usage, reasoning_tokens) = self.usage(kind);
        ModelEnd {
            model: self.model.clone(),
            usage,
            reasoning_tokens,
            cost: billed_cost(&Value::Object(self.usage.clone())),
            finish: self.finish.clone(),
            opaque: self.opaque.clone(),
        }
    }
}

/// xAI and some servers count reasoning beside the output and not in it; the total tells.
fn with_reasoning(counts: &UsageCounts, usage: &Value, reasoning: Option<u64>) -> TokenUsage {
    let mut tokens = counts.token_usage();
    let total =
        usage.get("total_tokens").and_then(Value::as_u64).filter(|total| *total < MAX_COUNT);
    if let (Some(total), Some(reasoning)) = (total, reasoning)
        && tokens.total().saturating_add(reasoning) == total
    {
        tokens.output = tokens.output.saturating_add(reasoning);
    }
    tokens
}

/// Later reports are of the whole call so far, but some leave out what was said before, or say zero.
fn merge(known: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        let says_nothing = value.is_null() || value.as_u64() == Some(0);
        match (known.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            (Some(_), _) if says_nothing => {}
            _ => {
                known.insert(key.clone(), value.clone());
            }
        }
    }
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

/// The finish reason of a frame, in the shapes of OpenAI chat and responses, Anthropic, Gemini and Ollama.
fn finish_of(body: &Value) -> Option<&str> {
    let places = [
        "/choices/0/finish_reason",
        "/delta/stop_reason",
        "/candidates/0/finishReason",
        "/done_reason",
        "/response/incomplete_details/reason",
    ];
    let said = places.iter().find_map(|place| body.pointer(place)?.as_str());
    said.filter(|said| !said.is_empty()).or_else(|| {
        // Of responses, only the frames that end one.
        let kind = body.get("type").and_then(Value::as_str)?;
        let ends = ["response.completed", "response.incomplete"].contains(&kind);
        body.pointer("/response/status").and_then(Value::as_str).filter(|_| ends)
    })
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
