//! The scripted model over real connections.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Api, Script, Sim};

/// Sends a request; gives the status and everything that came after the head.
async fn send(sim: &Sim, line: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // It may answer before it has read everything.
    let _ = stream.write_all(body.as_bytes()).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes);
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((text.as_ref(), ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    (status, rest.to_owned())
}

async fn post(sim: &Sim, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = send(sim, &format!("POST {path}"), "", &body.to_string()).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn chat() -> Value {
    json!({
        "model": "gpt-4o",
        "messages": [{ "role": "user", "content": "go" }],
        "tools": [{ "type": "function", "function": { "name": "counter" } }],
    })
}

fn messages() -> Value {
    json!({ "model": "m", "max_tokens": 10, "messages": [{ "role": "user", "content": "go" }] })
}

#[tokio::test]
async fn calls_are_counted_and_remembered() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let (status, first) = post(&sim, "/v1/chat/completions", &chat()).await;
    assert_eq!(status, 200, "{first}");
    let (_, second) = post(&sim, "/v1/chat/completions", &chat()).await;
    assert_eq!(first, second, "the same request gets the same answer");
    post(&sim, "/v1/messages", &messages()).await;
    let gemini = json!({ "contents": [] });
    post(&sim, "/v1beta/models/gemini-2.5-flash:generateContent", &gemini).await;
    post(&sim, "/v1/responses", &json!({ "model": "m", "input": "go" })).await;
    // These are none.
    post(&sim, "/v1/messages/count_tokens", &messages()).await;
    post(&sim, "/v1beta/models/m:countTokens", &gemini).await;
    send(&sim, "GET /v1/models", "", "").await;
    assert_eq!(sim.calls(), 5);
    let log = sim.log();
    let apis: Vec<Api> = log.iter().map(|call| call.api).collect();
    assert_eq!(apis, [Api::Chat, Api::Chat, Api::Messages, Api::Gemini, Api::Responses]);
    let called = log.first().unwrap();
    assert_eq!((called.model.as_str(), called.messages, called.tools), ("gpt-4o", 1, 1));
    let (_, stats) = send(&sim, "GET /sim/stats", "", "").await;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((&stats["calls"], &stats["abandoned"]), (&json!(5), &json!(0)));
}

#[tokio::test]
async fn the_counts_have_the_tokens_of_all_answers() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let (_, first) = post(&sim, "/v1/chat/completions", &chat()).await;
    let (_, second) = post(&sim, "/v1/messages", &messages()).await;
    // Not billed.
    post(&sim, "/v1/messages/count_tokens", &messages()).await;
    let of = |answer: &Value, key: &str| answer["usage"][key].as_u64().unwrap();
    let (_, stats) = send(&sim, "GET /sim/stats", "", "").await;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let input = of(&first, "prompt_tokens") + of(&second, "input_tokens");
    let output = of(&first, "completion_tokens") + of(&second, "output_tokens");
    assert!(input > 0 && output > 0, "{stats}");
    assert_eq!((&stats["input_tokens"], &stats["output_tokens"]), (&json!(input), &json!(output)));
}

#[tokio::test]
async fn tokens_are_counted_in_each_interface() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let (_, counted) = post(&sim, "/v1/messages/count_tokens", &messages()).await;
    let tokens = messages().to_string().len().div_ceil(4);
    assert_eq!(counted, json!({ "input_tokens": tokens }));
    let (_, answer) = post(&sim, "/v1/messages", &messages()).await;
    assert_eq!(answer.pointer("/usage/input_tokens"), Some(&json!(tokens)));
    let (_, counted) = post(&sim, "/v1beta/models/m:countTokens", &json!({ "contents": [] })).await;
    assert_eq!(counted, json!({ "totalTokens": 4 }));
}

#[tokio::test]
async fn a_model_may_choose_the_script() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let mut body = chat();
    body["model"] = json!("sim/answer");
    let (_, answer) = post(&sim, "/v1/chat/completions", &body).await;
    assert_eq!(answer.pointer("/choices/0/finish_reason"), Some(&json!("stop")));
    let path = "/v1beta/models/sim%2Floop%3A0:generateContent";
    let (_, answer) = post(&sim, path, &json!({ "contents": [] })).await;
    assert_eq!(answer["modelVersion"], "sim/loop:0");
}

#[tokio::test]
async fn models_are_listed_as_each_provider_does() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    for (path, headers, first) in [
        ("/v1/models", "", "/data/0/id"),
        ("/v1/models", "anthropic-version: 2023-06-01\r\n", "/first_id"),
    ] {
        let (status, text) = send(&sim, &format!("GET {path}"), headers, "").await;
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, list.pointer(first)), (200, Some(&json!("sim/loop"))));
    }
    let (_, text) = send(&sim, "GET /v1beta/models", "", "").await;
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list.pointer("/models/0/name"), Some(&json!("models/sim/loop")));
}

