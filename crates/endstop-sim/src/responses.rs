//! OpenAI responses.

use serde_json::{Value, json};

use crate::Api;
use crate::chat::choice;
use crate::plan::{Content, PlannedResponse};
use crate::request::{SimRequest, Tool, count, list, text};
use crate::wire::{Answer, CREATED, Events, argument_pieces, words};

pub(crate) fn read(body: &Value) -> Result<SimRequest, &'static str> {
    let mut request = SimRequest::new(Api::Responses, body);
    request.continues = body.get("previous_response_id").and_then(Value::as_str).map(str::to_owned);
    match body.get("input") {
        Some(Value::String(_)) => request.messages = 1,
        Some(Value::Array(items)) => {
            let is_turn = |item: &&Value| {
                text(item, "role") == "assistant" || text(item, "type") == "function_call"
            };
            request.turns = count(items, is_turn);
            let is_result = |item: &&Value| text(item, "type") == "function_call_output";
            request.results = items.iter().filter(is_result).count();
            request.messages = items.len();
        }
        _ => return Err("`input` is missing"),
    }
    request.tools = list(body, "tools").iter().flat_map(tools).collect();
    // Codex offers its tools in an item of the input.
    let added = list(body, "input").iter().filter(|item| text(item, "type") == "additional_tools");
    request.tools.extend(added.flat_map(|item| list(item, "tools")).flat_map(tools));
    request.choice = choice(body.get("tool_choice"));
    request.format = body.get("text").and_then(|text| text.get("format")).and_then(format);
    request.cap = body.get("max_output_tokens").and_then(Value::as_u64);
    Ok(request)
}

pub(crate) fn tokens_counted(request: &SimRequest) -> Value {
    json!({ "object": "response.input_tokens", "input_tokens": request.input_tokens })
}

/// A function, or those of a namespace.
fn tools(tool: &Value) -> Vec<Tool> {
    if text(tool, "type") != "namespace" {
        return function(tool, None).into_iter().collect();
    }
    let namespace = text(tool, "name");
    list(tool, "tools").iter().filter_map(|tool| function(tool, Some(namespace))).collect()
}

fn function(tool: &Value, namespace: Option<&str>) -> Option<Tool> {
    if text(tool, "type") != "function" {
        return None;
    }
    let schema = tool.get("parameters").cloned().unwrap_or_default();
    let namespace = namespace.map(str::to_owned);
    Some(Tool { name: tool.get("name")?.as_str()?.to_owned(), namespace, schema })
}

fn format(value: &Value) -> Option<Value> {
    match text(value, "type") {
        "json_schema" => value.get("schema").cloned(),
        "json_object" => Some(json!({ "type": "object" })),
        _ => None,
    }
}

/// The id of the answer; a later request may continue it.
pub(crate) fn id(reply: &PlannedResponse) -> String {
    format!("resp_{}", reply.id)
}

pub(crate) fn answer(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    if request.is_stream {
        return stream(request, reply);
    }
    Answer::Whole(response(request, reply, Some(&item(reply, true))))
}

/// The response, before its end (without an item) or at it.
fn response(request: &SimRequest, reply: &PlannedResponse, item: Option<&Value>) -> Value {
    let status = match item {
        None => "in_progress",
        Some(_) if reply.is_capped => "incomplete",
        Some(_) => "completed",
    };
    let details = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
    let usage = item.is_some().then(|| usage(reply));
    json!({
        "id": id(reply),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": details,
        "instructions": null,
        "max_output_tokens": request.cap,
        "metadata": {},
        "model": request.model,
        "output": item.into_iter().collect::<Vec<_>>(),
        "parallel_tool_calls": true,
        "previous_response_id": request.continues,
        "reasoning": { "effort": null, "summary": null },
        "store": true,
        "temperature": 1.0,
        "text": { "format": { "type": "text" } },
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
    })
}

