//! Batches of tool calls: a limit that is reached inside one lets as many of its calls run as it admits.

use endstop_core::run::Status;
use endstop_core::signal::StopReason;
use endstop_gateway::Gateway;
use serde_json::{Value, json};

use crate::fake::{self, Act, Fake, chunk, sse_end, sse_head};
use crate::kit::*;
use crate::streams::event;

/// How an API writes a batch, whole and as a stream, and where its calls and its end stand.
struct Shape {
    path: [&'static str; 2],
    request: fn() -> Value,
    whole: fn(usize) -> Value,
    events: fn(usize) -> Vec<Vec<u8>>,
    /// The names of the calls in an answer.
    calls: fn(&Value) -> Vec<String>,
    /// The end of a stream whose calls are passed on, and of one without calls.
    ends: [&'static str; 2],
    /// In the first event of a call.
    mark: fn(usize) -> String,
}

fn name(n: usize) -> String {
    format!("look_{n}")
}

fn named(event: &str, data: &Value) -> Vec<u8> {
    format!("event: {event}\ndata: {data}\n\n").into_bytes()
}

const CHAT: Shape = Shape {
    path: ["/v1/chat/completions"; 2],
    request: || {
        json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": "Look." }],
            "tools": [{ "type": "function", "function": { "name": "look_0" } }] })
    },
    whole: |n| {
        let calls: Vec<Value> = (0..n)
            .map(|n| {
                json!({ "id": format!("c{n}"), "type": "function",
                "function": { "name": name(n), "arguments": "{}" } })
            })
            .collect();
        let message = json!({ "role": "assistant", "content": "Let me see.", "tool_calls": calls });
        json!({ "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4o-mini", "usage": usage(),
            "choices": [{ "index": 0, "message": message, "finish_reason": "tool_calls" }] })
    },
    events: |n| {
        let mut events =
            vec![chat_chunk(&json!({ "role": "assistant", "content": "Let me see." }), None)];
        for n in 0..n {
            let call = json!({ "index": n, "id": format!("c{n}"), "type": "function",
                "function": { "name": name(n), "arguments": "" } });
            events.push(chat_chunk(&json!({ "tool_calls": [call] }), None));
            let more = json!({ "index": n, "function": { "arguments": "{}" } });
            events.push(chat_chunk(&json!({ "tool_calls": [more] }), None));
        }
        events.push(chat_chunk(&json!({}), Some("tool_calls")));
        events.push(b"data: [DONE]\n\n".to_vec());
        events
    },
    calls: |answer| {
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().cloned();
        let names = calls.unwrap_or_default().into_iter();
        names.map(|call| call["function"]["name"].as_str().unwrap().to_owned()).collect()
    },
    ends: ["\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"stop\""],
    mark: |n| format!("\"id\":\"c{n}\""),
};

fn chat_chunk(delta: &Value, finish: Option<&str>) -> Vec<u8> {
    crate::streams::delta(delta, &json!(finish))
}

const RESPONSES: Shape = Shape {
    path: ["/v1/responses"; 2],
    request: || {
        json!({ "model": "gpt-4o-mini", "input": "Look.",
            "tools": [{ "type": "function", "name": "look_0" }] })
    },
    whole: |n| {
        json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-4o-mini",
            "output": responses_items(n),
            "usage": { "input_tokens": 100, "output_tokens": 10, "total_tokens": 110 } })
    },
    events: |n| {
        let mut events = Vec::new();
        let mut push = |kind: &str, mut data: Value| {
            data["type"] = json!(kind);
            data["sequence_number"] = json!(events.len());
            events.push(named(kind, &data));
        };
        let response = json!({ "id": "resp_1", "object": "response", "status": "in_progress",
            "model": "gpt-4o-mini", "output": [] });
        push("response.created", json!({ "response": response }));
        for (index, item) in responses_items(n).into_iter().enumerate() {
            let mut begun = item.clone();
            begun["status"] = json!("in_progress");
            if item["type"] == "function_call" {
                begun["arguments"] = json!("");
            } else {
                begun["content"] = json!([]);
            }
            push("response.output_item.added", json!({ "output_index": index, "item": begun }));
            push("response.output_item.done", json!({ "output_index": index, "item": item }));
        }
        push("response.completed", json!({ "response": (RESPONSES.whole)(n) }));
        events
    },
    calls: |answer| {
        let items = answer["output"].as_array().cloned().unwrap_or_default().into_iter();
        let calls = items.filter(|item| item["type"] == "function_call");
        calls.map(|call| call["name"].as_str().unwrap().to_owned()).collect()
    },
    ends: ["\"status\":\"completed\"", "\"status\":\"completed\""],
    mark: |n| format!("\"id\":\"fc_{n}\""),
};

