//! Refusals by cost and token limits: their parts, and a suggestion that admits the same request
//! (`docs/semantics.md`, "Reserve, settle, release").

use endstop_gateway::Gateway;
use endstop_runtime::RunEnvironment;
use endstop_runtime::ledger::{Budget, Limits};
use serde_json::{Value, json};

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const PATH: &str = "/v1/chat/completions";

fn request() -> Value {
    json!({ "model": "gpt-4o", "max_completion_tokens": 4_000,
        "messages": [{ "role": "user", "content": "four ".repeat(600) }] })
}

/// An upstream that bills 1,000 tokens of input and 100 of output.
async fn upstream() -> Fake {
    Fake::start(|_, _| {
        let reply = json!({ "id": "1", "object": "chat.completion", "model": "gpt-4o",
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": "Done." } }],
            "usage": { "prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100 } });
        answer("200 OK", &reply.to_string())
    })
    .await
}

/// The answers to so many equal requests under a policy.
async fn texts(policy: &str, requests: usize) -> Vec<String> {
    let upstream = upstream().await;
    let gateway = gateway(policy, &upstream).await;
    let mut texts = Vec::new();
    for _ in 0..requests {
        texts.push(post(&gateway, PATH, &request()).await.text());
    }
    texts
}

/// The suggested limit of a refusal.
fn suggested(text: &str) -> String {
    let (_, after) = text.split_once("a limit of ").unwrap_or_else(|| panic!("{text}"));
    let amount = after.split(" would admit it").next().unwrap();
    amount.trim_start_matches('$').trim_end_matches(" tokens").replace(',', "")
}

#[tokio::test]
async fn the_suggested_limit_admits_the_request() {
    let finish = "[stop]\nmoney = \"cost >= $LIMIT\"\n[finish]\nsteps = \"steps >= 9\"";
    let cases = [
        ("[stop]\nmoney = \"cost >= $LIMIT\"", "0.002", 1),
        ("[stop]\nmoney = \"cost > $LIMIT\"", "0.002", 1),
        ("[stop]\nmoney = \"cost >= $LIMIT\"", "0.009", 3),
        ("[stop]\nmoney = \"cost >= $LIMIT or steps >= 40\"", "0.002", 1),
        (finish, "0.002", 1),
        ("[stop]\ntokens = \"tokens >= LIMIT\"", "1000", 1),
        ("[stop]\ntokens = \"tokens > LIMIT\"", "4000", 4),
    ];
    for (policy, limit, requests) in cases {
        let with = |limit: &str| policy.replace("LIMIT", limit);
        let refused = texts(&with(limit), requests).await.pop().unwrap();
        assert!(refused.contains("Not sent: this request could "), "{policy}: {refused}");
        let enough = suggested(&refused);
        let answers = texts(&with(&enough), requests).await;
        assert!(
            answers.iter().all(|text| text.contains("Done.")),
            "{policy} {enough}: {answers:?}"
        );
    }
}

/// The parts are the reserved amounts, whatever they come from.
#[tokio::test]
async fn a_refusal_under_given_rates_has_the_costs_of_those_rates() {
    let upstream = upstream().await;
    let rates =
        "on_unpriced = { input = \"$3/M\", output = \"$15/M\" }\n[stop]\nm = \"cost >= $0.002\"";
    let gateway = gateway(rates, &upstream).await;
    let mut request = request();
    request["model"] = json!("no-such-model");
    let got = post(&gateway, PATH, &request).await.text();
    let (_, parts) =
        got.split_once("this request could cost up to $").unwrap_or_else(|| panic!("{got}"));
    let (all, parts) = parts.split_once(" (input up to ").unwrap();
    let (input, parts) = parts.split_once(", output up to 500 ").unwrap();
    let input = input.rsplit_once(" $").unwrap().1;
    let dollars = |text: &str| text.parse::<f64>().unwrap();
    assert!(parts.starts_with("$0.0075); $0.002 of $0.002 is left; "), "{got}");
    assert!(dollars(input) > 0.001 && dollars(all) > dollars(input) + 0.007, "{got}");
    assert_eq!(upstream.calls(), 0);
}

/// A new run is refused as well.
#[tokio::test]
async fn a_stop_by_the_total_of_all_runs_says_to_raise_it() {
    let upstream = upstream().await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"", upstream.addr);
    let cost = Some("0.002".parse().unwrap());
    let total = Budget::root(Limits { cost, ..Limits::unlimited() });
    config.environment = RunEnvironment { budget: Some(total), ..RunEnvironment::default() };
    let gateway = Gateway::start(config).await.unwrap();
    let got = post(&gateway, PATH, &request()).await.text();
    assert!(
        got.contains("all runs have used $0.00 of $0.002, and this call could cost $0.0"),
        "{got}"
    );
    assert!(got.contains("To continue, raise the total of all runs."), "{got}");
    assert!(!got.contains("start a new run"), "{got}");
}

#[tokio::test]
async fn a_refusal_says_its_parts() {
    let refused = texts("[stop]\nmoney = \"cost >= $0.002\"", 1).await.pop().unwrap();
    let text = "Not sent: this request could cost up to $0.013 (input up to 3,0";
    assert!(refused.contains(text), "{refused}");
    assert!(
        refused.contains(" $0.0077, output up to 500 $0.005); $0.002 of $0.002 is left; "),
        "{refused}"
    );
}

/// With the name of the model, which the rule does not know.
#[tokio::test]
async fn a_refusal_for_want_of_a_price_names_the_model() {
    let upstream = upstream().await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $5\"", &upstream).await;
    let mut request = request();
    request["model"] = json!("no-such-model");
    let got = post(&gateway, PATH, &request).await.text();
    assert!(got.contains("Not sent: no price for model `no-such-model`"), "{got}");
    assert!(got.contains("To continue, give the model a price (`--unpriced 3,15`"), "{got}");
    assert_eq!(upstream.calls(), 0);
}

/// Calls whose upstream answered 504 are charged their worst case, which no provider confirmed.
#[tokio::test]
async fn a_limit_that_is_reached_by_unconfirmed_amounts_says_so() {
    let upstream = Fake::start(|_, _| answer("504 Gateway Timeout", "{}")).await;
    let gateway = gateway("[stop]\nmoney = \"cost >= $0.05\"", &upstream).await;
    assert_eq!(post(&gateway, PATH, &request()).await.status, 504);
    let got = post(&gateway, PATH, &request()).await.text();
    assert!(got.contains("Of what counts, $0.048"), "{got}");
    assert!(got.contains(" unconfirmed: 1 call answered 504."), "{got}");
}
