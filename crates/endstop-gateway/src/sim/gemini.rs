//! Gemini `generateContent`, `streamGenerateContent` and `countTokens`.

use serde_json::{Value, json};

use super::ask::{Ask, Choice, Tool, count, list, text};
use super::plan::{Reply, Said};
use super::wire::{Answer, Events, words};
use crate::api::Api;

pub(super) fn read(
    body: &Value,
    model: &str,
    is_stream: bool,
    is_sse: bool,
) -> Result<Ask, &'static str> {
    let contents = body.get("contents").and_then(Value::as_array);
    let contents = contents.ok_or("contents is not specified")?;
    let mut ask = Ask::new(Api::Gemini, body);
    model.clone_into(&mut ask.model);
    ask.is_stream = is_stream;
    ask.is_sse = is_sse;
    let functions = list(body, "tools")
        .iter()
        .filter_map(|tool| member(tool, "functionDeclarations")?.as_array());
    ask.tools = functions.flatten().filter_map(tool).collect();
    let config = member(body, "toolConfig");
    ask.choice = choice(config.and_then(|config| member(config, "functionCallingConfig")));
    let config = member(body, "generationConfig").unwrap_or(&Value::Null);
    let formats = ["responseJsonSchema", "responseSchema"];
    ask.format = formats.iter().find_map(|format| member(config, format)).cloned();
    ask.turns = count(contents, |content| text(content, "role") == "model");
    let parts = contents.iter().flat_map(|content| list(content, "parts"));
    ask.results = parts.filter(|part| member(part, "functionResponse").is_some()).count();
    ask.messages = contents.len();
    ask.cap = member(config, "maxOutputTokens").and_then(Value::as_u64);
    ask.take_choices(member(config, "candidateCount"));
    Ok(ask)
}

/// A member by either of its spellings: Google's own client sends `parameters_json_schema` beside camel case.
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
    Some(Tool { name, schema: schema.unwrap_or_default() })
}

fn choice(config: Option<&Value>) -> Choice {
    let Some(config) = config else { return Choice::Auto };
    let allowed = member(config, "allowedFunctionNames").and_then(Value::as_array);
    match (text(config, "mode"), allowed.and_then(|names| names.first())) {
        ("NONE", _) => Choice::None,
        ("ANY", Some(name)) => Choice::Named(name.as_str().unwrap_or_default().to_owned()),
        ("ANY", None) => Choice::Any,
        _ => Choice::Auto,
    }
}

pub(super) fn tokens_counted(ask: &Ask) -> Value {
    json!({ "totalTokens": ask.input_tokens })
}

pub(super) fn answer(ask: &Ask, reply: &Reply) -> Answer {
    let parts: Vec<Value> = match &reply.said {
        Said::Text(text) if ask.is_stream => {
            words(text).map(|word| json!({ "text": word })).collect()
        }
        Said::Text(text) => vec![json!({ "text": text })],
        Said::Call { name, arguments } => {
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            vec![json!({ "functionCall": { "name": name, "args": arguments } })]
        }
    };
    if !ask.is_stream {
        return Answer::Whole(part_of(ask, reply, &parts, true));
    }
    let last = parts.len().saturating_sub(1);
    let is_word = matches!(reply.said, Said::Text(_));
    let mut events = Events::default();
    for (at, part) in parts.iter().enumerate() {
        let chunk = part_of(ask, reply, std::slice::from_ref(part), at == last);
        if ask.is_sse {
            // Gemini ends lines of its events with both characters.
            events.raw(format!("data: {chunk}\r\n\r\n"), is_word);
        } else {
            let before = if at == 0 { "[" } else { ",\r\n" };
            let after = if at == last { "]" } else { "" };
            events.raw(format!("{before}{chunk}{after}"), is_word);
        }
    }
    events.into_answer(if ask.is_sse { "text/event-stream" } else { "application/json" })
}

fn part_of(ask: &Ask, reply: &Reply, parts: &[Value], is_last: bool) -> Value {
    let candidates: Vec<Value> = (0..ask.choices)
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
        "modelVersion": ask.model,
        "responseId": reply.id,
    })
}
