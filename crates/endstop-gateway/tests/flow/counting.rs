//! Small budgets: a call that does not fit by its bytes is counted by its upstream before it is refused
//! (`docs/semantics.md`, "Input that was not counted yet").

use endstop_gateway::Gateway;
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

/// A count cannot help a call that does not fit even without its new input, or whose bill it does not tell.
#[tokio::test]
async fn a_call_that_no_count_can_help_is_not_counted() {
    let api = &APIS[0];
    let with = |key: &str, value: Value| {
        let mut body = (api.body)(&text());
        body[key] = value;
        body
    };
    let search = json!([{ "type": "web_search_20250305", "name": "web_search", "max_uses": 3 }]);
    let cases = [
        ("cost >= $0.0000001", with("max_tokens", json!(4_000))),
        ("cost >= $0.50", with("tools", search)),
        ("cost >= $0.50", with("model", json!("claude-of-no-price"))),
    ];
    for (limit, body) in cases {
        let upstream = counting(api).await;
        let gateway = gateway(&format!("[stop]\nmoney = \"{limit}\""), &upstream).await;
        post(&gateway, api.path, &body).await;
        assert_eq!(upstream.calls(), 0, "{limit}: {}", body["model"]);
    }
}

/// An upstream that counts and then reports no usage: the count is in tokens, and estimated as such.
#[tokio::test]
async fn a_counted_call_without_usage_is_charged_for_its_count() {
    let upstream = Fake::start(|request, _| {
        if is_count(request) {
            return answer("200 OK", r#"{"input_tokens":53000}"#);
        }
        let mut reply = (APIS[0].reply)(0);
        reply.as_object_mut().unwrap().remove("usage");
        answer("200 OK", &reply.to_string())
    })
    .await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $0.50\"", &upstream).await;
    assert_eq!(post(&gateway, APIS[0].path, &(APIS[0].body)(&text())).await.status, 200);
    assert!(reading(&gateway, "input_tokens") >= 53_000, "{}", reading(&gateway, "input_tokens"));
}

/// The response and the model's name in the path decide, not a name in the body.
#[tokio::test]
async fn the_model_of_the_path_is_the_one_that_counts() {
    let api = &APIS[2];
    let upstream = counting(api).await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $0.20\"", &upstream).await;
    let mut body = (api.body)(&text());
    body["model"] = json!("models/gemini-of-another-tokenizer");
    post(&gateway, api.path, &body).await;
    let counted = upstream.seen()[0].json();
    assert_eq!(counted["generateContentRequest"]["model"], "models/gemini-2.5-pro");
}

/// By model: an unknown model is answered like an unknown endpoint, and says nothing about others.
#[tokio::test]
async fn an_upstream_that_cannot_count_a_model_is_asked_once() {
    let api = &APIS[0];
    let upstream = Fake::start(|request, _| {
        if is_count(request) {
            return answer("404 Not Found", r#"{"error":{"message":"not found"}}"#);
        }
        answer("200 OK", &(APIS[0].reply)(1_000).to_string())
    })
    .await;
    // By its bytes the input is $1.33 at the rate of cache writes, so the output cap is lowered.
    let gateway = gateway("[stop]\nmoney = \"cost >= $1.40\"", &upstream).await;
    let counts = || upstream.seen().iter().filter(|request| is_count(request)).count();
    for words in ["", "other"] {
        let mut body = (api.body)(&(text() + words));
        body["max_tokens"] = json!(8_000);
        assert_eq!(post(&gateway, api.path, &body).await.status, 200);
        assert_eq!(counts(), 1);
    }
    let mut other = (api.body)(&text());
    (other["model"], other["max_tokens"]) = (json!("claude-sonnet-4-5"), json!(40_000));
    post(&gateway, api.path, &other).await;
    assert_eq!(counts(), 2);
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

/// A request for chat completions whose bytes are four times its tokens, and an upstream that bills a token for four bytes.
fn large_chat(model: &str) -> Value {
    json!({ "model": model, "max_completion_tokens": 4_000,
        "messages": [{ "role": "user", "content": text() }] })
}

async fn chat_upstream() -> Fake {
    Fake::start(|request, _| {
        let input = request.body.len() as u64 / 4;
        let reply = json!({ "id": "1", "object": "chat.completion", "model": "gpt-4o",
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": "Done." } }],
            "usage": { "prompt_tokens": input, "completion_tokens": 800,
                "total_tokens": input + 800 } });
        answer("200 OK", &reply.to_string())
    })
    .await
}

/// Chat completions have no endpoint that counts, so a tokenizer counts here.
#[tokio::test]
async fn chat_completions_of_openai_are_counted_here() {
    let cases =
        [("gpt-4o", "0.50"), ("gpt-4.1", "0.40"), ("gpt-5", "0.20"), ("gpt-4-turbo", "1.00")];
    for (model, limit) in cases {
        let upstream = chat_upstream().await;
        let mut config = config(&format!("[stop]\nmoney = \"cost >= ${limit}\""), upstream.addr);
        config.upstreams.is_scripted = true;
        let gateway = Gateway::start(config).await.unwrap();
        let got = post(&gateway, "/v1/chat/completions", &large_chat(model)).await.text();
        assert!(got.contains("Done."), "{model}: {got}");
        assert_eq!(upstream.seen()[0].json()["max_completion_tokens"], 4_000, "{model}");
        let run = gateway.run(&id()).unwrap();
        assert!(run.budget().overshoot().is_zero(), "{model}");
    }
}

/// Other servers may have other tokenizers for the same names, images are no text, and unknown models no tokenizer.
#[tokio::test]
async fn what_no_tokenizer_bounds_is_not_counted_here() {
    let mut with_image = large_chat("gpt-4o");
    let image =
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } });
    with_image["messages"][0]["content"] = json!([{ "type": "text", "text": text() }, image]);
    let cases = [(false, large_chat("gpt-4o")), (true, with_image)];
    for (is_scripted, request) in cases {
        let upstream = chat_upstream().await;
        let mut config = config("[stop]\nmoney = \"cost >= $0.50\"", upstream.addr);
        config.upstreams.is_scripted = is_scripted;
        let gateway = Gateway::start(config).await.unwrap();
        post(&gateway, "/v1/chat/completions", &request).await;
        assert_eq!(upstream.calls(), 0, "{is_scripted}: {}", request["model"]);
    }
}
