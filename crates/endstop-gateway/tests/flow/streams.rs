//! Answers that come event by event.

use serde_json::{Value, json};

use crate::fake::{Act, Fake, chunk, sse_end, sse_head};
use crate::kit::*;

pub(crate) fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

pub(crate) fn delta(delta: &Value, finish: &Value) -> Vec<u8> {
    event(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7,
        "model": "gpt-4o-mini", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
}

/// A stream of words; usage at its end.
pub(crate) fn words(words: &[&str]) -> Vec<Vec<u8>> {
    let mut all = vec![delta(&json!({ "role": "assistant", "content": "" }), &Value::Null)];
    all.extend(words.iter().map(|word| delta(&json!({ "content": word }), &Value::Null)));
    all.push(delta(&json!({}), &json!("stop")));
    all.push(event(&json!({ "id": "chatcmpl-1", "choices": [], "usage": usage() })));
    all.push(b"data: [DONE]\n\n".to_vec());
    all
}

fn streamed(events: &[Vec<u8>]) -> Vec<Act> {
    let mut acts = vec![sse_head()];
    acts.extend(events.iter().map(|event| chunk(event)));
    acts.push(sse_end());
    acts
}

pub(crate) fn agent() -> Agent {
    Agent { is_stream: true, ..Agent::new("Say.") }
}

#[tokio::test]
async fn a_stream_passes_without_the_usage_that_nobody_asked_for() {
    let events = words(&["One", " two", " three"]);
    let sent = events.clone();
    let upstream = Fake::start(move |_, _| streamed(&sent)).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let got = chat(&gateway, &agent().request()).await;
    let mut expected = events.clone();
    expected.remove(events.len() - 2);
    assert_eq!(got.text(), String::from_utf8(expected.concat()).unwrap());
    assert!(got.is_whole);
    assert_eq!(upstream.seen()[0].json()["stream_options"]["include_usage"], true);
    let run = gateway.run(&id()).unwrap();
    assert_eq!(run.usage(), (run.usage().0, false));
    assert_eq!((run.usage().0.total(), reading(&gateway, "steps")), (110, 1));
}

#[tokio::test]
async fn a_stream_passes_as_it_came_where_usage_was_asked_for() {
    let events = words(&["One", " two"]);
    let sent = events.clone();
    let upstream = Fake::start(move |_, _| streamed(&sent)).await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 3\"\n", &upstream).await;
    let mut agent = agent();
    agent.extra = json!({ "stream_options": { "include_usage": true } });
    let got = chat(&gateway, &agent.request()).await;
    assert_eq!(got.text(), String::from_utf8(events.concat()).unwrap());
    let sent: Value = agent.request();
    assert_eq!(upstream.seen()[0].json(), sent);
}

#[tokio::test]
async fn words_that_a_rule_waits_for_end_the_stream_properly() {
    let events = words(&["One", " STOP HERE", " three", " four"]);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().take(3).map(|event| chunk(event)));
        acts.push(Act::AwaitClose);
        acts
    })
    .await;
    let gateway = gateway("[stop]\ndone = 'said(\"STOP HERE\") or steps >= 9'\n", &upstream).await;
    let got = chat(&gateway, &agent().request()).await;
    assert!(got.is_whole, "{got:?}");
    let text = got.text();
    assert!(text.contains("STOP HERE") && text.ends_with("data: [DONE]\n\n"), "{text}");
    assert!(text.contains("Endstop"), "{text}");
    until("the upstream is closed", || {
        upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1
    })
    .await;
    let run = gateway.run(&id()).unwrap();
    let (usage, is_estimate) = run.usage();
    assert!(is_estimate && usage.total() > 0 && usage.output < 20, "{usage:?}");
    let again = chat(&gateway, &agent().request()).await;
    assert_eq!(again.header("x-endstop-reason").as_deref(), Some("condition_met"));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_pays_for_what_came() {
    for at in 0..5 {
        let events = words(&["One ".repeat(9).as_str(), "two ", "three "]);
        let upstream = Fake::start(move |_, _| {
            let mut acts = vec![];
            if at > 0 {
                acts.push(sse_head());
                acts.extend(events.iter().take(at).map(|event| chunk(event)));
            }
            acts.push(Act::AwaitClose);
            acts
        })
        .await;
        let gateway = gateway("[stop]\nlimit = \"tokens >= 100_000\"\n", &upstream).await;
        let mut stream =
            send(gateway.addr(), "/v1/chat/completions", "", &agent().request().to_string()).await;
        until("it has arrived", || upstream.calls() == 1).await;
        if at > 0 {
            use tokio::io::AsyncReadExt as _;
            let mut some = vec![0u8; 1];
            stream.read_exact(&mut some).await.unwrap();
            all_that_is_on_its_way().await;
        }
        drop(stream);
        until("upstream is closed", || {
            upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1
        })
        .await;
        until("settled", || gateway.run(&id()).unwrap().budget().held().is_zero()).await;
        let (usage, is_estimate) = gateway.run(&id()).unwrap().usage();
        // The output in flight, and the output that can have been made until then: not more than the cap.
        assert!(is_estimate && usage.input > 0, "{at}: {usage:?}");
        assert!((256..=1_000).contains(&usage.output), "{at}: {usage:?}");
        assert_eq!(gateway.counts(&id()).unwrap().client_disconnects, 1, "{at}");
    }
}

