//! Upstreams and clients that would make calls free: what the upstream bills stays within the limit, and our cost is
//! never below it (`docs/semantics.md`, "Charging when usage is missing").

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop_core::units::{Cost, Money};
use endstop_gateway::Gateway;
use serde_json::{Value, json};

use crate::counting::is_count;
use crate::fake::{Act, Arrived, Fake, chunk, json as answer, sse_end, sse_head};
use crate::kit::*;

const CENT: u64 = 10_000_000_000;
/// Pico-dollars of a token of gpt-4o-mini and of claude-sonnet-4-5.
const MINI: [u64; 2] = [150_000, 600_000];
const SONNET: [u64; 2] = [3_000_000, 15_000_000];

/// One attack: the same request again and again.
struct Attack {
    name: &'static str,
    /// The limit in cents.
    limit: u64,
    tries: usize,
    path: &'static str,
    body: Value,
    /// Whether the client leaves before it has its answer.
    leaves: bool,
    /// The behavior of the upstream.
    acts: fn(&Arrived) -> Vec<Act>,
    /// The amount that the upstream bills for a request, in pico-dollars.
    billed: fn(&Arrived) -> u64,
    /// The number of requests that reach the upstream, if that is certain.
    sent: Option<usize>,
}

fn cap(request: &Value) -> u64 {
    let keys = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
    keys.iter().find_map(|key| request[*key].as_u64()).unwrap()
}

fn of([input, output]: [u64; 2], in_tokens: u64, out_tokens: u64) -> u64 {
    in_tokens * input + out_tokens * output
}

/// The most output that the request allows: hidden reasoning.
fn hidden_reasoning(request: &Arrived) -> u64 {
    of(MINI, 50, cap(&request.json()))
}

/// An answer that used all output that the request allows.
fn reply_of_all(request: &Arrived) -> Value {
    let (input, output) = (50, cap(&request.json()));
    let mut reply: Value = serde_json::from_str(&reply_text("Done.")).unwrap();
    reply["usage"] = json!({ "prompt_tokens": input, "completion_tokens": output,
        "total_tokens": input + output });
    reply
}

