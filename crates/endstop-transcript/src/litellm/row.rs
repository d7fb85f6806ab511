//! One row of the spend logs.

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::call_charge::ModelCall;
use crate::messages::{
    RecordedInput, RecordedOutput, RequestedCall, list_of, said_in, text_of, told_in,
};
use crate::reading::Reading;
use crate::step::ModelResponse;
use crate::text::{Text, value_of};
use crate::time::{Time, of_seconds, parse_utc};

/// Words in the type of a call whose answer has no text of a model.
const NO_STEPS: [&str; 14] = [
    "embedding",
    "image",
    "video",
    "transcription",
    "speech",
    "moderation",
    "rerank",
    "ocr",
    "file",
    "batch",
    "vector_store",
    "search",
    "list",
    "retrieve",
];

/// The type of a call that ran a tool of an MCP server.
const MCP_CALL: &str = "call_mcp_tool";

/// A row: what matters to a run.
#[derive(Debug)]
pub(super) struct SpendRow {
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) failed: bool,
    pub(super) kind: RowKind,
}

#[derive(Debug)]
pub(super) enum RowKind {
    Model(Box<LoggedCall>),
    /// With its result, if it is logged.
    Tool(RequestedCall, String),
    /// No step of an agent.
    Other {
        has_cost: bool,
    },
}

/// A model call.
#[derive(Debug)]
pub(super) struct LoggedCall {
    id: String,
    model: Option<String>,
    provider: Option<String>,
    /// With what was billed, as `cost`.
    usage: Value,
    finish: Option<String>,
    pub(super) said: RecordedOutput,
    pub(super) told: RecordedInput,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SpendRecord<'a> {
    request_id: Option<Text<'a>>,
    call_type: Option<Text<'a>>,
    spend: Option<&'a RawValue>,
    prompt_tokens: Option<&'a RawValue>,
    completion_tokens: Option<&'a RawValue>,
    #[serde(rename = "startTime")]
    start_time: Option<Value>,
    #[serde(rename = "endTime")]
    end_time: Option<Value>,
    model: Option<Text<'a>>,
    custom_llm_provider: Option<Text<'a>>,
    status: Option<Text<'a>>,
    cache_hit: Option<Value>,
    metadata: Option<Value>,
    mcp_namespaced_tool_name: Option<Text<'a>>,
    messages: Option<Value>,
    response: Option<Value>,
    proxy_server_request: Option<Value>,
}

impl SpendRow {
    pub(super) fn read(raw: &RawValue) -> Result<Self, serde_json::Error> {
        let record: SpendRecord<'_> = serde_json::from_str(raw.get())?;
        let metadata = object_of(record.metadata.as_ref());
        let status = record.status.as_deref().or(metadata.get("status").and_then(Value::as_str));
        let start = time_of(record.start_time.as_ref());
        Ok(Self {
            start,
            end: time_of(record.end_time.as_ref()).or(start),
            failed: status == Some("failure"),
            kind: kind_of(record, &metadata),
        })
    }
}

fn kind_of(record: SpendRecord<'_>, metadata: &Map<String, Value>) -> RowKind {
    let kind = record.call_type.as_deref().unwrap_or_default();
    if kind == MCP_CALL {
        let mut asked = mcp_call(metadata);
        if let Some(name) = &record.mcp_namespaced_tool_name
            && asked.tool.is_empty()
        {
            asked.tool = name.clone().into_owned();
        }
        let is_logged = |value: &&Value| !value.is_null() && **value != json!({});
        let result = record.response.as_ref().filter(is_logged).map(text_of);
        return RowKind::Tool(asked, result.unwrap_or_default());
    }
    if NO_STEPS.iter().any(|word| kind.contains(word)) {
        let cost = value_of(record.spend).and_then(|spend| spend.as_f64());
        return RowKind::Other { has_cost: cost != Some(0.0) };
    }
    RowKind::Model(Box::new(model_of(record, metadata)))
}