#[tokio::test]
async fn a_limit_in_time_ends_a_silent_stream_properly() {
    let events = words(&["One", " two"]);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().take(2).map(|event| chunk(event)));
        acts.push(Act::AwaitClose);
        acts
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"elapsed >= 400ms\"\n", &upstream).await;
    let got = chat(&gateway, &agent().request()).await;
    assert!(got.is_whole && got.text().contains("400ms"), "{got:?}");
    assert!(got.text().ends_with("data: [DONE]\n\n"), "{got:?}");
    assert!(gateway.run(&id()).unwrap().budget().held().is_zero());
}

#[tokio::test]
async fn a_kill_cuts_a_stream_without_its_end() {
    let events = words(&["One", " two"]);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().take(2).map(|event| chunk(event)));
        acts.push(Act::AwaitClose);
        acts
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 9\"\n", &upstream).await;
    let killing = async {
        until("it has arrived", || upstream.calls() == 1).await;
        all_that_is_on_its_way().await;
        gateway.cancel(&id(), "enough", endstop_runtime::cancel::Urgency::Now);
    };
    let request = agent().request();
    let (got, ()) = futures_util::future::join(chat(&gateway, &request), killing).await;
    assert!(!got.is_whole && got.text().contains("One"), "{got:?}");
    until("closed", || upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_cancellation_lets_a_stream_end_by_itself() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let events = words(&["One", " two", " three"]);
    let held = std::sync::Arc::clone(&gate);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().take(2).map(|event| chunk(event)));
        acts.push(Act::Gate(std::sync::Arc::clone(&held)));
        acts.extend(events.iter().skip(2).map(|event| chunk(event)));
        acts.push(sse_end());
        acts
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 9\"\n", &upstream).await;
    let cancelling = async {
        until("it has arrived", || upstream.calls() == 1).await;
        gateway.cancel(&id(), "enough", endstop_runtime::cancel::Urgency::Graceful);
        gate.notify_one();
    };
    let request = agent().request();
    let (got, ()) = futures_util::future::join(chat(&gateway, &request), cancelling).await;
    assert!(got.is_whole && got.text().contains("three"), "{got:?}");
    assert_eq!(gateway.run(&id()).unwrap().usage().0.total(), 110);
    let got = chat(&gateway, &request).await;
    assert!(got.text().contains("enough"), "{got:?}");
}

#[tokio::test]
async fn an_upstream_that_breaks_off_in_a_stream_cuts_it_and_is_charged() {
    let events = words(&["One two three", " four"]);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().take(3).map(|event| chunk(event)));
        acts.push(Act::Close);
        acts
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"tokens >= 100_000\"\n", &upstream).await;
    let got = chat(&gateway, &agent().request()).await;
    assert!(!got.is_whole && got.text().contains("four"), "{got:?}");
    let (usage, is_estimate) = gateway.run(&id()).unwrap().usage();
    assert!(is_estimate && usage.input > 0, "{usage:?}");
    assert!((256..=1_000).contains(&usage.output), "{usage:?}");
    assert_eq!(reading(&gateway, "errors"), 1);
}

#[tokio::test]
async fn a_client_that_asks_again_at_once_stays_in_its_conversation() {
    let events = words(&["One"]);
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().map(|event| chunk(event)));
        // The end of the body is late.
        acts.push(Act::Wait(std::time::Duration::from_millis(300)));
        acts.push(sse_end());
        acts
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 9\"\n", &upstream).await;
    for _ in 0..3 {
        use tokio::io::AsyncReadExt as _;
        let body = agent().request().to_string();
        let mut stream = send(gateway.addr(), "/v1/chat/completions", "", &body).await;
        let mut all = Vec::new();
        while !all.windows(6).any(|window| window == b"[DONE]") {
            stream.read_buf(&mut all).await.unwrap();
        }
    }
    assert_eq!((reading(&gateway, "own.steps"), reading(&gateway, "subagents")), (3, 0));
    assert_eq!(gateway.counts(&id()).unwrap().client_disconnects, 0);
}

#[tokio::test]
async fn a_retry_rule_ends_a_run_whose_streams_it_dislikes_too_often() {
    let events = words(&["no", "nsense"]);
    let upstream = Fake::start(move |_, _| streamed(&events)).await;
    let policy = "[stop]\nlimit = \"steps >= 9\"\n[retry]\nbad = 'said(\"nonsense\")'\n";
    let gateway = gateway(policy, &upstream).await;
    for turn in 0..5 {
        let mut agent = Agent::new(&format!("Say {turn}."));
        agent.is_stream = true;
        let got = chat(&gateway, &agent.request()).await;
        let is_stopped = got.header("x-endstop-reason").is_some();
        assert_eq!(is_stopped, turn > 2, "{turn} {got:?}");
    }
    assert_eq!((upstream.calls(), reading(&gateway, "steps")), (3, 3));
}
