//! Gemini `generateContent`, `streamGenerateContent` and `countTokens`.

use serde_json::{Value, json};

use crate::Api;
use crate::plan::{Content, PlannedResponse};
use crate::request::{SimRequest, Tool, ToolChoice, count, list, text};
use crate::wire::{Answer, Events, words};

pub(crate) fn read(
    body: &Value,
    model: &str,
    is_stream: bool,
    is_sse: bool,
) -> Result<SimRequest, &'static str> {
    let contents = body.get("contents").and_then(Value::as_array);
    let contents = contents.ok_or("contents is not specified")?;
    let mut request = SimRequest::new(Api::Gemini, body);
    model.clone_into(&mut request.model);
    request.is_stream = is_stream;
    request.is_sse = is_sse;
    let functions = list(body, "tools")
        .iter()
        .filter_map(|tool| member(tool, "functionDeclarations")?.as_array());
    request.tools = functions.flatten().filter_map(tool).collect();
    let config = member(body, "toolConfig");
    request.choice = choice(config.and_then(|config| member(config, "functionCallingConfig")));
    let config = member(body, "generationConfig").unwrap_or(&Value::Null);
    let formats = ["responseJsonSchema", "responseSchema"];
    request.format = formats.iter().find_map(|format| member(config, format)).cloned();
    request.turns = count(contents, |content| text(content, "role") == "model");
    let parts = contents.iter().flat_map(|content| list(content, "parts"));
    request.results = parts.filter(|part| member(part, "functionResponse").is_some()).count();
    request.messages = contents.len();
    request.cap = member(config, "maxOutputTokens").and_then(Value::as_u64);
    request.take_choices(member(config, "candidateCount"));
    Ok(request)
}

/// A member by either of its spellings: Google's own client mixes `parameters_json_schema` with camel case.
fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.get(name).or_else(|| {
        let mut snake = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        value.get(snake)
    })
}

fn tool(function: &Value) -> Option<Tool> {
    let schemas = ["parametersJsonSchema", "parameters"];
    let schema = schemas.iter().find_map(|schema| member(function, schema)).cloned();
    let name = function.get("name")?.as_str()?.to_owned();
    Some(Tool { name, namespace: None, schema: schema.unwrap_or_default() })
}

fn choice(config: Option<&Value>) -> ToolChoice {
    let Some(config) = config else { return ToolChoice::Auto };
    let allowed = member(config, "allowedFunctionNames").and_then(Value::as_array);
    match (text(config, "mode"), allowed.and_then(|names| names.first())) {
        ("NONE", _) => ToolChoice::None,
        ("ANY", Some(name)) => ToolChoice::Named(name.as_str().unwrap_or_default().to_owned()),
        ("ANY", None) => ToolChoice::Any,
        _ => ToolChoice::Auto,
    }
}

pub(crate) fn tokens_counted(request: &SimRequest) -> Value {
    json!({ "totalTokens": request.input_tokens })
}

pub(crate) fn answer(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    let parts: Vec<Value> = match &reply.content {
        Content::Text(text) if request.is_stream => {
            words(text).map(|word| json!({ "text": word })).collect()
        }
        Content::Text(text) => vec![json!({ "text": text })],
        Content::Call { name, arguments, .. } => {
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            vec![json!({ "functionCall": { "name": name, "args": arguments } })]
        }
    };
    if !request.is_stream {
        return Answer::Whole(part_of(request, reply, &parts, true));
    }
    let last = parts.len().saturating_sub(1);
    let is_word = matches!(reply.content, Content::Text(_));
    let mut events = Events::default();
    for (at, part) in parts.iter().enumerate() {
        let chunk = part_of(request, reply, std::slice::from_ref(part), at == last);
        if request.is_sse {
            // Gemini ends lines of its events with both characters.
            events.raw(format!("data: {chunk}\r\n\r\n"), is_word);
        } else {
            let before = if at == 0 { "[" } else { ",\r\n" };
            let after = if at == last { "]" } else { "" };
            events.raw(format!("{before}{chunk}{after}"), is_word);
        }
    }
    events.into_answer(if request.is_sse { "text/event-stream" } else { "application/json" })
}

fn part_of(request: &SimRequest, reply: &PlannedResponse, parts: &[Value], is_last: bool) -> Value {
    let candidates: Vec<Value> = (0..request.choices)
        .map(|index| {
            let mut candidate =
                json!({ "index": index, "content": { "role": "model", "parts": parts } });
            if is_last && let Some(members) = candidate.as_object_mut() {
                let finish = if reply.is_capped { "MAX_TOKENS" } else { "STOP" };
                members.insert("finishReason".to_owned(), json!(finish));
            }
            candidate
        })
        .collect();
    let mut usage =
        json!({ "promptTokenCount": reply.input_tokens, "totalTokenCount": reply.input_tokens });
    if is_last && let Some(members) = usage.as_object_mut() {
        let total = reply.input_tokens.saturating_add(reply.output_tokens);
        members.insert("candidatesTokenCount".to_owned(), json!(reply.output_tokens));
        members.insert("totalTokenCount".to_owned(), json!(total));
    }
    json!({
        "candidates": candidates,
        "usageMetadata": usage,
        "modelVersion": request.model,
        "responseId": reply.id,
    })
}
