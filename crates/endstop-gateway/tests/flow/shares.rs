//! Calls side by side whose output caps do not fit together.

use std::sync::Arc;

use endstop_core::run::Status;
use endstop_core::units::Money;
use endstop_gateway::Gateway;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fake::{Act, Fake, json as answer};
use crate::kit::{all_that_is_on_its_way, config, id, post, receive, send, until};

const MESSAGES: &str = "/v1/messages";
/// Of claude-sonnet-4-5, whose output is $15 a million: 64,000 tokens are $0.96.
const CAP: u64 = 64_000;

fn request(task: usize) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": CAP,
        "messages": [{ "role": "user", "content": format!("Task {task}.") }] })
}

fn reply(output: u64, finish: &str) -> String {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{ "type": "text", "text": "Done." }], "stop_reason": finish, "stop_sequence": null,
        "usage": { "input_tokens": 50, "output_tokens": output } })
    .to_string()
}

async fn gateway_of(policy: &str, upstream: &Fake, fair_shares: bool) -> Gateway {
    let mut config = config(policy, upstream.addr);
    config.fair_shares = fair_shares;
    Gateway::start(config).await.unwrap()
}

fn cap_of(request: &crate::fake::Arrived) -> u64 {
    request.json()["max_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn eight_calls_with_large_caps_are_in_flight_together_and_what_they_hold_fits() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let upstream = Fake::start(move |_, _| {
        [vec![Act::Gate(Arc::clone(&held))], answer("200 OK", &reply(800, "end_turn"))].concat()
    })
    .await;
    let gateway = gateway_of("[stop]\nlimit = \"cost >= $2\"\n", &upstream, true).await;
    let mut streams = Vec::new();
    for task in 0..8 {
        streams.push(send(gateway.addr(), MESSAGES, "", &request(task).to_string()).await);
        until("it has arrived while the others wait", || upstream.calls() == task + 1).await;
    }
    let caps: Vec<u64> = upstream.seen().iter().map(cap_of).collect();
    assert_eq!(caps[0], CAP, "a call alone gets its whole cap");
    assert!(caps.iter().all(|cap| *cap >= 4_096), "{caps:?}");
    let budget = gateway.run(&id()).unwrap().budget().clone();
    let limit: Money = "2".parse().unwrap();
    assert!(budget.held().cost <= limit, "{:?}", budget.held());
    for _ in 0..8 {
        gate.notify_one();
        all_that_is_on_its_way().await;
    }
    for stream in streams {
        assert_eq!(receive(stream).await.status, 200);
    }
    assert_eq!(upstream.calls(), 8);
    assert!(budget.held().is_zero() && budget.settled().cost < limit);
}

#[tokio::test]
async fn without_shares_calls_wait_for_what_others_hold() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let upstream = Fake::start(move |_, _| {
        [vec![Act::Gate(Arc::clone(&held))], answer("200 OK", &reply(800, "end_turn"))].concat()
    })
    .await;
    let gateway = gateway_of("[stop]\nlimit = \"cost >= $2\"\n", &upstream, false).await;
    let mut streams = Vec::new();
    for task in 0..3 {
        streams.push(send(gateway.addr(), MESSAGES, "", &request(task).to_string()).await);
        all_that_is_on_its_way().await;
    }
    until("two have arrived", || upstream.calls() == 2).await;
    all_that_is_on_its_way().await;
    assert_eq!(upstream.calls(), 2);
    for _ in 0..3 {
        gate.notify_one();
        all_that_is_on_its_way().await;
    }
    until("the third has arrived", || upstream.calls() == 3).await;
    gate.notify_one();
    for stream in streams {
        assert_eq!(receive(stream).await.status, 200);
    }
    assert!(upstream.seen().iter().all(|request| cap_of(request) == CAP));
}

#[tokio::test]
async fn a_hundred_calls_with_shares_that_use_all_of_their_caps_stay_within_the_limit() {
    let upstream =
        Fake::start(|request, _| answer("200 OK", &reply(cap_of(request), "end_turn"))).await;
    let gateway = gateway_of("[stop]\nlimit = \"cost >= $2\"\n", &upstream, true).await;
    let bodies: Vec<Value> = (0..100).map(request).collect();
    let calls = bodies.iter().map(|body| post(&gateway, MESSAGES, body));
    futures_util::future::join_all(calls).await;
    let budget = gateway.run(&id()).unwrap().budget().clone();
    let limit: Money = "2".parse().unwrap();
    assert!(budget.overshoot().is_zero(), "{:?}", budget.overshoot());
    assert!(budget.held().is_zero() && budget.settled().cost <= limit, "{:?}", budget.settled());
    assert!(upstream.calls() >= 3, "{}", upstream.calls());
}

