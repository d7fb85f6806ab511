//! The used part of a subscription's windows, as the headers of responses report it.

use endstop_core::signal::StopReason;
use endstop_runtime::store::RunId;
use serde_json::{Value, json};

use crate::fake::{Act, Fake};
use crate::kit::*;

fn message() -> Value {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{ "type": "text", "text": "Done." }], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": { "input_tokens": 10, "output_tokens": 2 } })
}

fn request() -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100,
        "messages": [{ "role": "user", "content": "Go." }] })
}

/// An upstream whose n-th response reports so many percent of the five hours.
async fn upstream(percent: [u32; 3]) -> Fake {
    Fake::start(move |_, number| {
        let (body, used) = (message().to_string(), percent[number.min(2)]);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             anthropic-ratelimit-unified-5h-utilization: {}.{:02}\r\n\
             anthropic-ratelimit-unified-7d-utilization: 0.125\r\n\r\n",
            body.len(),
            used / 100,
            used % 100,
        );
        vec![Act::Send(format!("{head}{body}").into_bytes())]
    })
    .await
}

#[tokio::test]
async fn a_rule_on_the_quota_of_a_plan_stops_before_the_next_call() {
    let upstream = upstream([12, 89, 91]).await;
    let gateway =
        gateway("unbounded = true\n[stop]\nplan = 'quota(\"5h\") >= 90%'", &upstream).await;
    for _ in 0..3 {
        let text = post(&gateway, "/v1/messages", &request()).await.text();
        assert!(text.contains("Done."), "{text}");
    }
    let stopped = post(&gateway, "/v1/messages", &request()).await.text();
    assert!(stopped.contains("quota(\\\"5h\\\") is 91% (limit 90%)"), "{stopped}");
    assert_eq!(upstream.calls(), 3);
    let id = RunId::parse("run-1").unwrap();
    assert_eq!(gateway.quotas(&id), [("5h".to_owned(), 9_100), ("7d".to_owned(), 1_250)]);
    let reason = gateway.run(&id).unwrap().report().reason;
    assert_eq!(reason, Some(StopReason::CostLimitReached));
}

#[tokio::test]
async fn a_quota_that_no_provider_reports_stops_nothing() {
    let upstream = upstream([0, 0, 0]).await;
    let gateway =
        gateway("unbounded = true\n[stop]\nplan = 'quota(\"30d\") >= 1%'", &upstream).await;
    for _ in 0..3 {
        assert!(post(&gateway, "/v1/messages", &request()).await.text().contains("Done."));
    }
}
