//! Responses of the gateway: a stop, and the end of a stream.

use http::StatusCode;
use serde_json::{Value, json};

use crate::StopText;
use crate::response_outline::{
    FINAL_ANSWER, ResponseOutline, final_arguments, json_answer, stream_answer, words, write_event,
};
use crate::{ErrorKind, WrittenResponse};

/// The end of a stream of this API.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// The common part of all chunks of one response.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) model: String,
    /// Seconds since 1970. Nothing is known to read it; a response of the gateway says 0.
    pub(crate) created: u64,
}

impl Head {
    pub(crate) fn of(reply: &ResponseOutline) -> Self {
        Self { id: format!("chatcmpl-{}", reply.id), model: reply.model.clone(), created: 0 }
    }

    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "system_fingerprint": null, "choices": choices,
        })
    }

    /// A piece of one choice.
    pub(crate) fn delta(&self, index: u64, delta: Value, finish: Option<&str>) -> Value {
        let choice =
            json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish });
        self.chunk(json!([choice]))
    }

    /// The chunk that has only usage.
    pub(crate) fn usage(&self, input: u64, output: u64) -> Value {
        let mut chunk = self.chunk(json!([]));
        if let Some(members) = chunk.as_object_mut() {
            members.insert("usage".to_owned(), usage(input, output));
        }
        chunk
    }
}

fn usage(input: u64, output: u64) -> Value {
    json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
    })
}

pub(crate) fn stop(reply: &ResponseOutline, stop: &StopText) -> WrittenResponse {
    if reply.is_stream {
        return stream_answer(stream(reply, stop));
    }
    let (message, finish) = message(reply, stop);
    let choices: Vec<Value> = (0..reply.choices)
        .map(|index| {
            json!({ "index": index, "message": message, "logprobs": null, "finish_reason": finish })
        })
        .collect();
    let head = Head::of(reply);
    let body = json!({
        "id": head.id, "object": "chat.completion", "created": head.created, "model": head.model,
        "system_fingerprint": null, "choices": choices, "usage": usage(0, 0),
    });
    json_answer(StatusCode::OK, &body)
}

/// A complete stream with the stop response.
pub(crate) fn stream(reply: &ResponseOutline, stop: &StopText) -> Vec<u8> {
    let head = Head::of(reply);
    let mut out = Vec::new();
    for index in 0..reply.choices {
        let (mut message, finish) = message(reply, stop);
        if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                call.insert("index".to_owned(), Value::from(0));
            }
        }
        write_event(
            &mut out,
            "",
            &head.delta(index, json!({ "role": "assistant", "content": "" }), None),
        );
        write_event(&mut out, "", &head.delta(index, message, None));
        write_event(&mut out, "", &head.delta(index, json!({}), Some(finish)));
    }
    if reply.wants_usage {
        write_event(&mut out, "", &head.usage(0, 0));
    }
    out.extend_from_slice(DONE.as_bytes());
    out
}

/// The message that ends the loop, and its finish reason.
fn message(reply: &ResponseOutline, stop: &StopText) -> (Value, &'static str) {
    let text = words(stop);
    let Some(argument) = &reply.argument else {
        return (json!({ "role": "assistant", "content": text, "refusal": null }), "stop");
    };
    let arguments = final_arguments(argument, text).to_string();
    let function = json!({ "name": FINAL_ANSWER, "arguments": arguments });
    let call =
        json!({ "id": format!("call_{}", reply.id), "type": "function", "function": function });
    (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
}

/// An error as OpenAI writes it.
pub(crate) fn error(status: StatusCode, kind: ErrorKind, message: &str) -> WrittenResponse {
    let (kind, code) = match kind {
        ErrorKind::Stopped => ("insufficient_quota", Some("insufficient_quota")),
        ErrorKind::Invalid | ErrorKind::Thread => ("invalid_request_error", None),
        ErrorKind::Upstream => ("api_error", None),
        ErrorKind::Overloaded => ("server_error", Some("overloaded")),
    };
    let error = json!({ "message": message, "type": kind, "param": null, "code": code });
    json_answer(status, &json!({ "error": error }))
}
