//! Answers that come event by event.

use serde_json::{Value, json};

use crate::fake::{Act, Fake, chunk, sse_end, sse_head};
use crate::kit::*;

fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn delta(delta: &Value, finish: &Value) -> Vec<u8> {
    event(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7,
        "model": "gpt-4o-mini", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
}

/// A stream of words; usage at its end.
fn words(words: &[&str]) -> Vec<Vec<u8>> {
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

fn agent() -> Agent {
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
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        drop(stream);
        until("upstream is closed", || {
            upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1
        })
        .await;
        until("settled", || gateway.run(&id()).unwrap().budget().held().is_zero()).await;
        let (usage, is_estimate) = gateway.run(&id()).unwrap().usage();
        assert!(is_estimate && usage.input > 0 && usage.output < 40, "{at}: {usage:?}");
        assert_eq!(usage.output > 0, at > 1, "{at}: {usage:?}");
        assert_eq!(gateway.counts(&id()).unwrap().client_disconnects, 1, "{at}");
    }
}
