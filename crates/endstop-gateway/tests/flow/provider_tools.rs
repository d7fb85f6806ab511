//! Tools that run at the provider: they run only as often as fits (`docs/semantics.md`, "Tools that run at the provider").

use serde_json::{Value, json};

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const MESSAGES: &str = "/v1/messages";

/// A search of Anthropic's. Each run is held at 200,000 tokens of input at $7.50 a million, what a long input costs that is
/// written to a cache, and a cent.
fn search(max_uses: Value) -> Value {
    json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": max_uses })
}

fn own() -> Value {
    json!({ "name": "read_file", "input_schema": { "type": "object" } })
}

fn with_tools(tools: Value, choice: Value) -> Value {
    json!({ "model": "claude-sonnet-4-5", "max_tokens": 100, "tools": tools, "tool_choice": choice,
        "messages": [{ "role": "user", "content": "Go." }] })
}

/// The response, the request that the upstream received, and the warning.
async fn sent(policy: &str, path: &str, body: &Value) -> (Got, Option<Value>, Option<String>) {
    let upstream = Fake::start(|_, _| {
        answer(
            "200 OK",
            r#"{"id":"1","type":"message","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"end_turn",
            "content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":10,"output_tokens":5}}"#,
        )
    })
    .await;
    let gateway = gateway(policy, &upstream).await;
    let got = post(&gateway, path, body).await;
    let warning = got.header("x-endstop-warning");
    (got, upstream.seen().first().map(|it| it.json()), warning)
}

fn dollars(limit: &str) -> String {
    format!("[stop]\nmoney = \"cost >= ${limit}\"")
}

fn runs_of(sent: &Value) -> Option<u64> {
    sent["tools"][0]["max_uses"].as_u64()
}

#[tokio::test]
async fn a_search_runs_as_often_as_fits() {
    let auto = json!({ "type": "auto" });
    for (limit, wanted, runs) in [
        ("20", json!(8), 8),
        ("20", Value::Null, 5),
        ("10", json!(8), 6),
        ("4", Value::Null, 2),
        ("1.60", json!(8), 1),
    ] {
        let body = with_tools(json!([search(wanted)]), auto.clone());
        let (got, sent, warning) = sent(&dollars(limit), MESSAGES, &body).await;
        assert_eq!((got.status, warning), (200, None), "{limit}: {}", got.text());
        assert_eq!(sent.as_ref().and_then(runs_of), Some(runs), "{limit}");
    }
}

#[tokio::test]
async fn a_tool_of_the_provider_that_does_not_fit_is_removed_where_others_remain() {
    let tools = json!([search(json!(8)), own()]);
    let body = with_tools(tools, json!({ "type": "auto" }));
    let (got, sent, warning) = sent(&dollars("0.50"), MESSAGES, &body).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(sent.unwrap()["tools"], json!([own()]));
    assert!(warning.is_some_and(|warning| warning.contains("were removed")));
}

#[tokio::test]
async fn a_request_that_is_about_a_tool_of_the_provider_is_refused_by_its_name_where_no_run_fits() {
    let forced = json!({ "type": "tool", "name": "web_search" });
    for (tools, choice) in [
        (json!([search(json!(8))]), json!({ "type": "auto" })),
        (json!([search(json!(8)), own()]), forced),
    ] {
        let upstream = Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await;
        let gateway = gateway(&dollars("0.50"), &upstream).await;
        let got = post(&gateway, MESSAGES, &with_tools(tools, choice)).await;
        assert_eq!((got.status, upstream.calls()), (402, 0));
        assert!(got.text().contains("--allow-unmetered=web_search"), "{}", got.text());
        // The run continues.
        let plain = with_tools(json!([own()]), json!({ "type": "auto" }));
        assert_eq!(post(&gateway, MESSAGES, &plain).await.status, 200);
        assert_eq!(upstream.calls(), 1);
    }
}

#[tokio::test]
async fn a_tool_that_is_admitted_by_name_runs_as_often_as_the_request_says() {
    let body = with_tools(json!([search(json!(8))]), json!({ "type": "auto" }));
    let policy = format!("{}\n[accounting]\nallow_unmetered = ['web_search']", dollars("0.50"));
    let (got, sent, _) = sent(&policy, MESSAGES, &body).await;
    assert_eq!((got.status, sent.as_ref().and_then(runs_of)), (200, Some(8)), "{}", got.text());
}

#[tokio::test]
async fn without_a_limit_of_tokens_or_money_tools_stay_as_they_are() {
    let body = with_tools(json!([search(Value::Null)]), json!({ "type": "auto" }));
    let (got, sent, _) = sent("[stop]\nsteps = \"steps >= 9\"", MESSAGES, &body).await;
    assert_eq!((got.status, sent), (200, Some(body)));
}

#[tokio::test]
async fn where_the_call_does_not_fit_either_the_limit_is_the_reason() {
    let body = with_tools(json!([search(json!(8))]), json!({ "type": "auto" }));
    let (got, sent, _) = sent(&dollars("0.0001"), MESSAGES, &body).await;
    assert_eq!((got.header("x-endstop-reason").as_deref(), sent), (Some("cost_limit"), None));
}

#[tokio::test]
async fn tools_without_a_limit_of_their_runs_hold_those_that_are_assumed() {
    let path = "/v1beta/models/gemini-2.5-flash:generateContent";
    let body = json!({ "tools": [{ "urlContext": {} }], "contents": [{ "parts": [{ "text": "Go." }] }],
        "generationConfig": { "maxOutputTokens": 100 } });
    // Five windows of 1,048,576 tokens at $0.30 a million are $1.57.
    let (got, sent_to, _) = sent(&dollars("1.50"), path, &body).await;
    assert_eq!((got.status, sent_to), (402, None));
    assert!(got.text().contains("--allow-unmetered=urlContext"), "{}", got.text());
    let (_, sent_to, _) = sent(&dollars("1.60"), path, &body).await;
    assert_eq!(sent_to, Some(body));
    // Google bills its search by the request, and nothing for the text that it reads.
    let body = json!({ "tools": [{ "googleSearch": {} }], "contents": [{ "parts": [{ "text": "Go." }] }],
        "generationConfig": { "maxOutputTokens": 100 } });
    assert_eq!(sent(&dollars("0.04"), path, &body).await.1, Some(body.clone()));
    assert_eq!(sent(&dollars("0.03"), path, &body).await.1, None);
}

#[tokio::test]
async fn a_request_for_a_longer_context_window_holds_that_for_each_run() {
    let upstream = Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await;
    let gateway = gateway(&dollars("10"), &upstream).await;
    let body = with_tools(json!([search(json!(8))]), json!({ "type": "auto" })).to_string();
    let header = "anthropic-beta: prompt-caching-2024-07-31,context-1m-2025-08-07\r\n";
    let got = receive(send(gateway.addr(), MESSAGES, header, &body).await).await;
    assert_eq!(got.status, 200, "{}", got.text());
    // A million tokens at $7.50 a million, and a cent.
    assert_eq!(runs_of(&upstream.seen()[0].json()), Some(1));
}
