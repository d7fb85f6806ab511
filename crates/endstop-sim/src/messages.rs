//! Anthropic messages and `count_tokens`.

use serde_json::{Value, json};

use crate::Api;
use crate::plan::{Content, PlannedResponse};
use crate::request::{SimRequest, Tool, ToolChoice, count, list, text};
use crate::wire::{Answer, Events, argument_pieces, words};

pub(crate) fn read(body: &Value) -> Result<SimRequest, &'static str> {
    let request = read_to_count(body)?;
    if request.cap.is_none() {
        return Err("max_tokens: Field required");
    }
    Ok(request)
}

/// A request for a count of its tokens has no output cap.
pub(crate) fn read_to_count(body: &Value) -> Result<SimRequest, &'static str> {
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or("messages: Field required")?;
    let mut request = SimRequest::new(Api::Messages, body);
    request.cap = body.get("max_tokens").and_then(Value::as_u64);
    request.tools = list(body, "tools").iter().filter_map(tool).collect();
    request.choice = choice(body.get("tool_choice"));
    let formats = ["/output_config/format/schema", "/output_format/schema"];
    request.format = formats.iter().find_map(|format| body.pointer(format)).cloned();
    request.turns = count(messages, |message| text(message, "role") == "assistant");
    let blocks = messages.iter().flat_map(|message| list(message, "content"));
    request.results = blocks.filter(|block| text(block, "type") == "tool_result").count();
    request.messages = messages.len();
    let thread = body.pointer("/thread/previous_message_id").and_then(Value::as_str);
    request.continues = thread.map(str::to_owned);
    request.is_thread = body.get("thread").is_some();
    Ok(request)
}

/// Tools that the provider runs itself have no schema and are not called.
fn tool(tool: &Value) -> Option<Tool> {
    let schema = tool.get("input_schema")?.clone();
    Some(Tool { name: tool.get("name")?.as_str()?.to_owned(), namespace: None, schema })
}

fn choice(value: Option<&Value>) -> ToolChoice {
    let Some(value) = value else { return ToolChoice::Auto };
    match text(value, "type") {
        "none" => ToolChoice::None,
        "any" => ToolChoice::Any,
        "tool" => ToolChoice::Named(text(value, "name").to_owned()),
        _ => ToolChoice::Auto,
    }
}

/// The id of the answer; a later request may continue it as a thread.
pub(crate) fn id(reply: &PlannedResponse) -> String {
    format!("msg_{}", reply.id)
}

pub(crate) fn tokens_counted(request: &SimRequest) -> Value {
    json!({ "input_tokens": request.input_tokens })
}

pub(crate) fn answer(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    if request.is_stream {
        return stream(request, reply);
    }
    let block = match &reply.content {
        Content::Text(text) => json!({ "type": "text", "text": text }),
        Content::Call { name, arguments, .. } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or_default();
            json!({ "type": "tool_use", "id": call_id(reply), "name": name, "input": input })
        }
    };
    let mut message = message(request, reply, reply.output_tokens);
    if let Some(members) = message.as_object_mut() {
        members.insert("content".to_owned(), json!([block]));
        members.insert("stop_reason".to_owned(), json!(finish(reply)));
    }
    Answer::Whole(message)
}

/// The message before any content.
fn message(request: &SimRequest, reply: &PlannedResponse, output_tokens: u64) -> Value {
    json!({
        "id": id(reply),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": reply.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
            "service_tier": "standard",
        },
    })
}

fn stream(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    let mut events = Events::default();
    let begun = message(request, reply, 1);
    events.named(&json!({ "type": "message_start", "message": begun }), false);
    let block = match &reply.content {
        Content::Text(_) => json!({ "type": "text", "text": "" }),
        Content::Call { name, .. } => {
            json!({ "type": "tool_use", "id": call_id(reply), "name": name, "input": {} })
        }
    };
    let begun = json!({ "type": "content_block_start", "index": 0, "content_block": block });
    events.named(&begun, false);
    events.named(&json!({ "type": "ping" }), false);
    let mut delta = |delta: Value, is_word| {
        let event = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
        events.named(&event, is_word);
    };
    match &reply.content {
        Content::Text(text) => {
            for word in words(text) {
                delta(json!({ "type": "text_delta", "text": word }), true);
            }
        }
        Content::Call { arguments, .. } => {
            delta(json!({ "type": "input_json_delta", "partial_json": "" }), false);
            for piece in argument_pieces(arguments) {
                delta(json!({ "type": "input_json_delta", "partial_json": piece }), false);
            }
        }
    }
    events.named(&json!({ "type": "content_block_stop", "index": 0 }), false);
    let end = json!({
        "type": "message_delta",
        "delta": { "stop_reason": finish(reply), "stop_sequence": null },
        "usage": { "output_tokens": reply.output_tokens },
    });
    events.named(&end, false);
    events.named(&json!({ "type": "message_stop" }), false);
    events.into_answer("text/event-stream; charset=utf-8")
}

fn call_id(reply: &PlannedResponse) -> String {
    format!("toolu_{}", reply.id)
}

fn finish(reply: &PlannedResponse) -> &'static str {
    match reply.content {
        _ if reply.is_capped => "max_tokens",
        Content::Text(_) => "end_turn",
        Content::Call { .. } => "tool_use",
    }
}
