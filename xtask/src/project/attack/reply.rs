//! Answers of the upstream, as bytes: those that are right, and those that are not.

use serde_json::{Value, json};

use super::bill::Arrival;

/// A complete answer of JSON.
pub(in crate::project) fn whole(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(in crate::project) fn ok(body: &Value) -> Vec<u8> {
    whole("200 OK", "", &body.to_string())
}

/// Puts a value where these keys lead to.
pub(in crate::project) fn put(body: &mut Value, keys: &[&str], value: Value) {
    let mut at = body;
    for key in keys {
        let Value::Object(members) = at else { return };
        at = members.entry(*key).or_insert_with(|| json!({}));
    }
    *at = value;
}

/// The beginning of a stream, with these events.
pub(in crate::project) fn stream(events: &[Value]) -> Vec<u8> {
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n"
        .to_owned();
    text.push_str(&chunks(events));
    text.into_bytes()
}

/// The last events of a stream, and its end.
pub(in crate::project) fn end_of_stream(events: &[Value]) -> Vec<u8> {
    (chunks(events) + "0\r\n\r\n").into_bytes()
}

fn chunks(events: &[Value]) -> String {
    let chunk = |event: &Value| {
        let name = event.get("type").and_then(Value::as_str).unwrap_or("message");
        let event = format!("event: {name}\ndata: {event}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    events.iter().map(chunk).collect()
}

/// An honest count of the tokens of a request.
pub(in crate::project) fn count(arrival: &Arrival) -> Vec<u8> {
    let tokens = if arrival.body.contains(COUNTED_AS_NOTHING) { 100 } else { arrival.tokens() };
    ok(&json!({ "input_tokens": tokens, "totalTokens": tokens, "object": "response.input_tokens" }))
}

/// A request with this in it is counted as if it were small.
pub(in crate::project) const COUNTED_AS_NOTHING: &str = "counted-as-nothing";

pub(in crate::project) fn chat(input: u64, output: u64) -> Value {
    json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 7,
        "choices": [{ "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": "Done." } }],
        "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output } })
}

pub(in crate::project) fn messages(input: u64, output: u64) -> Value {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "stop_reason": "end_turn", "content": [{ "type": "text", "text": "Done." }],
        "usage": { "input_tokens": input, "output_tokens": output } })
}

pub(in crate::project) fn responses(input: u64, output: u64) -> Value {
    json!({ "id": "resp_1", "object": "response", "status": "completed",
        "output": [{ "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Done." }] }],
        "usage": { "input_tokens": input, "output_tokens": output, "total_tokens": input + output } })
}

pub(in crate::project) fn gemini(input: u64, output: u64) -> Value {
    json!({ "candidates": [{ "index": 0, "finishReason": "STOP",
            "content": { "role": "model", "parts": [{ "text": "Done." }] } }],
        "usageMetadata": { "promptTokenCount": input, "candidatesTokenCount": output,
            "totalTokenCount": input + output } })
}

/// The first event of a stream of Anthropic's, which reports the input.
pub(in crate::project) fn message_start(input: u64) -> Value {
    let mut message = messages(input, 1);
    put(&mut message, &["content"], json!([]));
    put(&mut message, &["stop_reason"], Value::Null);
    json!({ "type": "message_start", "message": message })
}
