//! Responses of the gateway: a stop, and the end of a stream.
//!
//! Clients of this API check the order of events, and take the last event for the whole response: so every item is
//! started and ended, and the last event has it.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::StopText;
use crate::WrittenResponse;
use crate::response_outline::{
    FINAL_ANSWER, ResponseOutline, final_arguments, json_answer, stream_answer, words, write_event,
};

pub(crate) fn stop(reply: &ResponseOutline, stop: &StopText) -> WrittenResponse {
    if reply.is_stream {
        return stream_answer(stream(reply, stop));
    }
    let item = match &reply.argument {
        Some(argument) => call(reply, &final_arguments(argument, words(stop)).to_string(), true),
        None => message(&format!("msg_{}", reply.id), &[part(words(stop))], true),
    };
    let mut response = response(reply);
    complete(&mut response, vec![item], [0, 0]);
    json_answer(StatusCode::OK, &Value::Object(response))
}

/// A complete stream with the stop response.
pub(crate) fn stream(reply: &ResponseOutline, stop: &StopText) -> Vec<u8> {
    let mut ending = Ending::new(reply, "", 0);
    for kind in ["response.created", "response.in_progress"] {
        let response = Value::Object(ending.response.clone());
        ending.event(kind, json!({ "response": response }));
    }
    match &reply.argument {
        Some(argument) => {
            ending.call(reply, &final_arguments(argument, words(stop)).to_string());
        }
        None => ending.say(0, words(stop)),
    }
    ending.complete([0, 0])
}

/// A response that has only begun, with all that clients insist on.
fn response(reply: &ResponseOutline) -> Map<String, Value> {
    let response = json!({
        "id": format!("resp_{}", reply.id), "object": "response", "created_at": 0,
        "status": "in_progress", "background": false, "error": null, "incomplete_details": null,
        "instructions": null, "max_output_tokens": null, "metadata": {}, "model": reply.model,
        "output": [], "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": { "effort": null, "summary": null }, "store": false, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": null, "user": null,
    });
    if let Value::Object(response) = response { response } else { Map::new() }
}

fn complete(response: &mut Map<String, Value>, output: Vec<Value>, [input, made]: [u64; 2]) {
    let usage = json!({
        "input_tokens": input, "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": made, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input.saturating_add(made),
    });
    let members =
        [("status", json!("completed")), ("output", Value::Array(output)), ("usage", usage)];
    for (key, value) in members {
        response.insert(key.to_owned(), value);
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn message(id: &str, content: &[Value], is_whole: bool) -> Value {
    let status = if is_whole { "completed" } else { "in_progress" };
    json!({ "id": id, "type": "message", "role": "assistant", "status": status, "content": content })
}

fn call(reply: &ResponseOutline, arguments: &str, is_whole: bool) -> Value {
    let status = if is_whole { "completed" } else { "in_progress" };
    json!({
        "id": format!("fc_{}", reply.id), "type": "function_call", "status": status,
        "call_id": format!("call_{}", reply.id), "name": FINAL_ANSWER, "arguments": arguments,
    })
}

/// An incomplete message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenText<'t> {
    pub(crate) id: &'t str,
    pub(crate) index: u64,
    /// The part of it that is open.
    pub(crate) part: Option<u64>,
    /// Its text so far.
    pub(crate) text: &'t str,
}

/// The events that end a stream.
#[derive(Debug)]
pub(crate) struct Ending {
    response: Map<String, Value>,
    next_sequence: u64,
    message_id: String,
    output: Vec<Value>,
    out: Vec<u8>,
}

impl Ending {
    /// Continues a stream whose response began as `begun` and whose next event has this number.
    pub(crate) fn new(reply: &ResponseOutline, begun: &str, next_sequence: u64) -> Self {
        Self {
            response: serde_json::from_str(begun).unwrap_or_else(|_| response(reply)),
            next_sequence,
            message_id: format!("msg_{}", reply.id),
            output: Vec::new(),
            out: Vec::new(),
        }
    }

    fn event(&mut self, kind: &str, mut event: Value) {
        if let Some(members) = event.as_object_mut() {
            members.insert("type".to_owned(), Value::from(kind));
            members.insert("sequence_number".to_owned(), Value::from(self.next_sequence));
        }
        self.next_sequence = self.next_sequence.saturating_add(1);
        write_event(&mut self.out, kind, &event);
    }

    /// A complete item.
    pub(crate) fn keep(&mut self, item: &str) {
        self.output.extend(serde_json::from_str::<Value>(item).ok());
    }

    /// Ends an item as it is.
    pub(crate) fn close(&mut self, index: u64, item: &str) {
        if let Ok(item) = serde_json::from_str::<Value>(item) {
            self.item_done(index, item);
        }
    }

    fn item_done(&mut self, index: u64, item: Value) {
        self.event("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.output.push(item);
    }

    /// Adds text to an open message, and ends it. `more` is empty if its one part has ended.
    pub(crate) fn close_text(&mut self, open: &OpenText<'_>, more: &str) {
        let place = |content: u64| json!({ "item_id": open.id, "output_index": open.index, "content_index": content });
        let with = |content: u64, key: &str, value: Value| {
            let mut event = place(content);
            if let Some(members) = event.as_object_mut() {
                members.insert(key.to_owned(), value);
                if key != "part" {
                    members.insert("logprobs".to_owned(), json!([]));
                }
            }
            event
        };
        let at = open.part.unwrap_or(0);
        let text = format!("{}{more}", open.text);
        if open.part.is_none() && !more.is_empty() {
            self.event("response.content_part.added", with(at, "part", part("")));
        }
        if !more.is_empty() {
            self.event("response.output_text.delta", with(at, "delta", json!(more)));
        }
        if open.part.is_some() || !more.is_empty() {
            self.event("response.output_text.done", with(at, "text", json!(text)));
            self.event("response.content_part.done", with(at, "part", part(&text)));
        }
        self.item_done(open.index, message(open.id, &[part(&text)], true));
    }

    /// A separate message.
    pub(crate) fn say(&mut self, index: u64, text: &str) {
        let id = self.message_id.clone();
        let added = json!({ "output_index": index, "item": message(&id, &[], false) });
        self.event("response.output_item.added", added);
        self.close_text(&OpenText { id: &id, index, part: None, text: "" }, text);
    }

    fn call(&mut self, reply: &ResponseOutline, arguments: &str) {
        let added = json!({ "output_index": 0, "item": call(reply, "", false) });
        self.event("response.output_item.added", added);
        let item = call(reply, arguments, true);
        let id = item.get("id").cloned();
        let place = json!({ "item_id": id, "output_index": 0, "delta": arguments });
        self.event("response.function_call_arguments.delta", place);
        let place = json!({
            "item_id": id, "output_index": 0, "name": FINAL_ANSWER, "arguments": arguments,
        });
        self.event("response.function_call_arguments.done", place);
        self.item_done(0, item);
    }

    /// The last event.
    pub(crate) fn complete(mut self, usage: [u64; 2]) -> Vec<u8> {
        let output = std::mem::take(&mut self.output);
        complete(&mut self.response, output, usage);
        let response = Value::Object(std::mem::take(&mut self.response));
        self.event("response.completed", json!({ "response": response }));
        self.out
    }
}
