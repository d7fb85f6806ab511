//! What is charged for usage that an upstream tells in part, or in a way of its own.

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
        endstop::core::units::Cost::Known(money) => Some(money.picos()),
        endstop::core::units::Cost::Unpriced => None,
    };
    (tokens.total_input(), tokens.output, is_estimate, money)
}

const WORDS: &str =
    "These words are ninety bytes long, so that thirty tokens are counted for them, as there are";

#[tokio::test]
async fn output_that_is_not_told_is_counted_and_input_that_is_told_stands() {
    let counted = u64::try_from(WORDS.len()).unwrap().div_ceil(3);
    for usage in [
        json!({ "prompt_tokens": 1_000 }),
        json!({ "prompt_tokens": 1_000, "completion_tokens": 0, "total_tokens": 1_000 }),
    ] {
        let (input, output, is_estimate, money) = charged(usage, WORDS).await;
        assert_eq!((input, output, is_estimate), (1_000, counted, true));
        // $0.15 and $0.60 per million.
        assert_eq!(money, Some(1_000 * 150_000 + counted * 600_000));
    }
    let (input, output, is_estimate, _) = charged(json!({ "completion_tokens": 500 }), WORDS).await;
    assert!(input > 0 && output == 500 && is_estimate);
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
