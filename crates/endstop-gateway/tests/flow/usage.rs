//! The charge for usage that an upstream reports in part, or in an unusual form.

use serde_json::{Value, json};

use crate::fake::{Fake, json};
use crate::kit::*;

/// An answer of some words with this report of usage.
fn reply(usage: &Value, words: &str) -> String {
    let mut reply: Value = serde_json::from_str(&reply_text(words)).unwrap();
    reply["usage"] = usage.clone();
    reply.to_string()
}

/// Input, output, whether some of it is an estimate, and the money in pico-dollars, after one answer.
async fn charged(usage: Value, words: &'static str) -> (u64, u64, bool, Option<u64>) {
    let upstream = Fake::start(move |_, _| json("200 OK", &reply(&usage, words))).await;
    let gateway = gateway("[stop]\nlimit = \"cost >= $5\"\n", &upstream).await;
    assert_eq!(chat(&gateway, &Agent::new("Go.").request()).await.status, 200);
    let run = gateway.run(&id()).unwrap();
    let (tokens, is_estimate) = run.usage();
    let money = match run.cost() {
        endstop_core::units::Cost::Known(money) => Some(money.picos()),
        endstop_core::units::Cost::Unpriced => None,
    };
    (tokens.total_input(), tokens.output, is_estimate, money)
}

const WORDS: &str =
    "These words are ninety bytes long, so that thirty tokens are counted for them, as there are";

#[tokio::test]
async fn output_that_is_not_told_is_held_and_input_that_is_told_stands() {
    // The cap: what is hidden is no part of the words.
    let counted = 1_000;
    for usage in [
        json!({ "prompt_tokens": 1_000 }),
        json!({ "prompt_tokens": 1_000, "completion_tokens": 0, "total_tokens": 1_000 }),
    ] {
        let (input, output, is_estimate, money) = charged(usage, WORDS).await;
        assert_eq!((input, output, is_estimate), (1_000, counted, true));
        // $0.15 and $0.60 per million.
        assert_eq!(money, Some(1_000 * 150_000 + counted * 600_000));
    }
    let (input, output, is_estimate, _) = charged(json!({ "completion_tokens": 5 }), WORDS).await;
    assert!(input > 0 && output == 5 && is_estimate);
    let told = charged(json!({ "prompt_tokens": 1_000, "completion_tokens": 7 }), WORDS).await;
    assert_eq!(told, (1_000, 7, false, Some(1_000 * 150_000 + 7 * 600_000)));
}

#[tokio::test]
async fn what_a_vendor_bills_by_a_key_of_the_callers_own_stops_the_run() {
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
        "cost": 0, "is_byok": true, "cost_details": { "upstream_inference_cost": 0.02 } });
    let upstream = Fake::start(move |_, _| json("200 OK", &reply(&usage, "Done."))).await;
    let gateway = gateway("[stop]\nlimit = \"cost >= $0.05\"\n", &upstream).await;
    for turn in 0..5 {
        chat(&gateway, &Agent::new(&format!("Go {turn}.")).request()).await;
    }
    assert_eq!(upstream.calls(), 3);
}

/// How many calls reach an upstream under a policy, and the answer.
async fn sent(
    policy: &str,
    path: &str,
    body: &Value,
    allow_unmetered: &str,
) -> (usize, Got, Option<u64>) {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let policy = format!("{policy}[accounting]\nallow_unmetered = [{allow_unmetered}]\n");
    let config = config(&policy, upstream.addr);
    let gateway = endstop_gateway::Gateway::start(config).await.unwrap();
    let got = post(&gateway, path, body).await;
    let cap = upstream.seen().first().and_then(|it| it.json()["max_completion_tokens"].as_u64());
    (upstream.calls(), got, cap)
}

const CHAT: &str = "/v1/chat/completions";
const CENTS: &str = "[stop]\nlimit = \"cost >= $0.05\"\n";

#[tokio::test]
async fn a_call_that_a_dearer_model_may_answer_is_held_at_its_price() {
    let body = |models: Value| {
        json!({ "model": "gpt-4o-mini", "models": models,
            "messages": [{ "role": "user", "content": "Go." }] })
    };
    let cap = async |models| sent(CENTS, CHAT, &body(models), "").await.2;
    assert_eq!(cap(json!(["gpt-4o-mini"])).await, Some(1_000));
    // A thousand tokens of gpt-4 are $0.06.
    let lowered = cap(json!(["gpt-4o-mini", "gpt-4"])).await.unwrap();
    assert!((700..834).contains(&lowered), "{lowered}");
    let (calls, got, _) = sent(CENTS, CHAT, &body(json!(["unlisted/model"])), "").await;
    assert_eq!((calls, got.header("x-endstop-reason").as_deref()), (0, Some("cost_limit")));
}

#[tokio::test]
async fn a_recording_that_is_elsewhere_is_held_at_all_that_the_model_takes() {
    let body = json!({ "generationConfig": { "maxOutputTokens": 100 }, "contents": [{ "parts": [
        { "fileData": { "fileUri": "https://example.com/a.mp4" } }, { "text": "What is it?" }] }] });
    let path = "/v1beta/models/gemini-2.5-pro:generateContent";
    for (limit, calls) in [("$1", 0), ("$10", 1)] {
        let policy = format!("[stop]\nlimit = \"cost >= {limit}\"\n");
        assert_eq!(sent(&policy, path, &body, "").await.0, calls, "{limit}");
    }
    let tokens = "[stop]\nlimit = \"tokens >= 1_000_000\"\n";
    let body = json!({ "model": "unlisted-model", "messages": [{ "role": "user", "content": [
        { "type": "video_url", "video_url": { "url": "https://example.com/a.mp4" } }] }] });
    let (calls, got, _) = sent(tokens, CHAT, &body, "").await;
    assert_eq!((calls, got.status), (0, 402));
    assert!(got.text().contains("--allow-unmetered=unknown_file"), "{got:?}");
    assert_eq!(sent(tokens, CHAT, &body, "'unknown_file'").await.0, 1);
}

#[tokio::test]
async fn a_conversation_that_the_upstream_keeps_goes_on_from_any_answer_of_the_run() {
    let upstream = Fake::start(|_, n| {
        let usage = json!({ "input_tokens": 1_000, "output_tokens": 10, "total_tokens": 1_010 });
        let answer = json!({ "id": format!("resp_{n}"), "object": "response", "status": "completed",
            "model": "gpt-4o-mini", "output": [], "usage": usage });
        json("200 OK", &answer.to_string())
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"cost >= $5\"\n", &upstream).await;
    let from =
        |id: Value| json!({ "model": "gpt-4o-mini", "input": "Go.", "previous_response_id": id });
    for (id, status) in [
        (Value::Null, 200),
        (json!("resp_0"), 200),
        // Once more from the first one.
        (json!("resp_0"), 200),
        (json!("resp_1"), 200),
        (json!("resp_9"), 402),
    ] {
        let got = post(&gateway, "/v1/responses", &from(id.clone())).await;
        assert_eq!(got.status, status, "{id} {got:?}");
    }
}