fn item(reply: &PlannedResponse, is_done: bool) -> Value {
    let status = match is_done {
        false => "in_progress",
        true if reply.is_capped => "incomplete",
        true => "completed",
    };
    match &reply.content {
        Content::Text(text) => {
            let content = if is_done { json!([part(text)]) } else { json!([]) };
            json!({
                "type": "message",
                "id": item_id(reply),
                "status": status,
                "role": "assistant",
                "content": content,
            })
        }
        Content::Call { name, namespace, arguments } => {
            let mut call = json!({
                "type": "function_call",
                "id": item_id(reply),
                "call_id": format!("call_{}", reply.id),
                "name": name,
                "arguments": if is_done { arguments } else { "" },
                "status": status,
            });
            if let (Some(namespace), Some(members)) = (namespace, call.as_object_mut()) {
                members.insert("namespace".to_owned(), json!(namespace));
            }
            call
        }
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn item_id(reply: &PlannedResponse) -> String {
    let kind = if matches!(reply.content, Content::Text(_)) { "msg" } else { "fc" };
    format!("{kind}_{}", reply.id)
}

fn stream(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    let mut numbered = Numbered::default();
    let begun = response(request, reply, None);
    numbered.event(json!({ "type": "response.created", "response": begun }), false);
    numbered.event(json!({ "type": "response.in_progress", "response": begun }), false);
    let added = item(reply, false);
    let added = json!({ "type": "response.output_item.added", "output_index": 0, "item": added });
    numbered.event(added, false);
    match &reply.content {
        Content::Text(text) => numbered.text(reply, text),
        Content::Call { arguments, .. } => numbered.call(reply, arguments),
    }
    let whole = item(reply, true);
    let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": whole });
    numbered.event(done, false);
    let name = if reply.is_capped { "response.incomplete" } else { "response.completed" };
    let end = json!({ "type": name, "response": response(request, reply, Some(&whole)) });
    numbered.event(end, false);
    numbered.events.into_answer("text/event-stream; charset=utf-8")
}

/// Events that are counted, as this API does.
#[derive(Default)]
struct Numbered {
    events: Events,
    number: u64,
}

impl Numbered {
    fn event(&mut self, mut event: Value, is_word: bool) {
        if let Some(members) = event.as_object_mut() {
            members.insert("sequence_number".to_owned(), json!(self.number));
        }
        self.number = self.number.saturating_add(1);
        self.events.named(&event, is_word);
    }

    /// An event about a piece of the item.
    fn about(&mut self, reply: &PlannedResponse, name: &str, mut members: Value, is_word: bool) {
        if let Some(members) = members.as_object_mut() {
            members.insert("type".to_owned(), json!(name));
            members.insert("item_id".to_owned(), json!(item_id(reply)));
            members.insert("output_index".to_owned(), json!(0));
        }
        self.event(members, is_word);
    }

    fn text(&mut self, reply: &PlannedResponse, text: &str) {
        let begun = json!({ "content_index": 0, "part": part("") });
        self.about(reply, "response.content_part.added", begun, false);
        for word in words(text) {
            let delta = json!({ "content_index": 0, "delta": word, "logprobs": [] });
            self.about(reply, "response.output_text.delta", delta, true);
        }
        let done = json!({ "content_index": 0, "text": text, "logprobs": [] });
        self.about(reply, "response.output_text.done", done, false);
        let done = json!({ "content_index": 0, "part": part(text) });
        self.about(reply, "response.content_part.done", done, false);
    }

    fn call(&mut self, reply: &PlannedResponse, arguments: &str) {
        for piece in argument_pieces(arguments) {
            let delta = json!({ "delta": piece });
            self.about(reply, "response.function_call_arguments.delta", delta, false);
        }
        let done = json!({ "arguments": arguments });
        self.about(reply, "response.function_call_arguments.done", done, false);
    }
}

fn usage(reply: &PlannedResponse) -> Value {
    json!({
        "input_tokens": reply.input_tokens,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": reply.output_tokens,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": reply.input_tokens.saturating_add(reply.output_tokens),
    })
}
