//! One span: what of it matters to a run.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::attributes::{Attribute, Attributes, attributes_of};
use super::messages;
use crate::messages::{RecordedInput, RecordedOutput, RequestedCall, text_of};
use crate::text::Text;
use crate::time::Time;

/// `status.code` of a span that failed, as a number and by name.
const FAILED: [&str; 2] = ["2", "STATUS_CODE_ERROR"];

/// A span of a model call, a tool or an agent, or of anything between them.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    /// Nanoseconds since 1970; 0 if the span does not record it.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) failed: bool,
    pub(super) kind: SpanKind,
}

/// The subject of a span.
#[derive(Debug)]
pub(super) enum SpanKind {
    Model(Box<ModelSpan>),
    Tool(ToolSpan),
    /// With the user turns that it was called with, if they are recorded.
    Agent(usize),
    /// Only a link between its parent and its children.
    Other,
}

/// A model call.
#[derive(Debug)]
pub(super) struct ModelSpan {
    pub(super) name: Option<String>,
    pub(super) provider: Option<String>,
    /// With the names of the conventions.
    pub(super) usage: Option<Value>,
    pub(super) finish: Option<String>,
    pub(super) said: RecordedOutput,
    pub(super) told: RecordedInput,
}

/// A tool call.
#[derive(Debug)]
pub(super) struct ToolSpan {
    pub(super) asked: RequestedCall,
    pub(super) result: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct SpanRecord<'a> {
    span_id: Text<'a>,
    parent_span_id: Option<Text<'a>>,
    start_time_unix_nano: Option<Value>,
    end_time_unix_nano: Option<Value>,
    #[serde(default)]
    attributes: Vec<Attribute<'a>>,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    code: Option<Value>,
}

impl Span {
    /// Reads a span. `None` if it has no id, and so no place in a trace.
    pub(super) fn read(raw: &RawValue) -> Result<Option<Self>, serde_json::Error> {
        let record: SpanRecord<'_> = serde_json::from_str(raw.get())?;
        if record.span_id.is_empty() {
            return Ok(None);
        }
        let attributes = attributes_of(record.attributes);
        let code = record.status.and_then(|status| status.code).map(|code| text_of(&code));
        let is_failed = code.as_deref().is_some_and(|code| FAILED.contains(&code));
        Ok(Some(Self {
            id: record.span_id.into_owned(),
            parent: record.parent_span_id.map(Text::into_owned).filter(|id| !id.is_empty()),
            start: nanos(record.start_time_unix_nano.as_ref()),
            end: nanos(record.end_time_unix_nano.as_ref()),
            failed: is_failed || attributes.contains_key("error.type"),
            kind: kind_of(&attributes),
        }))
    }

    /// When it began, in milliseconds.
    pub(super) fn begun(&self) -> Time {
        Some(self.start / 1_000_000).filter(|time| *time > 0)
    }

    /// When it ended, in milliseconds.
    pub(super) fn ended(&self) -> Time {
        Some(self.end / 1_000_000).filter(|time| *time > 0).or(self.begun())
    }
}

fn nanos(value: Option<&Value>) -> u64 {
    value.map(text_of).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn string<'a>(attributes: &'a Attributes, names: &[&str]) -> Option<&'a str> {
    let texts = names.iter().filter_map(|name| attributes.get(*name)?.as_str());
    texts.into_iter().find(|text| !text.is_empty())
}

fn content(attributes: &Attributes, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| attributes.get(*name)).map(text_of)
}

fn kind_of(attributes: &Attributes) -> SpanKind {
    let operation = string(attributes, &["gen_ai.operation.name"]);
    let kind = match operation {
        Some("chat" | "text_completion" | "generate_content") => "model",
        Some("execute_tool") => "tool",
        Some("invoke_agent") => "agent",
        _ => older_kind(attributes),
    };
    match kind {
        "model" => SpanKind::Model(Box::new(model_of(attributes))),
        "tool" => SpanKind::Tool(tool_of(attributes)),
        "agent" => SpanKind::Agent(messages::input(attributes).turns),
        _ => SpanKind::Other,
    }
}

