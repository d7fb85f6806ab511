//! Responses of the gateway: a stop, and the pieces of a stream's end.

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
    let (block, reason) = match &reply.argument {
        Some(argument) => (call(reply, final_arguments(argument, words(stop))), "tool_use"),
        None => (json!({ "type": "text", "text": words(stop) }), "end_turn"),
    };
    json_answer(StatusCode::OK, &message(reply, &[block], Some(reason)))
}

fn call(reply: &ResponseOutline, input: Value) -> Value {
    json!({
        "type": "tool_use", "id": format!("toolu_{}", reply.id), "name": FINAL_ANSWER, "input": input,
    })
}

fn message(reply: &ResponseOutline, content: &[Value], reason: Option<&str>) -> Value {
    json!({
        "id": format!("msg_{}", reply.id), "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": reason, "stop_sequence": null,
        "usage": {
            "input_tokens": 0, "output_tokens": 0,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        },
    })
}

/// A complete stream with the stop response.
pub(crate) fn stream(reply: &ResponseOutline, stop: &StopText) -> Vec<u8> {
    let mut out = Vec::new();
    let start = json!({ "type": "message_start", "message": message(reply, &[], None) });
    write_event(&mut out, "message_start", &start);
    let reason = match &reply.argument {
        Some(argument) => {
            let input = final_arguments(argument, words(stop)).to_string();
            let piece = json!({ "type": "input_json_delta", "partial_json": input });
            block(&mut out, 0, &call(reply, json!({})), piece);
            "tool_use"
        }
        None => {
            text_block(&mut out, 0, words(stop));
            "end_turn"
        }
    };
    finish(&mut out, reason, 0);
    out
}

/// A whole block of text.
pub(crate) fn text_block(out: &mut Vec<u8>, index: u64, text: &str) {
    let start = json!({ "type": "text", "text": "" });
    block(out, index, &start, json!({ "type": "text_delta", "text": text }));
}

fn block(out: &mut Vec<u8>, index: u64, start: &Value, piece: Value) {
    let start = json!({ "type": "content_block_start", "index": index, "content_block": start });
    write_event(out, "content_block_start", &start);
    delta(out, index, piece);
    close(out, index);
}

/// A piece of an open block.
pub(crate) fn delta(out: &mut Vec<u8>, index: u64, piece: Value) {
    let delta = json!({ "type": "content_block_delta", "index": index, "delta": piece });
    write_event(out, "content_block_delta", &delta);
}

/// The end of a block.
pub(crate) fn close(out: &mut Vec<u8>, index: u64) {
    let stop = json!({ "type": "content_block_stop", "index": index });
    write_event(out, "content_block_stop", &stop);
}

/// The end of the message. `output` tokens were made.
pub(crate) fn finish(out: &mut Vec<u8>, reason: &str, output: u64) {
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    let usage = json!({ "output_tokens": output });
    let event = json!({ "type": "message_delta", "delta": delta, "usage": usage });
    write_event(out, "message_delta", &event);
    end(out);
}

/// The last event of a stream.
pub(crate) fn end(out: &mut Vec<u8>) {
    write_event(out, "message_stop", &json!({ "type": "message_stop" }));
}

/// An error as the API writes it.
pub(crate) fn error(status: StatusCode, kind: ErrorKind, message: &str) -> WrittenResponse {
    let name = match kind {
        ErrorKind::Stopped => "billing_error",
        ErrorKind::Invalid | ErrorKind::Thread => "invalid_request_error",
        ErrorKind::Upstream => "api_error",
        ErrorKind::Overloaded => "overloaded_error",
    };
    let mut error = json!({ "type": name, "message": message });
    if let (ErrorKind::Thread, Some(error)) = (kind, error.as_object_mut()) {
        let details = json!({ "error_code": "thread_unsupported_request" });
        error.insert("details".to_owned(), details);
    }
    json_answer(status, &json!({ "type": "error", "error": error }))
}
