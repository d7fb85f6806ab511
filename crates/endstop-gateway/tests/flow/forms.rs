//! Fields that a gateway adds to a request, and an upstream refuses.

use serde_json::{Value, json};

use crate::fake::{Act, Fake, chunk, json, sse_end, sse_head};
use crate::kit::*;

const MONEY: &str = "[stop]\nlimit = \"cost >= $5 or steps >= 9\"\n";

fn refusal(words: &str) -> Vec<Act> {
    json("400 Bad Request", &json!({ "error": { "message": words } }).to_string())
}

#[tokio::test]
async fn a_cap_in_a_field_that_the_model_refuses_is_sent_in_the_other_one_and_that_is_remembered() {
    let upstream = Fake::start(|request, _| match request.json()["max_tokens"] {
        Value::Null => json("200 OK", &reply_text("Done.")),
        _ => refusal(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        ),
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"tokens >= 1_000_000\"\n", &upstream).await;
    for sent in [2, 3] {
        let mut agent = Agent::new(&format!("Go {sent}."));
        agent.extra = json!({ "model": "prod-reasoner" });
        let got = chat(&gateway, &agent.request()).await;
        assert_eq!((got.status, upstream.calls()), (200, sent), "{got:?}");
    }
    assert_eq!(upstream.seen()[2].json()["max_completion_tokens"], 1_000);
    assert_eq!(reading(&gateway, "errors"), 0);
    let mut agent = Agent::new("Tuned.");
    agent.extra = json!({ "model": "ft:o4-mini-2025-04-16:org::abc" });
    chat(&gateway, &agent.request()).await;
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test]
async fn an_upstream_that_knows_no_usage_in_streams_gets_them_without() {
    let upstream = Fake::start(|request, _| {
        if request.json()["stream_options"].is_object() {
            let body = json!({ "detail": [{ "type": "extra_forbidden", "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted" }] });
            return json("422 Unprocessable Entity", &body.to_string());
        }
        let words = json!({ "id": "1", "model": "mistral-large-latest", "choices": [
            { "index": 0, "delta": { "content": "Hi" }, "finish_reason": "stop" }] });
        let told = json!({ "id": "1", "model": "mistral-large-latest", "choices": [], "usage": usage() });
        let stream = format!("data: {words}\n\ndata: {told}\n\ndata: [DONE]\n\n");
        vec![sse_head(), chunk(stream.as_bytes()), sse_end()]
    })
    .await;
    let gateway = gateway(MONEY, &upstream).await;
    for sent in [2, 3] {
        let mut agent = Agent::new(&format!("Go {sent}."));
        agent.is_stream = true;
        let got = chat(&gateway, &agent.request()).await;
        assert_eq!((got.status, upstream.calls()), (200, sent), "{got:?}");
        // The request did not have it, so it is the upstream's own.
        assert!(got.text().contains("prompt_tokens"), "{got:?}");
    }
    let (tokens, is_estimate) = gateway.run(&id()).unwrap().usage();
    assert_eq!((tokens.total(), is_estimate, reading(&gateway, "errors")), (220, false, 0));
}