/// The kind by the names of OpenInference, the AI SDK and OpenLLMetry, in this order.
fn older_kind(attributes: &Attributes) -> &'static str {
    match string(attributes, &["openinference.span.kind"]) {
        Some("LLM") => return "model",
        Some("TOOL") => return "tool",
        Some("AGENT") => return "agent",
        Some(_) => return "other",
        None => {}
    }
    // A wrapper of the calls of a whole loop repeats their sums.
    match string(attributes, &["ai.operationId"]) {
        Some("ai.toolCall") => return "tool",
        Some(name) if name.ends_with(".doGenerate") || name.ends_with(".doStream") => {
            return "model";
        }
        Some(_) => return "other",
        None => {}
    }
    match string(attributes, &["llm.request.type", "traceloop.span.kind"]) {
        Some("chat" | "completion") => "model",
        Some("tool") => "tool",
        Some("agent") => "agent",
        _ => "other",
    }
}

fn model_of(attributes: &Attributes) -> ModelSpan {
    let name = ["gen_ai.response.model", "llm.model_name", "ai.response.model"];
    let asked = ["gen_ai.request.model", "llm.request.model_name", "ai.model.id"];
    let provider = ["gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"];
    ModelSpan {
        name: string(attributes, &name).or(string(attributes, &asked)).map(str::to_owned),
        provider: string(attributes, &provider)
            .or(string(attributes, &["ai.model.provider"]))
            .map(str::to_owned),
        usage: usage_of(attributes),
        finish: finish_of(attributes),
        said: messages::output(attributes),
        told: messages::input(attributes),
    }
}

/// The usage attributes under the names of the conventions.
fn usage_of(attributes: &Attributes) -> Option<Value> {
    const OLDER: [(&str, &str); 9] = [
        ("llm.token_count.prompt", "input_tokens"),
        ("llm.token_count.completion", "output_tokens"),
        ("llm.token_count.prompt_details.cache_read", "cache_read.input_tokens"),
        ("llm.token_count.prompt_details.cache_write", "cache_creation.input_tokens"),
        ("ai.usage.inputTokens", "input_tokens"),
        ("ai.usage.promptTokens", "input_tokens"),
        ("ai.usage.outputTokens", "output_tokens"),
        ("ai.usage.completionTokens", "output_tokens"),
        ("ai.usage.cachedInputTokens", "cache_read.input_tokens"),
    ];
    // The conventions write dots where many instrumentations write underscores.
    const UNDERSCORED: [(&str, &str); 4] = [
        ("cache_read_input_tokens", "cache_read.input_tokens"),
        ("cached_input_tokens", "cache_read.input_tokens"),
        ("cache_creation_input_tokens", "cache_creation.input_tokens"),
        ("cache_write_input_tokens", "cache_creation.input_tokens"),
    ];
    let mut usage = Map::new();
    let named = attributes.iter().filter(|(name, _)| name.starts_with("gen_ai.usage."));
    // A cost among them was computed by the instrumentation.
    let counts = named.filter(|(name, _)| name.ends_with("_tokens"));
    usage.extend(counts.map(|(name, value)| (name.clone(), value.clone())));
    for (underscored, name) in UNDERSCORED {
        if let Some(value) = usage.remove(&format!("gen_ai.usage.{underscored}")) {
            usage.entry(format!("gen_ai.usage.{name}")).or_insert(value);
        }
    }
    if usage.is_empty() {
        for (older, name) in OLDER {
            if let Some(value) = attributes.get(older) {
                usage.entry(format!("gen_ai.usage.{name}")).or_insert(value.clone());
            }
        }
    }
    (!usage.is_empty()).then_some(Value::Object(usage))
}

fn finish_of(attributes: &Attributes) -> Option<String> {
    if let Some(Value::Array(reasons)) = attributes.get("gen_ai.response.finish_reasons") {
        return reasons.first().map(text_of);
    }
    let names = [
        "gen_ai.response.finish_reasons",
        "ai.response.finishReason",
        "llm.finish_reason",
        "gen_ai.completion.0.finish_reason",
    ];
    string(attributes, &names).map(str::to_owned)
}

fn tool_of(attributes: &Attributes) -> ToolSpan {
    let names = ["gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"];
    let ids = ["gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id"];
    let arguments = [
        "gen_ai.tool.call.arguments",
        "ai.toolCall.args",
        "tool.parameters",
        "input.value",
        "traceloop.entity.input",
    ];
    let results = [
        "gen_ai.tool.call.result",
        "ai.toolCall.result",
        "output.value",
        "traceloop.entity.output",
    ];
    ToolSpan {
        asked: RequestedCall {
            id: string(attributes, &ids).map(str::to_owned),
            tool: string(attributes, &names).unwrap_or_default().to_owned(),
            arguments: content(attributes, &arguments).unwrap_or_default(),
        },
        result: content(attributes, &results),
    }
}

#[cfg(test)]
mod tests;