fn chat_body(extra: Value) -> Value {
    let mut body = json!({ "model": "gpt-4o-mini", "max_tokens": 10_000,
        "messages": [{ "role": "user", "content": "Think hard." }] });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn messages_body(extra: Value) -> Value {
    let mut body = json!({ "model": "claude-sonnet-4-5", "max_tokens": 1_000,
        "messages": [{ "role": "user", "content": "Think hard." }] });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn with_status(status: &str, body: &str) -> Vec<Act> {
    answer(status, body)
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

type Acts = fn(&Arrived) -> Vec<Act>;

/// A chat whose upstream bills all output that the request allows.
fn hidden(name: &'static str, acts: Acts) -> Attack {
    Attack {
        name,
        limit: 5,
        tries: 30,
        path: CHAT,
        body: chat_body(json!({})),
        leaves: false,
        acts,
        billed: hidden_reasoning,
        sent: None,
    }
}

/// A request that reaches no upstream.
fn refused(name: &'static str, path: &'static str, body: Value) -> Attack {
    Attack {
        name,
        limit: 5,
        tries: 2,
        path,
        body,
        leaves: false,
        acts: |_| answer("200 OK", &reply_text("Done.")),
        billed: |_| 100 * CENT,
        sent: Some(0),
    }
}

/// An upstream that reports no bill, or a wrong one.
fn unreported() -> Vec<Attack> {
    vec![
        hidden("the connection breaks before the head", |_| vec![Act::Close]),
        hidden("the answer breaks in its middle", |_| {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{";
            vec![Act::Send(head.to_vec()), Act::Close]
        }),
        hidden("a proxy answers 504", |_| {
            with_status("504 Gateway Timeout", "{\"error\":{\"message\":\"too slow\"}}")
        }),
        hidden("a proxy answers 500 in another shape", |_| {
            with_status("500 Internal Server Error", "<html>oops</html>")
        }),
        hidden("a proxy answers 408", |_| with_status("408 Request Timeout", "{}")),
        Attack { leaves: true, ..hidden("the client leaves", |_| vec![Act::AwaitClose]) },
        hidden("usage.cost is 0", |request| {
            let mut reply = reply_of_all(request);
            reply["usage"]["cost"] = json!(0);
            answer("200 OK", &reply.to_string())
        }),
        hidden("the answer calls itself a stop of Endstop's", |request| {
            let reply = reply_of_all(request);
            let body = reply.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-endstop-reason: cost_limit\r\n\
                     content-length: {}\r\n\r\n{body}",
                body.len()
            );
            vec![Act::Send(head.into_bytes())]
        }),
    ]
}

/// Bills of Anthropic that stand elsewhere than usual.
fn of_anthropic() -> Vec<Attack> {
    vec![
        Attack {
            name: "Anthropic streams break after message_start",
            limit: 10,
            tries: 30,
            path: MESSAGES,
            body: messages_body(json!({ "stream": true })),
            leaves: false,
            acts: |_| {
                let start = json!({ "type": "message_start", "message": { "id": "m", "type": "message",
                    "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
                    "usage": { "input_tokens": 50, "output_tokens": 1 } } });
                let event = format!("event: message_start\ndata: {start}\n\n");
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
                     {:x}\r\n{event}\r\n",
                    event.len()
                );
                vec![Act::Send(head.into_bytes()), Act::Close]
            },
            // As many as can be under way when a connection breaks.
            billed: |_| of(SONNET, 50, 256),
            sent: None,
        },
        Attack {
            name: "Anthropic summarizes the conversation as well as answering",
            limit: 20,
            tries: 30,
            path: MESSAGES,
            body: messages_body(json!({ "context_management": { "edits": [
                { "type": "compact_20260112" }] } })),
            leaves: false,
            acts: |request| {
                let most = cap(&request.json());
                let body = json!({ "id": "m", "type": "message", "role": "assistant",
                    "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
                    "content": [{ "type": "text", "text": "Done." }],
                    "usage": { "input_tokens": 40, "output_tokens": most, "iterations": [
                        { "type": "compaction", "input_tokens": 50, "output_tokens": most },
                        { "type": "message", "input_tokens": 40, "output_tokens": most }] } });
                answer("200 OK", &body.to_string())
            },
            billed: |request| of(SONNET, 90, 2 * cap(&request.json())),
            sent: None,
        },
    ]
}

/// Requests whose cost nothing bounds.
fn unbounded() -> Vec<Attack> {
    vec![
        refused(
            "images are made by a tool of the provider",
            RESPONSES,
            json!({ "model": "gpt-5", "max_output_tokens": 100, "input": "Paint.",
                "tools": [{ "type": "image_generation" }] }),
        ),
        refused(
            "speech of a model without a price for it",
            CHAT,
            json!({ "model": "gpt-4o-audio-preview", "max_tokens": 100, "modalities": ["text", "audio"],
                "audio": { "voice": "alloy", "format": "wav" },
                "messages": [{ "role": "user", "content": "Speak." }] }),
        ),
        refused(
            "a document of a hundred pages in a kilobyte",
            MESSAGES,
            messages_body(json!({ "messages": [{ "role": "user", "content": [{ "type": "document",
                "source": { "type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ=" } }] }] })),
        ),
        refused(
            "a document of a hundred images elsewhere",
            MESSAGES,
            messages_body(json!({ "messages": [{ "role": "user", "content": [{ "type": "document",
                "source": { "type": "content", "content": vec![json!({ "type": "image",
                    "source": { "type": "url", "url": "https://example.com/a.png" } }); 100] } }] }] })),
        ),
        refused(
            "requests that are served in a more expensive region",
            MESSAGES,
            messages_body(json!({ "inference_geo": "us" })),
        ),
        refused(
            "skills of a container",
            MESSAGES,
            messages_body(
                json!({ "container": { "skills": [{ "type": "anthropic", "skill_id": "pptx" }] } }),
            ),
        ),
        refused(
            "a file in the instructions",
            "/v1beta/models/gemini-2.5-pro:generateContent",
            json!({ "generationConfig": { "maxOutputTokens": 100 },
                "systemInstruction": { "parts": [{ "fileData": { "fileUri": "https://example.com/a.pdf" } }] },
                "contents": [{ "role": "user", "parts": [{ "text": "Go." }] }] }),
        ),
        refused(
            "reasoning that is named by its id",
            RESPONSES,
            json!({ "model": "gpt-5", "max_output_tokens": 100,
                "input": [{ "type": "reasoning", "id": "rs_1", "summary": [] }, { "role": "user", "content": "Go." }] }),
        ),
    ]
}

#[tokio::test]
async fn no_attack_is_billed_more_than_its_limit_or_than_our_cost() {
    for attack in unreported().into_iter().chain(of_anthropic()).chain(unbounded()) {
        let billed = Arc::new(AtomicU64::new(0));
        let (sum, acts, bill) = (Arc::clone(&billed), attack.acts, attack.billed);
        let upstream = Fake::start(move |request, _| {
            // To count the tokens of a request costs nothing.
            if !is_count(request) {
                sum.fetch_add(bill(request), Ordering::SeqCst);
            }
            acts(request)
        })
        .await;
        let policy = format!("[stop]\nlimit = \"cost >= $0.{:02}\"\n", attack.limit);
        let mut config = config(&policy, upstream.addr);
        config.bounds.drain_within = Duration::from_millis(20);
        let gateway = Gateway::start(config).await.unwrap();
        for _ in 0..attack.tries {
            let stream = send(gateway.addr(), attack.path, "", &attack.body.to_string()).await;
            if attack.leaves {
                all_that_is_on_its_way().await;
                drop(stream);
                all_that_is_on_its_way().await;
            } else {
                receive(stream).await;
            }
        }
        let run = gateway.run(&id()).unwrap();
        until("all is settled", || run.budget().held().is_zero()).await;
        let billed = billed.load(Ordering::SeqCst);
        let Cost::Known(cost) = run.cost() else {
            panic!("{}: the cost is not known", attack.name)
        };
        let name = attack.name;
        assert!(billed <= attack.limit * CENT, "{name}: {billed} of {}", attack.limit * CENT);
        assert!(billed <= cost.picos(), "{name}: {billed} billed, {} counted", cost.picos());
        let calls = upstream.seen().iter().filter(|request| !is_count(request)).count();
        match attack.sent {
            Some(sent) => assert_eq!(calls, sent, "{name}"),
            None => assert!(calls > 1, "{name}: {calls} calls"),
        }
    }
}

/// An upstream that is not known as a provider's own API may have called one before it failed.
#[tokio::test]
async fn errors_of_another_upstream_are_charged_unless_the_policy_says_that_they_are_free() {
    let body = json!({ "error": { "message": "busy", "type": "server_error" } }).to_string();
    for (value, status, is_charged) in [
        ("auto", "503 Service Unavailable", true),
        ("auto", "200 OK", true),
        ("auto", "400 Bad Request", false),
        ("free", "503 Service Unavailable", false),
        ("free", "200 OK", false),
        ("free", "502 Bad Gateway", true),
    ] {
        let body = body.clone();
        let upstream = Fake::start(move |_, _| answer(status, &body)).await;
        let limit = "[stop]\nlimit = \"cost >= $0.10\"\n[accounting]\non_server_error =";
        let gateway = gateway(&format!("{limit} \"{value}\"\n"), &upstream).await;
        chat(&gateway, &chat_body(json!({}))).await;
        let spent = gateway.run(&id()).unwrap().cost() != Cost::Known(Money::ZERO);
        assert_eq!(spent, is_charged, "{value}, {status}");
    }
}

#[tokio::test]
async fn errors_of_the_api_itself_are_free() {
    let upstream = Fake::start(|_, n| match n {
        0..20 => {
            let body = json!({ "error": { "message": "busy", "type": "server_error" } });
            let status = ["500 Internal Server Error", "503 Service Unavailable", "529 Overloaded"];
            answer(status[n % 3], &body.to_string())
        }
        _ => answer("200 OK", &reply_text("Done.")),
    })
    .await;
    let policy = "[stop]\nlimit = \"cost >= $0.01\"\n[accounting]\non_server_error = \"free\"\n";
    let gateway = gateway(policy, &upstream).await;
    for turn in 0..21 {
        let got = chat(&gateway, &chat_body(json!({}))).await;
        assert_eq!(got.status == 200, turn == 20, "{turn}: {got:?}");
    }
    let cost = gateway.run(&id()).unwrap().cost();
    assert!(matches!(cost, Cost::Known(money) if money.picos() == of(MINI, 100, 10)), "{cost:?}");
}

#[tokio::test]
async fn an_error_in_a_stream_in_a_list_or_in_pieces_is_as_free_as_any_other() {
    fn event(text: &str) -> Vec<Act> {
        vec![sse_head(), chunk(text.as_bytes()), sse_end()]
    }
    const OWN: &str = r#"{"error":{"message":"busy","type":"server_error"}}"#;
    let gemini = json!({ "contents": [{ "parts": [{ "text": "Go." }] }],
        "generationConfig": { "maxOutputTokens": 10_000 } });
    let cases: [(&str, Value, Acts); 6] = [
        (CHAT, chat_body(json!({ "stream": true })), |_| event(&format!("data: {OWN}\n\n"))),
        (MESSAGES, messages_body(json!({ "stream": true })), |_| {
            let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
            event(&format!("event: error\ndata: {error}\n\n"))
        }),
        (RESPONSES, json!({ "model": "gpt-4o-mini", "input": "Go.", "stream": true }), |_| {
            let error = r#"{"type":"error","code":"server_error","message":"busy"}"#;
            event(&format!("event: error\ndata: {error}\n\n"))
        }),
        ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", gemini.clone(), |_| {
            event("data: {\"error\":{\"code\":503,\"message\":\"busy\"}}\n\n")
        }),
        ("/v1beta/models/gemini-2.5-flash:streamGenerateContent", gemini, |_| {
            answer("503 Service Unavailable", r#"[{"error":{"code":503,"message":"busy"}}]"#)
        }),
        (CHAT, chat_body(json!({})), |_| {
            let (begin, end) = OWN.split_at(20);
            let head = format!(
                "HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                OWN.len()
            );
            let wait = Act::Wait(Duration::from_millis(50));
            vec![Act::Send((head + begin).into_bytes()), wait, Act::Send(end.into())]
        }),
    ];
    for (path, body, acts) in cases {
        let upstream = Fake::start(move |arrived, _| acts(arrived)).await;
        let policy = |free: &str| format!("[stop]\nlimit = \"cost >= $1\"\n{free}");
        for (policy, is_free) in
            [(policy("[accounting]\non_server_error = \"free\"\n"), true), (policy(""), false)]
        {
            let gateway = gateway(&policy, &upstream).await;
            let got = post(&gateway, path, &body).await;
            assert!(got.text().contains("busy"), "{path}: {got:?}");
            let cost = gateway.run(&id()).unwrap().cost();
            assert_eq!(cost == Cost::Known(Money::ZERO), is_free, "{path}: {cost:?}");
        }
    }
}

#[tokio::test]
async fn what_was_counted_is_known_again_by_its_words_and_not_by_its_length() {
    let upstream = Fake::start(|_, _| {
        let mut reply: Value = serde_json::from_str(&reply_text("Done.")).unwrap();
        reply["usage"] =
            json!({ "prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010 });
        answer("200 OK", &reply.to_string())
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"tokens >= 30_000\"\n", &upstream).await;
    let words = "a ".repeat(10_000);
    let request = |system: &str, more: usize| {
        let mut messages = vec![json!({ "role": "user", "content": "Go." })];
        for turn in 0..more {
            messages.push(json!({ "role": "assistant", "content": "Done." }));
            messages.push(json!({ "role": "user", "content": format!("More {turn}.") }));
        }
        json!({ "model": "gpt-4o-mini", "max_tokens": 10, "messages": messages,
            "tools": [{ "type": "function", "function": { "name": "look", "description": system } }] })
    };
    assert_eq!(chat(&gateway, &request(&words, 0)).await.status, 200);
    // 20,000 more bytes would not fit next to the spend if they were not known.
    for more in 1..12 {
        assert_eq!(chat(&gateway, &request(&words, more)).await.status, 200);
    }
    let calls = upstream.calls();
    assert_eq!(calls, 12);
    // As long, and denser.
    let got = chat(&gateway, &request(&words.replace('a', "Q"), 12)).await;
    assert_eq!(upstream.calls(), calls, "{got:?}");
}

/// The image at an address may be small when it is counted, and large the next time.
#[tokio::test]
async fn an_image_elsewhere_is_held_at_its_largest_each_time() {
    const IMAGES: u64 = 20;
    let is_of_images = |request: &Arrived| request.body.contains("image_url");
    let upstream = Fake::start(move |request, n| {
        let input = if !is_of_images(request) || n == 0 { 100 } else { IMAGES * 48_169 };
        let mut reply = reply_of_all(request);
        reply["usage"]["prompt_tokens"] = json!(input);
        answer("200 OK", &reply.to_string())
    })
    .await;
    // The first call's images are held at $0.145 before anything is known of them.
    let gateway = gateway("[stop]\nlimit = \"cost >= $0.20\"\n", &upstream).await;
    let image = json!({ "type": "image_url", "image_url": { "url": "https://127.0.0.1/one.png" } });
    let mut images = chat_body(json!({ "max_tokens": 10 }));
    images["messages"] = json!([{ "role": "user", "content": vec![image; IMAGES as usize] }]);
    let first = chat(&gateway, &images).await;
    assert_eq!(first.words(), "Done.", "{}", first.text());
    for turn in 0..10 {
        let text = format!("Task {turn}");
        let body = json!({ "model": "gpt-4o-mini", "max_tokens": 16_000,
            "messages": [{ "role": "user", "content": text }] });
        assert_eq!(chat(&gateway, &body).await.words(), "Done.");
    }
    let messages = images["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": "Done." }));
    messages.push(json!({ "role": "user", "content": "Again." }));
    chat(&gateway, &images).await;
    assert_eq!(upstream.calls(), 11, "the remaining budget is less than the images can cost");
    let Cost::Known(cost) = gateway.run(&id()).unwrap().cost() else { panic!("the cost is known") };
    assert!(cost.picos() <= 20 * CENT, "{cost}");
}