/// The tool's own name and arguments, as the proxy notes them.
fn mcp_call(metadata: &Map<String, Value>) -> RequestedCall {
    let call = object_of(metadata.get("mcp_tool_call_metadata"));
    let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let arguments = call.get("arguments").filter(|value| !value.is_null());
    RequestedCall {
        id: None,
        tool: text("name"),
        arguments: arguments.map(Value::to_string).unwrap_or_default(),
    }
}

fn model_of(record: SpendRecord<'_>, metadata: &Map<String, Value>) -> LoggedCall {
    let request = object_of(record.proxy_server_request.as_ref());
    let logged = list_of(record.messages.as_ref());
    let told = if logged.is_empty() { list_of(request.get("messages")) } else { logged };
    let response = object_of(record.response.as_ref());
    let (said, finish) = answer_of(&response);
    let owned = |text: &Option<Text<'_>>| {
        text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned)
    };
    LoggedCall {
        id: owned(&record.request_id).unwrap_or_default(),
        model: owned(&record.model),
        provider: owned(&record.custom_llm_provider),
        usage: usage_of(&record, metadata),
        finish,
        said: said_in(&said),
        told: told_in(&told),
    }
}

/// The messages of a response, and why it ended: chat completions, Anthropic's messages, OpenAI's responses.
fn answer_of(response: &Map<String, Value>) -> (Vec<Value>, Option<String>) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if let Some(choice) = list_of(response.get("choices")).into_iter().next() {
        let message = choice.get("message").cloned();
        return (message.into_iter().collect(), text(choice.get("finish_reason")));
    }
    if response.contains_key("content") {
        let message = json!({"content": response.get("content")});
        return (vec![message], text(response.get("stop_reason")));
    }
    (vec![json!({"parts": list_of(response.get("output"))})], text(response.get("status")))
}

/// The columns, with the classes that only the metadata has and the spend if it is known.
fn usage_of(record: &SpendRecord<'_>, metadata: &Map<String, Value>) -> Value {
    let mut usage = object_of(metadata.get("additional_usage_values"));
    usage.extend(object_of(metadata.get("usage_object")));
    // These are not the proxy's: only the spend is what it charged.
    usage.remove("cost");
    let columns = [
        ("prompt_tokens", value_of(record.prompt_tokens)),
        ("completion_tokens", value_of(record.completion_tokens)),
    ];
    let is_zero = |value: &Value| value.as_f64() == Some(0.0);
    let used = columns.iter().any(|(_, count)| count.as_ref().is_some_and(|count| !is_zero(count)));
    for (name, column) in columns {
        usage.extend(column.map(|value| (name.to_owned(), value)));
    }
    let hit = record.cache_hit.as_ref();
    let is_hit = hit.is_some_and(|hit| hit == &json!(true) || hit == &json!("True"));
    if let Some(spend) = value_of(record.spend)
        && (is_hit || !used || !is_zero(&spend))
    {
        usage.insert("cost".to_owned(), spend);
    }
    Value::Object(usage)
}

/// An object, or the object that a text holds as JSON.
fn object_of(value: Option<&Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
        _ => Map::new(),
    }
}

/// A time as text, in UTC if it does not say, or as seconds since 1970.
fn time_of(value: Option<&Value>) -> Time {
    match value? {
        Value::String(text) => parse_utc(text),
        Value::Number(number) => of_seconds(number),
        _ => None,
    }
}

/// The model's response, its usage and its cost.
pub(super) fn reply(row: &SpendRow, call: &LoggedCall, reading: Reading<'_>) -> ModelResponse {
    let mut reply = ModelResponse { model: call.model.clone(), ..ModelResponse::default() };
    reply.finish.clone_from(&call.finish);
    let priced = ModelCall {
        providers: &[call.provider.as_deref(), None],
        time: row.end,
        ..ModelCall::new(UsageShape::OpenAiChat, &call.usage)
    };
    reading.price(&mut reply, &priced, format_args!("row {}", call.id));
    reply
}

#[cfg(test)]
mod tests;
