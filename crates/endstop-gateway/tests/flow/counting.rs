//! Small budgets: a call that does not fit by its bytes is counted by its upstream before it is refused
//! (`docs/semantics.md`, "Input that was not counted yet").

use serde_json::{Value, json};

use crate::fake::{Act, Arrived, Fake, json as answer};
use crate::kit::*;

/// A request of one API whose input is about 53,000 tokens: by its bytes more than the limit allows, by its count not.
struct Large {
    path: &'static str,
    count_path: &'static str,
    body: fn(&str) -> Value,
    reply: fn(u64) -> Value,
    /// Keys of the request that say nothing about its input.
    uncounted: &'static [&'static str],
}

const APIS: [Large; 3] = [
    Large {
        path: "/v1/messages?beta=true",
        count_path: "/v1/messages/count_tokens?beta=true",
        body: |text| {
            json!({ "model": "claude-opus-4-5", "max_tokens": 4_000, "stream": false, "temperature": 1,
                "system": "Be brief.", "messages": [{ "role": "user", "content": text }] })
        },
        reply: |input| {
            json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-5",
                "content": [{ "type": "text", "text": "Done." }], "stop_reason": "end_turn",
                "usage": { "input_tokens": input, "output_tokens": 800 } })
        },
        uncounted: &["max_tokens", "stream", "temperature"],
    },
    Large {
        path: "/v1/responses",
        count_path: "/v1/responses/input_tokens",
        body: |text| {
            json!({ "model": "gpt-5", "max_output_tokens": 4_000, "store": false, "stream": false,
                "instructions": "Be brief.", "input": text })
        },
        reply: |input| {
            json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5",
                "output": [{ "type": "message", "role": "assistant",
                    "content": [{ "type": "output_text", "text": "Done." }] }],
                "usage": { "input_tokens": input, "output_tokens": 800, "total_tokens": input + 800 } })
        },
        uncounted: &["max_output_tokens", "store", "stream"],
    },
    Large {
        path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
        count_path: "/v1beta/models/gemini-2.5-pro:countTokens",
        body: |text| {
            json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }],
                "generationConfig": { "maxOutputTokens": 4_000 } })
        },
        reply: |input| {
            json!([{ "candidates": [{ "index": 0, "finishReason": "STOP",
                    "content": { "role": "model", "parts": [{ "text": "Done." }] } }],
                "usageMetadata": { "promptTokenCount": input, "candidatesTokenCount": 800,
                    "totalTokenCount": input + 800 } }])
        },
        uncounted: &[],
    },
];

fn text() -> String {
    "four ".repeat(42_400)
}

pub(crate) fn is_count(request: &Arrived) -> bool {
    request.head.contains("count_tokens")
        || request.head.contains("input_tokens")
        || request.head.contains("countTokens")
}

/// An upstream that counts a quarter of the bytes, and bills that.
async fn counting(api: &'static Large) -> Fake {
    Fake::start(move |request, _| {
        let tokens = request.body.len() as u64 / 4;
        if !is_count(request) {
            return answer("200 OK", &(api.reply)(tokens).to_string());
        }
        let counted = if api.uncounted.is_empty() {
            json!({ "totalTokens": tokens })
        } else {
            json!({ "input_tokens": tokens })
        };
        answer("200 OK", &counted.to_string())
    })
    .await
}

/// The line of a request, and the rest of it.
fn target(request: &Arrived) -> &str {
    request.head.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn a_call_that_does_not_fit_by_its_bytes_is_counted_and_sent_whole() {
    for api in &APIS {
        let upstream = counting(api).await;
        let limit = if api.path.contains("messages") { "0.50" } else { "0.20" };
        let gateway = gateway(&format!("[stop]\nmoney = \"cost >= ${limit}\""), &upstream).await;
        let got = post(&gateway, api.path, &(api.body)(&text())).await;
        assert_eq!(got.status, 200, "{}: {}", api.path, got.text());
        assert!(got.text().contains("Done."), "{}: {}", api.path, got.text());
        let seen = upstream.seen();
        assert_eq!(seen.iter().map(target).collect::<Vec<_>>(), [api.count_path, api.path]);
        let (counted, sent) = (seen[0].json(), seen[1].json());
        for key in api.uncounted {
            assert!(counted.get(key).is_none() && sent.get(key).is_some(), "{key}: {counted}");
        }
        assert!(seen[0].body.contains("four four"));
        // All the output that the client requested fits, so the cap is the client's.
        assert!(seen[1].body.contains("4000"), "{}", api.path);
        assert_eq!((reading(&gateway, "steps"), reading(&gateway, "attempts")), (1, 1));
    }
}

#[tokio::test]
async fn a_call_that_fits_is_not_counted() {
    for api in &APIS {
        let upstream = counting(api).await;
        let gateway = gateway("[stop]\nmoney = \"cost >= $5\"", &upstream).await;
        assert_eq!(post(&gateway, api.path, &(api.body)(&text())).await.status, 200);
        assert_eq!(upstream.calls(), 1, "{}", api.path);
    }
}

#[tokio::test]
async fn a_call_that_does_not_fit_by_its_count_is_refused() {
    for api in &APIS {
        let upstream = counting(api).await;
        let gateway = gateway("[stop]\nmoney = \"cost >= $0.05\"", &upstream).await;
        post(&gateway, api.path, &(api.body)(&text())).await;
        assert!(upstream.seen().iter().all(is_count), "{}", api.path);
        assert_eq!(upstream.calls(), 1, "{}", api.path);
        assert_eq!(reading(&gateway, "attempts"), 0);
    }
}

#[tokio::test]
async fn an_upstream_without_the_endpoint_is_asked_once() {
    let upstream = Fake::start(|request, _| {
        assert!(is_count(request));
        answer("404 Not Found", r#"{"error":{"message":"no such path"}}"#)
    })
    .await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $0.50\"", &upstream).await;
    let api = &APIS[0];
    post(&gateway, api.path, &(api.body)(&text())).await;
    assert_eq!(upstream.calls(), 1);
    post(&gateway, api.path, &(api.body)(&(text() + "other"))).await;
    assert_eq!(upstream.calls(), 1);
}

/// Bad answers leave the bytes to decide: nothing is sent beyond the limit.
#[tokio::test]
async fn an_answer_that_is_no_count_decides_nothing() {
    for bad in ["{}", r#"{"input_tokens":"few"}"#, r#"{"input_tokens":-1}"#, "not JSON"] {
        let upstream = Fake::start(move |request, _| {
            assert!(is_count(request), "{bad}: {}", request.head);
            answer("200 OK", bad)
        })
        .await;
        let gateway = gateway("[stop]\nmoney = \"cost >= $0.50\"", &upstream).await;
        post(&gateway, APIS[0].path, &(APIS[0].body)(&text())).await;
        assert_eq!(reading(&gateway, "attempts"), 0, "{bad}");
    }
    let silent = Fake::start(|_, _| vec![Act::Close]).await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $0.50\"", &silent).await;
    post(&gateway, APIS[0].path, &(APIS[0].body)(&text())).await;
    assert_eq!(reading(&gateway, "attempts"), 0);
}
