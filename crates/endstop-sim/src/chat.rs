//! OpenAI chat completions.

use serde_json::{Value, json};

use crate::Api;
use crate::plan::{Content, PlannedResponse};
use crate::request::{SimRequest, Tool, ToolChoice, count, list, text};
use crate::wire::{Answer, CREATED, Events, argument_pieces, words};

pub(crate) fn read(body: &Value) -> Result<SimRequest, &'static str> {
    let messages = body.get("messages").and_then(Value::as_array).ok_or("`messages` is missing")?;
    let mut request = SimRequest::new(Api::Chat, body);
    request.wants_usage =
        body.pointer("/stream_options/include_usage").and_then(Value::as_bool) == Some(true);
    request.tools = list(body, "tools").iter().filter_map(tool).collect();
    request.choice = choice(body.get("tool_choice"));
    request.format = format(body.get("response_format"));
    request.turns = count(messages, |message| text(message, "role") == "assistant");
    request.results = messages.iter().filter(|message| text(message, "role") == "tool").count();
    request.messages = messages.len();
    let caps = ["max_completion_tokens", "max_tokens"];
    request.cap = caps.iter().find_map(|cap| body.get(cap).and_then(Value::as_u64));
    request.take_choices(body.get("n"));
    Ok(request)
}

fn tool(tool: &Value) -> Option<Tool> {
    let function = tool.get("function")?;
    let schema = function.get("parameters").cloned().unwrap_or_default();
    Some(Tool { name: function.get("name")?.as_str()?.to_owned(), namespace: None, schema })
}

/// Also that of the Responses API, which names a function without nesting.
pub(crate) fn choice(value: Option<&Value>) -> ToolChoice {
    let Some(value) = value else { return ToolChoice::Auto };
    let mode = value.as_str().or_else(|| value.pointer("/allowed_tools/mode")?.as_str());
    let name = value.pointer("/function/name").or_else(|| value.get("name"));
    match (mode, name.and_then(Value::as_str)) {
        (Some("none"), _) => ToolChoice::None,
        (Some("required"), _) => ToolChoice::Any,
        (None, Some(name)) => ToolChoice::Named(name.to_owned()),
        _ => ToolChoice::Auto,
    }
}

fn format(value: Option<&Value>) -> Option<Value> {
    let value = value?;
    match text(value, "type") {
        "json_schema" => value.pointer("/json_schema/schema").cloned(),
        "json_object" => Some(json!({ "type": "object" })),
        _ => None,
    }
}

pub(crate) fn answer(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    if request.is_stream { stream(request, reply) } else { Answer::Whole(whole(request, reply)) }
}

fn whole(request: &SimRequest, reply: &PlannedResponse) -> Value {
    let choices: Vec<Value> = (0..request.choices)
        .map(|index| {
            let message = match &reply.content {
                Content::Text(text) => {
                    json!({ "role": "assistant", "content": text, "refusal": null })
                }
                Content::Call { name, arguments, .. } => json!({
                    "role": "assistant",
                    "content": null,
                    "refusal": null,
                    "tool_calls": [{
                        "id": call_id(reply, index),
                        "type": "function",
                        "function": { "name": name, "arguments": arguments },
                    }],
                }),
            };
            json!({
                "index": index,
                "message": message,
                "logprobs": null,
                "finish_reason": finish(reply),
            })
        })
        .collect();
    json!({
        "id": format!("chatcmpl-{}", reply.id),
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": usage(reply),
        "system_fingerprint": null,
    })
}

fn stream(request: &SimRequest, reply: &PlannedResponse) -> Answer {
    let mut events = Events::default();
    let chunk = |index: u64, delta: Value, finish: Option<&str>| {
        let choice =
            json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish });
        with_choices(request, reply, json!([choice]))
    };
    for index in 0..request.choices {
        match &reply.content {
            Content::Text(text) => {
                events.data(
                    &chunk(index, json!({ "role": "assistant", "content": "" }), None),
                    false,
                );
                for word in words(text) {
                    events.data(&chunk(index, json!({ "content": word }), None), true);
                }
            }
            Content::Call { name, arguments, .. } => {
                let call = json!([{
                    "index": 0,
                    "id": call_id(reply, index),
                    "type": "function",
                    "function": { "name": name, "arguments": "" },
                }]);
                let delta = json!({ "role": "assistant", "content": null, "tool_calls": call });
                events.data(&chunk(index, delta, None), false);
                for piece in argument_pieces(arguments) {
                    let call = json!([{ "index": 0, "function": { "arguments": piece } }]);
                    events.data(&chunk(index, json!({ "tool_calls": call }), None), false);
                }
            }
        }
        events.data(&chunk(index, json!({}), Some(finish(reply))), false);
    }
    if request.wants_usage {
        let mut last = with_choices(request, reply, json!([]));
        if let Some(members) = last.as_object_mut() {
            members.insert("usage".to_owned(), usage(reply));
        }
        events.data(&last, false);
    }
    events.raw("data: [DONE]\n\n".to_owned(), false);
    events.into_answer("text/event-stream; charset=utf-8")
}

/// A chunk. If the request asks for usage, each chunk but the last says that it has none.
fn with_choices(request: &SimRequest, reply: &PlannedResponse, choices: Value) -> Value {
    let mut chunk = json!({
        "id": format!("chatcmpl-{}", reply.id),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": request.model,
        "system_fingerprint": null,
        "choices": choices,
    });
    if request.wants_usage
        && let Some(members) = chunk.as_object_mut()
    {
        members.insert("usage".to_owned(), Value::Null);
    }
    chunk
}

fn call_id(reply: &PlannedResponse, index: u64) -> String {
    format!("call_{}{index:02}", reply.id)
}

fn finish(reply: &PlannedResponse) -> &'static str {
    match reply.content {
        _ if reply.is_capped => "length",
        Content::Text(_) => "stop",
        Content::Call { .. } => "tool_calls",
    }
}

fn usage(reply: &PlannedResponse) -> Value {
    json!({
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens.saturating_add(reply.output_tokens),
        "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}
