//! Responses of the gateway: a stop, and the end of a stream.

use http::StatusCode;
use serde_json::{Value, json};

use crate::StopText;
use crate::response_outline::{
    FINAL_ANSWER, ResponseOutline, final_arguments, json_answer, stream_answer, words, write_event,
};
use crate::{ErrorKind, WrittenResponse};

pub(crate) fn stop(reply: &ResponseOutline, stop: &StopText) -> WrittenResponse {
    if reply.is_stream {
        return stream_answer(stream(reply, stop));
    }
    let body = whole(reply, stop);
    json_answer(StatusCode::OK, &if reply.is_list { json!([body]) } else { body })
}

/// A complete stream with the stop response.
pub(crate) fn stream(reply: &ResponseOutline, stop: &StopText) -> Vec<u8> {
    let mut out = Vec::new();
    write_event(&mut out, "", &whole(reply, stop));
    out
}

fn whole(reply: &ResponseOutline, stop: &StopText) -> Value {
    let part = match &reply.argument {
        Some(argument) => {
            let args = final_arguments(argument, words(stop));
            json!({ "functionCall": { "name": FINAL_ANSWER, "args": args } })
        }
        None => json!({ "text": words(stop) }),
    };
    let parts = vec![part; usize::try_from(reply.choices).unwrap_or(1)];
    let candidates: Vec<Value> =
        parts.into_iter().enumerate().map(|(index, part)| candidate(index, part)).collect();
    answer(&candidates, &reply.model, &reply.id, [0, 0])
}

fn candidate(index: usize, part: Value) -> Value {
    let content = json!({ "role": "model", "parts": [part] });
    json!({ "content": content, "finishReason": "STOP", "index": index })
}

fn answer(candidates: &[Value], model: &str, id: &str, [input, output]: [u64; 2]) -> Value {
    json!({
        "candidates": candidates,
        "usageMetadata": {
            "promptTokenCount": input, "candidatesTokenCount": output,
            "totalTokenCount": input.saturating_add(output),
        },
        "modelVersion": model, "responseId": id,
    })
}

/// The last event of a stream that is ended.
pub(crate) fn last(text: &str, model: &str, id: &str, usage: [u64; 2]) -> Vec<u8> {
    let mut out = Vec::new();
    let candidates = [candidate(0, json!({ "text": text }))];
    write_event(&mut out, "", &answer(&candidates, model, id, usage));
    out
}

/// An error as the API writes it.
pub(crate) fn error(status: StatusCode, kind: ErrorKind, message: &str) -> WrittenResponse {
    let name = match kind {
        // RESOURCE_EXHAUSTED would say: try again later.
        ErrorKind::Stopped => "FAILED_PRECONDITION",
        ErrorKind::Invalid | ErrorKind::Thread => "INVALID_ARGUMENT",
        ErrorKind::Upstream => "INTERNAL",
        ErrorKind::Overloaded => "UNAVAILABLE",
    };
    let error = json!({ "code": status.as_u16(), "message": message, "status": name });
    json_answer(status, &json!({ "error": error }))
}
