//! The used part of a subscription's windows, as responses report it, and runs that wait for a reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use endstop_core::run::Status;
use endstop_core::signal::StopReason;
use endstop_core::units::WallTime;
use endstop_gateway::{Gateway, PauseLimit};
use endstop_runtime::cancel::Urgency;
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

/// The second at which the five hours start over.
const RESET: u64 = 1_795_000_000;

/// An upstream whose n-th response reports so many percent of the five hours.
async fn upstream(percent: [u32; 3]) -> Fake {
    upstream_with(percent, format!("anthropic-ratelimit-unified-5h-reset: {RESET}\r\n")).await
}

async fn upstream_with(percent: [u32; 3], more: String) -> Fake {
    Fake::start(move |_, number| {
        let (body, used) = (message().to_string(), percent[number.min(2)]);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             anthropic-ratelimit-unified-5h-utilization: {}.{:02}\r\n\
             {more}anthropic-ratelimit-unified-7d-utilization: 0.125\r\n\r\n",
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

const WAITS: &str =
    "unbounded = true\n[pause]\nplan = 'quota(\"5h\") >= 90%'\n[rule.plan]\nresume = \"reset\"\n";

/// A gateway whose calls wait for a person for 30 ms at most, and its clock, a minute before the reset.
async fn waiting(upstream: &Fake) -> (Gateway, Arc<AtomicU64>) {
    let mut config = config(WAITS, upstream.addr);
    config.pause = PauseLimit(Duration::from_millis(30));
    let clock = Arc::new(AtomicU64::new((RESET - 60) * 1_000));
    let wall = Arc::clone(&clock);
    config.environment.wall = Some(Arc::new(move || WallTime(wall.load(Ordering::Relaxed))));
    (Gateway::start(config).await.unwrap(), clock)
}

/// Waits until a call is held.
async fn until_held(gateway: &Gateway) {
    let run = gateway.run(&id()).unwrap();
    while run.status() != Status::Paused {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_reset_continues_by_itself() {
    let upstream = upstream([91, 12, 12]).await;
    let (gateway, clock) = waiting(&upstream).await;
    let first = post(&gateway, "/v1/messages", &request()).await.text();
    assert!(first.contains("Done."), "{first}");
    let body = request();
    let held = post(&gateway, "/v1/messages", &body);
    let reset = async {
        until_held(&gateway).await;
        let run = gateway.run(&id()).unwrap();
        let next = run.next_reset().unwrap();
        assert_eq!((&*next.window, next.at), ("5h", WallTime(RESET * 1_000)));
        // Far longer than a call waits for a person.
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!((upstream.calls(), run.status()), (1, Status::Paused));
        clock.store((RESET + 1) * 1_000, Ordering::Relaxed);
    };
    let (held, ()) = tokio::join!(held, reset);
    assert!(held.text().contains("Done."), "{held:?}");
    assert_eq!(upstream.calls(), 2);
    assert_eq!(gateway.quotas(&id()), [("5h".to_owned(), 1_200), ("7d".to_owned(), 1_250)]);
    // `active` runs again.
    let run = gateway.run(&id()).unwrap();
    let active = |run: &endstop_core::Run| run.gauge("active").unwrap();
    let before = run.look(active);
    tokio::time::sleep(Duration::from_millis(20)).await;
    run.tick();
    assert!(run.look(active) >= before + 20);
}

#[tokio::test]
async fn a_use_that_is_still_as_high_after_the_reset_counts_again() {
    let upstream = upstream([91, 91, 12]).await;
    let (gateway, clock) = waiting(&upstream).await;
    let body = request();
    assert!(post(&gateway, "/v1/messages", &body).await.text().contains("Done."));
    clock.store((RESET + 1) * 1_000, Ordering::Relaxed);
    assert!(post(&gateway, "/v1/messages", &body).await.text().contains("Done."));
    assert_eq!(gateway.quotas(&id())[0], ("5h".to_owned(), 9_100));
    assert_eq!(gateway.run(&id()).unwrap().look(|run| run.gauge("steps")), Some(2));
    // The provider repeats a reset that has passed: there is nothing to wait for but a person.
    let held = post(&gateway, "/v1/messages", &body).await.text();
    assert!(held.contains("waits for the approval of a person"), "{held}");
    assert_eq!((upstream.calls(), gateway.run(&id()).unwrap().next_reset()), (2, None));
}

#[tokio::test]
async fn a_run_that_waits_for_a_reset_can_be_cancelled_and_approved() {
    for is_approved in [true, false] {
        let upstream = upstream([91, 91, 91]).await;
        let (gateway, _clock) = waiting(&upstream).await;
        let body = request();
        assert!(post(&gateway, "/v1/messages", &body).await.text().contains("Done."));
        let act = async {
            until_held(&gateway).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            match is_approved {
                true => assert!(gateway.approve(&id(), None)),
                false => drop(gateway.cancel(&id(), "enough", Urgency::Graceful)),
            }
        };
        let (held, ()) = tokio::join!(post(&gateway, "/v1/messages", &body), act);
        let expected = if is_approved { "Done." } else { "enough" };
        assert!(held.text().contains(expected), "{held:?}");
    }
}

#[tokio::test]
async fn a_run_waits_for_a_person_if_nobody_reports_the_reset() {
    let upstream = upstream_with([91, 12, 12], String::new()).await;
    let (gateway, _clock) = waiting(&upstream).await;
    let body = request();
    assert!(post(&gateway, "/v1/messages", &body).await.text().contains("Done."));
    let held = post(&gateway, "/v1/messages", &body).await.text();
    assert!(held.contains("waits for the approval of a person"), "{held}");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn codex_reports_its_windows_in_headers() {
    // A reset in the past is none.
    let reset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
    let upstream = Fake::start(move |_, number| {
        let used = ["41.5", "90"][number.min(1)];
        let body = json!({ "id": "resp_1", "object": "response", "status": "completed",
            "model": "gpt-4o-mini", "output": [],
            "usage": { "input_tokens": 9, "output_tokens": 1, "total_tokens": 10 } })
        .to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             x-codex-primary-used-percent: {used}\r\nx-codex-primary-window-minutes: 300\r\n\
             x-codex-primary-reset-at: {reset}\r\nx-codex-secondary-used-percent: 8\r\n\
             x-codex-secondary-window-minutes: 10080\r\n\r\n",
            body.len()
        );
        vec![Act::Send(format!("{head}{body}").into_bytes())]
    })
    .await;
    let policy = "unbounded = true\n[stop]\nplan = 'quota(\"5h\") >= 90%'";
    let gateway = gateway(policy, &upstream).await;
    let body = json!({ "model": "gpt-4o-mini", "input": "Go." });
    let first = post(&gateway, "/v1/responses", &body).await;
    assert!(first.text().contains("resp_1"), "{first:?}");
    assert_eq!(gateway.quotas(&id()), [("5h".to_owned(), 4_150), ("7d".to_owned(), 800)]);
    let resets = gateway.quota_resets(&id());
    let resets: Vec<_> = resets.iter().map(|reset| (&*reset.window, reset.at)).collect();
    assert_eq!(resets, [("5h", WallTime(reset * 1_000))]);
    post(&gateway, "/v1/responses", &body).await;
    let stopped = post(&gateway, "/v1/responses", &body).await.text();
    assert!(stopped.contains("is 90% (limit 90%)"), "{stopped}");
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn codex_reports_its_windows_in_the_stream_too() {
    let upstream = Fake::start(|_, _| {
        let limits = json!({ "type": "codex.rate_limits", "rate_limits": { "primary": {
            "used_percent": 93.5, "window_minutes": 300, "reset_at": RESET } } });
        let done = json!({ "type": "response.completed", "response": { "id": "resp_1",
            "object": "response", "status": "completed", "model": "gpt-4o-mini", "output": [],
            "usage": { "input_tokens": 9, "output_tokens": 1, "total_tokens": 10 } } });
        let body = format!(
            "event: codex.rate_limits\ndata: {limits}\n\nevent: response.completed\ndata: {done}\n\n"
        );
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        vec![Act::Send(format!("{head}{body}").into_bytes())]
    })
    .await;
    let policy = "unbounded = true\n[stop]\nplan = 'quota(\"5h\") >= 90%'";
    let gateway = gateway(policy, &upstream).await;
    let body = json!({ "model": "gpt-4o-mini", "stream": true, "input": "Go." });
    let first = post(&gateway, "/v1/responses", &body).await.text();
    assert!(first.contains("codex.rate_limits") && first.contains("93.5"), "{first}");
    assert_eq!(gateway.quotas(&id()), [("5h".to_owned(), 9_350)]);
    let stopped = post(&gateway, "/v1/responses", &body).await.text();
    assert!(stopped.contains("is 93.5% (limit 90%)"), "{stopped}");
    assert_eq!(upstream.calls(), 1);
}