fn responses_items(n: usize) -> Vec<Value> {
    let text = json!({ "type": "output_text", "text": "Let me see.", "annotations": [] });
    let mut items = vec![json!({ "id": "msg_1", "type": "message", "role": "assistant",
        "status": "completed", "content": [text] })];
    items.extend((0..n).map(|n| {
        json!({ "id": format!("fc_{n}"), "type": "function_call", "status": "completed",
            "call_id": format!("c{n}"), "name": name(n), "arguments": "{}" })
    }));
    items
}

const MESSAGES: Shape = Shape {
    path: ["/v1/messages"; 2],
    request: || {
        json!({ "model": "claude-sonnet-4-5", "max_tokens": 99,
            "messages": [{ "role": "user", "content": "Look." }],
            "tools": [{ "name": "look_0", "input_schema": { "type": "object" } }] })
    },
    whole: |n| {
        let mut blocks = vec![json!({ "type": "text", "text": "Let me see." })];
        blocks.extend((0..n).map(
            |n| json!({ "type": "tool_use", "id": format!("c{n}"), "name": name(n), "input": {} }),
        ));
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": blocks, "stop_reason": "tool_use", "usage": { "input_tokens": 9, "output_tokens": 9 } })
    },
    events: |n| {
        let whole = (MESSAGES.whole)(n);
        let mut start = whole.clone();
        (start["content"], start["stop_reason"]) = (json!([]), Value::Null);
        let mut events =
            vec![named("message_start", &json!({ "type": "message_start", "message": start }))];
        for (index, block) in whole["content"].as_array().unwrap().iter().enumerate() {
            let mut begun = block.clone();
            let delta = match block["type"] == "text" {
                true => {
                    begun["text"] = json!("");
                    json!({ "type": "text_delta", "text": block["text"] })
                }
                false => json!({ "type": "input_json_delta", "partial_json": "{}" }),
            };
            for (kind, key, value) in [
                ("content_block_start", "content_block", begun),
                ("content_block_delta", "delta", delta),
                ("content_block_stop", "x", Value::Null),
            ] {
                events.push(named(kind, &json!({ "type": kind, "index": index, key: value })));
            }
        }
        let delta = json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "output_tokens": 9 } });
        events.push(named("message_delta", &delta));
        events.push(named("message_stop", &json!({ "type": "message_stop" })));
        events
    },
    calls: |answer| {
        let blocks = answer["content"].as_array().cloned().unwrap_or_default().into_iter();
        let calls = blocks.filter(|block| block["type"] == "tool_use");
        calls.map(|call| call["name"].as_str().unwrap().to_owned()).collect()
    },
    ends: ["\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"end_turn\""],
    mark: |n| format!("\"id\":\"c{n}\""),
};

const GEMINI: Shape = Shape {
    path: [
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    ],
    request: || {
        json!({ "contents": [{ "role": "user", "parts": [{ "text": "Look." }] }],
            "tools": [{ "functionDeclarations": [{ "name": "look_0" }] }] })
    },
    whole: |n| gemini_piece(&gemini_parts(n), Some("STOP")),
    // Two events: some calls in each.
    events: |n| {
        let parts = gemini_parts(n);
        let (first, last) = parts.split_at(2);
        vec![event(&gemini_piece(first, None)), event(&gemini_piece(last, Some("STOP")))]
    },
    calls: |answer| {
        let parts = answer["candidates"][0]["content"]["parts"].as_array().cloned();
        let names =
            parts.unwrap_or_default().into_iter().map(|part| part["functionCall"]["name"].clone());
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    },
    ends: ["\"finishReason\":\"STOP\"", "\"finishReason\":\"STOP\""],
    mark: |n| format!("\"name\":\"{}\"", name(n)),
};

fn gemini_parts(n: usize) -> Vec<Value> {
    let mut parts = vec![json!({ "text": "Let me see." })];
    parts.extend((0..n).map(|n| json!({ "functionCall": { "name": name(n), "args": {} } })));
    parts
}

fn gemini_piece(parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({ "candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r1",
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 } })
}

const SHAPES: [Shape; 4] = [CHAT, RESPONSES, MESSAGES, GEMINI];

async fn upstream(shape: &'static Shape, calls: usize, is_joined: bool) -> Fake {
    Fake::start(move |request, _| {
        let is_stream =
            request.body.contains("\"stream\":true") || request.head.contains("alt=sse");
        if !is_stream {
            return fake::json("200 OK", &(shape.whole)(calls).to_string());
        }
        let events = (shape.events)(calls);
        let parts = if is_joined { vec![events.concat()] } else { events };
        let mut acts = vec![sse_head()];
        acts.extend(
            parts
                .iter()
                .flat_map(|part| [chunk(part), Act::Wait(std::time::Duration::from_millis(2))]),
        );
        acts.push(sse_end());
        acts
    })
    .await
}

