//! Frames of the streams of providers, written by hand after their API references.
#![expect(clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use serde_json::{Value, json};

fn data(body: &Value) -> String {
    format!("data: {body}")
}

/// Chat completions as OpenAI and all who copy it stream them.
pub(crate) mod chat {
    use super::{Value, data, json};

    /// The end of a stream.
    pub(crate) const DONE: &str = "data: [DONE]";

    /// The usage that the tests expect as 36 uncached and 64 cached input, 20 output with 5 of reasoning.
    pub(crate) fn some_usage() -> Value {
        json!({
            "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": { "cached_tokens": 64 },
            "completion_tokens_details": { "reasoning_tokens": 5 },
        })
    }

    /// A frame with a delta, a finish reason or null, and a usage unless it is absent.
    pub(crate) fn frame(delta: Value, finish: Value, usage: Option<Value>) -> String {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let mut body = json!({ "id": "c1", "model": "gpt-test-1", "choices": [choice] });
        if let Some(usage) = usage {
            body["usage"] = usage;
        }
        data(&body)
    }

    /// Words.
    pub(crate) fn piece(text: &str) -> String {
        frame(json!({ "content": text }), Value::Null, None)
    }

    /// The finish reason.
    pub(crate) fn finish(reason: &str) -> String {
        frame(json!({}), json!(reason), None)
    }

    /// The last frame before the end, which has a usage and no choice.
    pub(crate) fn usage(usage: Value) -> String {
        data(&json!({ "id": "c1", "model": "gpt-test-1", "choices": [], "usage": usage }))
    }

    /// A piece of a tool call.
    pub(crate) fn call(
        index: u32,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> String {
        let mut call = json!({ "index": index, "function": { "arguments": arguments } });
        if let (Some(id), Some(name)) = (id, name) {
            call["id"] = json!(id);
            call["function"]["name"] = json!(name);
        }
        frame(json!({ "tool_calls": [call] }), Value::Null, None)
    }

    /// A complete text answer.
    pub(crate) fn answer(words: &[&str]) -> Vec<String> {
        let mut frames: Vec<String> = words.iter().map(|word| piece(word)).collect();
        frames.extend([finish("stop"), usage(some_usage()), DONE.to_owned()]);
        frames
    }
}

/// Messages of Anthropic.
pub(crate) mod messages {
    use super::{Value, json};

    fn event(kind: &str, mut body: Value) -> String {
        body["type"] = json!(kind);
        format!("event: {kind}\ndata: {body}")
    }

    /// The first frame.
    pub(crate) fn start(usage: Value) -> String {
        event("message_start", json!({ "message": { "model": "claude-test-1", "usage": usage } }))
    }

    /// A block of a kind, whole, with its deltas.
    pub(crate) fn block(index: u32, block: Value, deltas: &[Value]) -> Vec<String> {
        let begin = event("content_block_start", json!({ "index": index, "content_block": block }));
        let mut frames = vec![begin];
        frames.extend(
            deltas.iter().map(|delta| {
                event("content_block_delta", json!({ "index": index, "delta": delta }))
            }),
        );
        frames.push(event("content_block_stop", json!({ "index": index })));
        frames
    }

    /// Words.
    pub(crate) fn text(index: u32, pieces: &[&str]) -> Vec<String> {
        let delta = |piece: &&str| json!({ "type": "text_delta", "text": piece });
        let deltas: Vec<Value> = pieces.iter().map(delta).collect();
        block(index, json!({ "type": "text", "text": "" }), &deltas)
    }

    /// A tool call, its input in pieces.
    pub(crate) fn tool_use(index: u32, id: &str, name: &str, pieces: &[&str]) -> Vec<String> {
        let delta = |piece: &&str| json!({ "type": "input_json_delta", "partial_json": piece });
        let deltas: Vec<Value> = pieces.iter().map(delta).collect();
        block(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} }), &deltas)
    }

    /// The finish reason with the last counts, and the end.
    pub(crate) fn end(reason: &str, usage: Value) -> Vec<String> {
        let delta = json!({ "delta": { "stop_reason": reason }, "usage": usage });
        vec![event("message_delta", delta), event("message_stop", json!({}))]
    }

    /// A sign of life.
    pub(crate) fn ping() -> String {
        event("ping", json!({}))
    }

    /// An error in the stream.
    pub(crate) fn error(kind: &str, message: &str) -> String {
        event("error", json!({ "error": { "type": kind, "message": message } }))
    }
}

/// Responses of OpenAI.
pub(crate) mod responses {
    use super::{Value, json};

    /// An event.
    pub(crate) fn event(kind: &str, mut body: Value) -> String {
        body["type"] = json!(kind);
        format!("event: {kind}\ndata: {body}")
    }

    /// Words.
    pub(crate) fn piece(text: &str) -> String {
        event("response.output_text.delta", json!({ "output_index": 0, "delta": text }))
    }

    /// A whole item of the output.
    pub(crate) fn item(index: u32, item: Value) -> Vec<String> {
        let body = json!({ "output_index": index, "item": item });
        vec![
            event("response.output_item.added", body.clone()),
            event("response.output_item.done", body),
        ]
    }

    /// The end.
    pub(crate) fn end(kind: &str, status: &str, more: Value) -> String {
        let mut response = json!({
            "id": "r1", "model": "gpt-test-2", "status": status, "output": [],
            "usage": {
                "input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
                "input_tokens_details": { "cached_tokens": 64 },
                "output_tokens_details": { "reasoning_tokens": 5 },
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            response[key] = value.clone();
        }
        event(kind, json!({ "response": response }))
    }
}

/// Gemini.
pub(crate) mod gemini {
    use super::{Value, data, json};

    /// A frame with parts, a finish reason or null, and a usage unless it is null.
    pub(crate) fn frame(parts: Value, finish: Value, usage: Value) -> String {
        let mut candidate = json!({ "content": { "role": "model", "parts": parts } });
        if !finish.is_null() {
            candidate["finishReason"] = finish;
        }
        let mut body = json!({ "candidates": [candidate], "modelVersion": "gemini-test-1" });
        if !usage.is_null() {
            body["usageMetadata"] = usage;
        }
        data(&body)
    }

    /// The usage that the tests expect as [`super::chat::some_usage`].
    pub(crate) fn some_usage() -> Value {
        json!({
            "promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 15,
            "thoughtsTokenCount": 5, "totalTokenCount": 120,
        })
    }
}
