//! OpenAI chat completions.

use serde_json::{Value, json};

use super::ask::{Ask, Choice, Tool, count, list, text};
use super::plan::{Reply, Said};
use super::wire::{Answer, CREATED, Events, argument_pieces, words};
use crate::api::Api;

pub(super) fn read(body: &Value) -> Result<Ask, &'static str> {
    let messages = body.get("messages").and_then(Value::as_array).ok_or("`messages` is missing")?;
    let mut ask = Ask::new(Api::Chat, body);
    ask.wants_usage =
        body.pointer("/stream_options/include_usage").and_then(Value::as_bool) == Some(true);
    ask.tools = list(body, "tools").iter().filter_map(tool).collect();
    ask.choice = choice(body.get("tool_choice"));
    ask.format = format(body.get("response_format"));
    ask.turns = count(messages, |message| text(message, "role") == "assistant");
    ask.results = messages.iter().filter(|message| text(message, "role") == "tool").count();
    ask.messages = messages.len();
    let caps = ["max_completion_tokens", "max_tokens"];
    ask.cap = caps.iter().find_map(|cap| body.get(cap).and_then(Value::as_u64));
    ask.take_choices(body.get("n"));
    Ok(ask)
}

fn tool(tool: &Value) -> Option<Tool> {
    let function = tool.get("function")?;
    let schema = function.get("parameters").cloned().unwrap_or_default();
    Some(Tool { name: function.get("name")?.as_str()?.to_owned(), schema })
}

/// Also that of the responses interface, which names a function without nesting.
pub(super) fn choice(value: Option<&Value>) -> Choice {
    let Some(value) = value else { return Choice::Auto };
    let mode = value.as_str().or_else(|| value.pointer("/allowed_tools/mode")?.as_str());
    let name = value.pointer("/function/name").or_else(|| value.get("name"));
    match (mode, name.and_then(Value::as_str)) {
        (Some("none"), _) => Choice::None,
        (Some("required"), _) => Choice::Any,
        (None, Some(name)) => Choice::Named(name.to_owned()),
        _ => Choice::Auto,
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

pub(super) fn answer(ask: &Ask, reply: &Reply) -> Answer {
    if ask.is_stream { stream(ask, reply) } else { Answer::Whole(whole(ask, reply)) }
}

fn whole(ask: &Ask, reply: &Reply) -> Value {
    let choices: Vec<Value> = (0..ask.choices)
        .map(|index| {
            let message = match &reply.said {
                Said::Text(text) => {
                    json!({ "role": "assistant", "content": text, "refusal": null })
                }
                Said::Call { name, arguments } => json!({
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
        "model": ask.model,
        "choices": choices,
        "usage": usage(reply),
        "system_fingerprint": null,
    })
}

fn stream(ask: &Ask, reply: &Reply) -> Answer {
    let mut events = Events::default();
    let chunk = |index: u64, delta: Value, finish: Option<&str>| {
        let choice =
            json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish });
        with_choices(ask, reply, json!([choice]))
    };
    for index in 0..ask.choices {
        match &reply.said {
            Said::Text(text) => {
                events.data(
                    &chunk(index, json!({ "role": "assistant", "content": "" }), None),
                    false,
                );
                for word in words(text) {
                    events.data(&chunk(index, json!({ "content": word }), None), true);
                }
            }
            Said::Call { name, arguments } => {
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
    if ask.wants_usage {
        let mut last = with_choices(ask, reply, json!([]));
        if let Some(members) = last.as_object_mut() {
            members.insert("usage".to_owned(), usage(reply));
        }
        events.data(&last, false);
    }
    events.raw("data: [DONE]\n\n".to_owned(), false);
    events.into_answer("text/event-stream; charset=utf-8")
}

/// A chunk. Where usage was asked for, each chunk but the last says that it has none.
fn with_choices(ask: &Ask, reply: &Reply, choices: Value) -> Value {
    let mut chunk = json!({
        "id": format!("chatcmpl-{}", reply.id),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": ask.model,
        "system_fingerprint": null,
        "choices": choices,
    });
    if ask.wants_usage
        && let Some(members) = chunk.as_object_mut()
    {
        members.insert("usage".to_owned(), Value::Null);
    }
    chunk
}

fn call_id(reply: &Reply, index: u64) -> String {
    format!("call_{}{index:02}", reply.id)
}

fn finish(reply: &Reply) -> &'static str {
    match reply.said {
        _ if reply.is_capped => "length",
        Said::Text(_) => "stop",
        Said::Call { .. } => "tool_calls",
    }
}

fn usage(reply: &Reply) -> Value {
    json!({
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens.saturating_add(reply.output_tokens),
        "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}