async fn ask(shape: &Shape, gateway: &Gateway, is_stream: bool) -> Got {
    let mut request = (shape.request)();
    if is_stream && !shape.path[1].contains("alt=sse") {
        request["stream"] = json!(true);
    }
    post(gateway, shape.path[usize::from(is_stream)], &request).await
}

/// Which of the calls an answer has.
fn passed(shape: &Shape, got: &Got, is_stream: bool) -> Vec<String> {
    if !is_stream {
        return (shape.calls)(&got.json());
    }
    let text = got.text();
    (0..9).filter(|n| text.contains(&(shape.mark)(*n))).map(name).collect()
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(name).collect()
}

#[tokio::test]
async fn a_limit_inside_a_batch_lets_as_many_calls_run_as_it_admits() {
    for (shape, [is_stream, is_joined]) in SHAPES
        .iter()
        .flat_map(|shape| [[false, false], [true, false], [true, true]].map(|how| (shape, how)))
    {
        let upstream = upstream(shape, 5, is_joined).await;
        let gateway = gateway("[stop]\nlimit = \"tool_calls >= 3\"\n", &upstream).await;
        let got = ask(shape, &gateway, is_stream).await;
        let what = format!("{} {is_stream} {is_joined}: {}", shape.path[0], got.text());
        assert_eq!((got.status, got.is_whole), (200, true), "{what}");
        assert_eq!(passed(shape, &got, is_stream), names(3), "{what}");
        let text = got.text();
        assert!(text.contains("Let me see.") && !text.contains("Endstop stopped"), "{what}");
        assert!(text.contains(shape.ends[0]), "{what}");
        assert_eq!(
            (reading(&gateway, "tool_calls"), status(&gateway)),
            (3, Status::Stopped),
            "{what}"
        );
        let run = gateway.run(&id()).unwrap();
        let reason = run.look(|run| run.stop_reason());
        assert_eq!(reason, Some(StopReason::ToolCallsLimitReached), "{what}");
        assert!(run.usage().0.output > 0, "{what}");
        let next = ask(shape, &gateway, is_stream).await;
        assert_eq!(next.header("x-endstop-reason").as_deref(), Some("tool_calls_limit"), "{what}");
        assert_eq!(upstream.calls(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_batch_that_fits_passes_byte_for_byte() {
    for (shape, is_stream) in SHAPES.iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let upstream = upstream(shape, 5, false).await;
        let gateway = gateway("[stop]\nlimit = \"tool_calls >= 5\"\n", &upstream).await;
        let got = ask(shape, &gateway, is_stream).await;
        let want = match is_stream {
            true => (shape.events)(5).concat(),
            false => (shape.whole)(5).to_string().into_bytes(),
        };
        assert_eq!(got.text(), String::from_utf8(want).unwrap());
        assert_eq!((reading(&gateway, "tool_calls"), status(&gateway)), (5, Status::InProgress));
    }
}

#[tokio::test]
async fn calls_in_the_answer_to_a_wrap_up_are_not_passed_on() {
    let policy = "[finish]\nwrap = \"steps >= 0\"\n[stop]\nlimit = \"steps >= 9\"\n";
    for (shape, is_stream) in SHAPES.iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        // A server that passes over the choice of no tools.
        let upstream = upstream(shape, 2, false).await;
        let gateway = gateway(policy, &upstream).await;
        let got = ask(shape, &gateway, is_stream).await;
        let what = format!("{} {is_stream}: {}", shape.path[0], got.text());
        assert_eq!((got.status, got.is_whole), (200, true), "{what}");
        assert_eq!(passed(shape, &got, is_stream), names(0), "{what}");
        let text = got.text();
        assert!(text.contains("Let me see.") && text.contains("Endstop stopped"), "{what}");
        assert!(text.contains(shape.ends[1]), "{what}");
        assert_eq!(
            (reading(&gateway, "tool_calls"), status(&gateway)),
            (0, Status::Stopped),
            "{what}"
        );
        let next = ask(shape, &gateway, is_stream).await;
        assert!(next.header("x-endstop-reason").is_some(), "{what}");
        assert_eq!(upstream.calls(), 1, "{what}");
    }
}

/// One answer to a chat or Gemini request, after a gateway with a limit of 3.
async fn limited(path: &str, request: Value, acts: Vec<Act>) -> (Got, Gateway) {
    let upstream = Fake::start(move |_, _| acts.clone()).await;
    let gateway = gateway("[stop]\nlimit = \"tool_calls >= 3\"\n", &upstream).await;
    let got = post(&gateway, path, &request).await;
    assert_eq!(
        (reading(&gateway, "tool_calls"), status(&gateway)),
        (3, Status::Stopped),
        "{got:?}"
    );
    (got, gateway)
}

fn streamed(events: &[Vec<u8>]) -> Vec<Act> {
    let mut acts = vec![sse_head()];
    acts.extend(events.iter().map(|event| chunk(event)));
    acts.push(sse_end());
    acts
}

#[tokio::test]
async fn calls_that_come_in_one_chunk_with_the_end_are_told_apart() {
    let answer = (CHAT.whole)(5)["choices"][0]["message"].clone();
    for has_index in [true, false] {
        let mut delta = answer.clone();
        if has_index {
            let calls = delta["tool_calls"].as_array_mut().unwrap();
            calls.iter_mut().enumerate().for_each(|(n, call)| call["index"] = json!(n));
        }
        let mut piece = chat_chunk(&delta, Some("tool_calls"));
        piece.extend_from_slice(b"data: [DONE]\n\n");
        let mut request = (CHAT.request)();
        request["stream"] = json!(true);
        let (got, gateway) = limited(CHAT.path[0], request, streamed(&[piece])).await;
        assert_eq!(passed(&CHAT, &got, true), names(3), "{got:?}");
        let ends = got.text().matches(CHAT.ends[0]).count();
        assert_eq!(
            (ends, got.text().matches("[DONE]").count(), got.is_whole),
            (1, 1, true),
            "{got:?}"
        );
        // The tokens of the refused calls are paid too.
        assert!(gateway.run(&id()).unwrap().usage().0.output > 0);
    }
}

#[tokio::test]
async fn a_list_of_pieces_and_an_encoded_answer_lose_their_last_calls() {
    use std::io::Write as _;
    let parts = gemini_parts(5);
    let list = json!([gemini_piece(&parts[..3], None), gemini_piece(&parts[3..], Some("STOP"))]);
    let path = GEMINI.path[1].replace("?alt=sse", "");
    let sent = fake::json("200 OK", &list.to_string());
    let (got, _) = limited(&path, (GEMINI.request)(), sent).await;
    let list = got.json();
    let pieces = list.as_array().unwrap();
    let passed: Vec<_> = pieces.iter().flat_map(|piece| (GEMINI.calls)(piece)).collect();
    let finishes = pieces.iter().map(|piece| piece["candidates"][0]["finishReason"].as_str());
    let finishes: Vec<_> = finishes.flatten().collect();
    assert_eq!((passed, finishes), (names(3), vec!["STOP"]), "{list}");

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all((CHAT.whole)(5).to_string().as_bytes()).unwrap();
    let body = encoder.finish().unwrap();
    let acts = vec![fake::json_with("content-encoding: gzip\r\n", body.len()), Act::Send(body)];
    let (got, _) = limited(CHAT.path[0], (CHAT.request)(), acts).await;
    assert_eq!((CHAT.calls)(&got.json()), names(3), "{got:?}");
    assert_eq!(got.header("content-encoding"), None);
}

#[tokio::test]
async fn a_stream_does_not_end_properly_while_a_call_that_was_passed_on_is_not_whole() {
    let call = |n: usize, arguments: &str| {
        let function = json!({ "name": name(n), "arguments": arguments });
        json!({ "index": n, "id": format!("c{n}"), "type": "function", "function": function })
    };
    let mut events: Vec<_> = [call(0, "{}"), call(1, "{}"), call(2, "{\"a\":"), call(3, "{}")]
        .map(|call| chat_chunk(&json!({ "tool_calls": [call] }), None))
        .to_vec();
    events.push(chat_chunk(&json!({}), Some("tool_calls")));
    let mut request = (CHAT.request)();
    request["stream"] = json!(true);
    let (got, _) = limited(CHAT.path[0], request, streamed(&events)).await;
    assert!(!got.is_whole && !got.text().contains("\"id\":\"c3\""), "{got:?}");
}

#[tokio::test]
async fn a_pause_inside_a_batch_holds_the_next_request_and_not_the_batch() {
    for (shape, is_stream) in SHAPES.iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let upstream = upstream(shape, 5, false).await;
        let policy = "[pause]\nask = \"tool_calls >= 3\"\n[stop]\nlimit = \"steps >= 9\"\n";
        let gateway = gateway(policy, &upstream).await;
        let got = ask(shape, &gateway, is_stream).await;
        assert_eq!(passed(shape, &got, is_stream), names(5), "{got:?}");
        assert_eq!(status(&gateway), Status::Paused);
    }
}