#[tokio::test]
async fn a_response_that_a_share_cut_off_is_asked_for_again_with_all_that_is_left() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    // The first call stays in flight; the second is cut off at its cap.
    let upstream = Fake::start(move |request, before| match before {
        0 => {
            [vec![Act::Gate(Arc::clone(&held))], answer("200 OK", &reply(800, "end_turn"))].concat()
        }
        1 => answer("200 OK", &reply(cap_of(request), "max_tokens")),
        _ => answer("200 OK", &reply(20_000, "end_turn")),
    })
    .await;
    let gateway = gateway_of("[stop]\nlimit = \"cost >= $2\"\n", &upstream, true).await;
    let first = send(gateway.addr(), MESSAGES, "", &request(0).to_string()).await;
    until("it has arrived", || upstream.calls() == 1).await;
    let got = post(&gateway, MESSAGES, &request(1)).await;
    assert_eq!((got.status, got.json()["stop_reason"].as_str()), (200, Some("end_turn")));
    let caps: Vec<u64> = upstream.seen().iter().map(cap_of).collect();
    assert!(caps.len() == 3 && caps[1] < 20_000 && caps[2] > caps[1], "{caps:?}");
    gate.notify_one();
    assert_eq!(receive(first).await.status, 200);
    let run = gateway.run(&id()).unwrap();
    // Nothing has stopped, and what the cut response cost is counted.
    assert!(matches!(run.status(), Status::InProgress | Status::Completed), "{:?}", run.status());
    assert_eq!(run.usage().0.output, 800 + caps[1] + 20_000);
}

#[tokio::test]
async fn a_response_that_a_share_cut_off_is_passed_on_where_no_longer_one_fits() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let upstream = Fake::start(move |request, before| match before {
        0 => {
            [vec![Act::Gate(Arc::clone(&held))], answer("200 OK", &reply(800, "end_turn"))].concat()
        }
        _ => answer("200 OK", &reply(cap_of(request), "max_tokens")),
    })
    .await;
    // The first call leaves $0.09, and a share of 4,096 tokens is $0.06.
    let gateway = gateway_of("[stop]\nlimit = \"cost >= $1.05\"\n", &upstream, true).await;
    let first = send(gateway.addr(), MESSAGES, "", &request(0).to_string()).await;
    until("it has arrived", || upstream.calls() == 1).await;
    let got = post(&gateway, MESSAGES, &request(1)).await;
    assert_eq!((got.status, got.json()["stop_reason"].as_str()), (200, Some("max_tokens")));
    assert_eq!(upstream.calls(), 2);
    gate.notify_one();
    assert_eq!(receive(first).await.status, 200);
    assert_eq!(gateway.run(&id()).unwrap().look(|run| run.gauge("errors")), Some(0));
}

#[tokio::test]
async fn a_stream_that_a_share_cut_off_keeps_its_finish_reason_and_stops_nothing() {
    use crate::fake::{chunk, sse_end, sse_head};
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let upstream = Fake::start(move |request, before| match before {
        0 => {
            [vec![Act::Gate(Arc::clone(&held))], answer("200 OK", &reply(800, "end_turn"))].concat()
        }
        _ => vec![sse_head(), chunk(&cut_stream(cap_of(request))), sse_end()],
    })
    .await;
    let gateway = gateway_of("[stop]\nlimit = \"cost >= $2\"\n", &upstream, true).await;
    let first = send(gateway.addr(), MESSAGES, "", &request(0).to_string()).await;
    until("it has arrived", || upstream.calls() == 1).await;
    let mut body = request(1);
    body["stream"] = json!(true);
    let got = post(&gateway, MESSAGES, &body).await;
    assert!(got.is_whole && got.text().contains("\"stop_reason\":\"max_tokens\""), "{got:?}");
    assert_eq!(upstream.calls(), 2);
    gate.notify_one();
    assert_eq!(receive(first).await.status, 200);
    assert_eq!(post(&gateway, MESSAGES, &request(2)).await.status, 200, "the run continues");
}

fn cut_stream(output: u64) -> Vec<u8> {
    let events = [
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": [], "stop_reason": null,
            "usage": { "input_tokens": 50, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Long" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens", "stop_sequence": null },
            "usage": { "output_tokens": output } }),
        json!({ "type": "message_stop" }),
    ];
    let event = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()).into_bytes()
    };
    events.iter().flat_map(event).collect()
}