#[tokio::test]
async fn garbage_is_refused_in_the_shape_of_the_provider() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in ["", "{", "null", "[]", "7", "{\"messages\":7}", "\u{0}", deep.as_str()] {
        for (path, pointer, kind) in [
            ("/v1/chat/completions", "/error/type", "invalid_request_error"),
            ("/v1/responses", "/error/type", "invalid_request_error"),
            ("/v1/messages", "/error/type", "invalid_request_error"),
            ("/v1beta/models/m:generateContent", "/error/status", "INVALID_ARGUMENT"),
        ] {
            let (status, text) = send(&sim, &format!("POST {path}"), "", body).await;
            let error: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (status, error.pointer(pointer)),
                (400, Some(&json!(kind))),
                "{path} {text}"
            );
        }
    }
    let (status, _) = send(&sim, "POST /v1/nothing", "", "{}").await;
    assert_eq!(status, 404);
    let (status, _) = send(&sim, "PUT /v1/messages", "", "{}").await;
    assert_eq!(status, 404);
    assert_eq!(sim.calls(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    let head = "POST /v1/messages HTTP/1.1\r\nhost: sim\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..40 {
        let sent = async {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
            stream.write_all(&chunk).await?;
            stream.write_all(b"\r\n").await
        };
        if sent.await.is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    if stream.read_exact(&mut answer).await.is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
    assert_eq!(sim.calls(), 0);
}

#[tokio::test]
async fn every_second_call_fails_as_the_provider_would() {
    let sim = Sim::start(Script::Fail).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..8 {
        let (status, answer) = post(&sim, "/v1/messages", &messages()).await;
        let kind = answer.pointer("/error/type").and_then(Value::as_str).map(str::to_owned);
        seen.push((status, kind));
    }
    let failed = |status, kind: &str| (status, Some(kind.to_owned()));
    let expected = [
        (200, None),
        failed(500, "api_error"),
        (200, None),
        failed(529, "overloaded_error"),
        (200, None),
        failed(429, "rate_limit_error"),
        (200, None),
        failed(500, "api_error"),
    ];
    assert_eq!(seen, expected);
    assert_eq!(sim.calls(), 8);
}

#[tokio::test]
async fn a_cut_answer_has_no_end() {
    let sim = Sim::start(Script::Cut).await.unwrap();
    let (status, part) = post(&sim, "/v1/chat/completions", &chat()).await;
    assert_eq!(status, 200);
    assert!(part.is_string() && part.as_str() != Some(""), "half of it came: {part}");
    let mut body = chat();
    body["stream"] = json!(true);
    let (_, text) = send(&sim, "POST /v1/chat/completions", "", &body.to_string()).await;
    assert!(text.contains("tool_calls"), "{text}");
    assert!(!text.contains("[DONE]") && !text.ends_with("0\r\n\r\n"), "{text}");
    assert_eq!(sim.abandoned(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_is_counted() {
    let sim = Sim::start(Script::Slow).await.unwrap();
    let mut body = chat();
    body["stream"] = json!(true);
    let body = body.to_string();
    let mut stream = TcpStream::connect(sim.addr()).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut some = [0; 64];
    stream.read_exact(&mut some).await.unwrap();
    drop(stream);
    while sim.abandoned() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!((sim.calls(), sim.abandoned()), (1, 1));
}

#[tokio::test]
async fn a_thread_is_continued_without_its_messages_and_tools() {
    let sim = Sim::start(Script::LoopFor(2)).await.unwrap();
    let mut body = messages();
    body["max_tokens"] = json!(1_000);
    body["tools"] = json!([{ "name": "counter", "input_schema": { "type": "object" } }]);
    body["thread"] = json!({ "type": "create" });
    let (_, mut answer) = post(&sim, "/v1/messages", &body).await;
    let mut reasons = vec![answer["stop_reason"].clone()];
    for _ in 0..2 {
        let mut next = messages();
        next["thread"] = json!({ "type": "continue", "previous_message_id": answer["id"] });
        next["max_tokens"] = json!(1_000);
        (_, answer) = post(&sim, "/v1/messages", &next).await;
        reasons.push(answer["stop_reason"].clone());
    }
    assert_eq!(reasons, ["tool_use", "tool_use", "end_turn"]);
    let mut lost = messages();
    lost["thread"] = json!({ "type": "continue", "previous_message_id": "msg_lost" });
    let (status, error) = post(&sim, "/v1/messages", &lost).await;
    let code = error.pointer("/error/details/error_code");
    assert_eq!((status, code), (404, Some(&json!("thread_not_found"))));
}

#[tokio::test]
async fn a_response_is_continued_by_its_id() {
    let sim = Sim::start(Script::LoopFor(1)).await.unwrap();
    let tools = json!([{ "type": "function", "name": "counter" }]);
    let body = json!({ "model": "m", "input": "go", "tools": tools });
    let (_, first) = post(&sim, "/v1/responses", &body).await;
    assert_eq!(first.pointer("/output/0/type"), Some(&json!("function_call")));
    let output = json!([{ "type": "function_call_output", "call_id": "x", "output": "1" }]);
    let next = json!({
        "model": "m", "input": output, "tools": tools, "previous_response_id": first["id"],
    });
    let (_, second) = post(&sim, "/v1/responses", &next).await;
    assert_eq!(second.pointer("/output/0/type"), Some(&json!("message")));
    let mut lost = next;
    lost["previous_response_id"] = json!("resp_lost");
    assert_eq!(post(&sim, "/v1/responses", &lost).await.0, 400);
}

#[tokio::test]
async fn a_dropped_one_listens_no_more() {
    let sim = Sim::start(Script::Loop).await.unwrap();
    let addr = sim.addr();
    drop(sim);
    while TcpStream::connect(addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
