//! The last call of a run that a finish rule ends: the form in which it is sent, and tool calls in its answer.

use endstop_core::run::Status;
use serde_json::{Value, json};

use crate::fake::{Arrived, Fake, json};
use crate::kit::*;

const CHAT: &str = "/v1/chat/completions";
const POLICY: &str = "[finish]\nwrap = \"steps >= 1\"\n[stop]\nlimit = \"steps >= 9\"\n";

fn calls(n: usize) -> Vec<crate::fake::Act> {
    json("200 OK", &reply_call(&format!("call_{n}"), "look", &format!("{{\"n\":{n}}}")))
}

/// A server that refuses a choice of none, and answers a call without tools.
fn picky(request: &Arrived, n: usize, words: &str) -> Vec<crate::fake::Act> {
    let body = request.json();
    let error = json!({ "error": { "message": words, "type": "invalid_request_error" } });
    match (&body["tool_choice"], &body["tools"]) {
        (Value::Null, Value::Null) => json("200 OK", &reply_text("As far as I came.")),
        (Value::Null, _) => calls(n),
        _ => json("400 Bad Request", &error.to_string()),
    }
}

#[tokio::test]
async fn an_upstream_that_takes_no_choice_of_none_gets_the_wrap_up_without_tools() {
    let upstream =
        Fake::start(|request, n| picky(request, n, "Unsupported parameter: `tool_choice`")).await;
    let mut config = config(POLICY, upstream.addr);
    config.runs = endstop_gateway::Runs::Many {
        unnamed: endstop_gateway::Unnamed::Refuse,
        keys: Default::default(),
    };
    let gateway = endstop_gateway::Gateway::start(config).await.unwrap();
    for (run, sent) in [("one", 3), ("two", 5)] {
        let mut agent = Agent::new("Look.");
        agent.extra = json!({ "parallel_tool_calls": true });
        let answers = agent.run(&gateway, &format!("/r/{run}{CHAT}")).await;
        assert_eq!(answers.last().unwrap().words(), "As far as I came.", "{answers:?}");
        // That of the second run is sent like this immediately.
        assert_eq!(upstream.calls(), sent, "{run}");
        let run = gateway.run(&endstop_runtime::store::RunId::parse(run).unwrap()).unwrap();
        assert_eq!(run.status(), Status::Stopped);
        assert_eq!(run.look(|run| run.gauge("steps")), Some(2));
        assert_eq!(run.look(|run| run.gauge("errors")), Some(0));
    }
    let seen = upstream.seen();
    assert_eq!(seen[1].json()["tool_choice"], "none");
    assert!(seen[2].body.contains("last turn") && !seen[2].body.contains("parallel_tool_calls"));
}

/// Attempts that fail without a report are charged, until a further one would leave no room for the wrap-up. No request
/// that was sent is reported as not sent.
#[tokio::test]
async fn a_further_attempt_gives_way_to_the_wrap_up_that_fits_no_longer_beside_it() {
    let upstream = Fake::start(|request, _| match request.body.contains("last turn") {
        true => json("200 OK", &reply_text("As far as I came.")),
        false => json("504 Gateway Timeout", "{}"),
    })
    .await;
    let policy = "[finish]\nwrap = \"tokens >= 19k\"\n[stop]\nlimit = \"tokens >= 20k\"\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agent = Agent::new("Look.");
    agent.extra = json!({ "max_tokens": 4_000 });
    let mut answers = Vec::new();
    while answers.len() < 9 {
        answers.push(chat(&gateway, &agent.request()).await);
        if answers.last().is_some_and(|got| got.status == 200) {
            break;
        }
    }
    assert_eq!(answers.last().unwrap().words(), "As far as I came.", "{answers:?}");
    assert!(answers.len() > 2 && answers.len() == upstream.calls(), "{answers:?}");
    assert_eq!((status(&gateway), reading(&gateway, "steps")), (Status::Stopped, 2));
    assert!(reading(&gateway, "tokens") <= 20_000);
    let run = gateway.run(&id()).unwrap();
    assert!(run.refused_call().is_none(), "{:?}", run.refused_call());
    assert!(!chat(&gateway, &agent.request()).await.text().contains("Not sent"));
}

#[tokio::test]
async fn a_refusal_of_something_else_is_passed_on() {
    let upstream = Fake::start(|request, n| picky(request, n, "the messages are wrong")).await;
    let gateway = gateway(POLICY, &upstream).await;
    let answers = Agent::new("Look.").run(&gateway, CHAT).await;
    assert_eq!((answers.last().unwrap().status, upstream.calls()), (400, 2));
}

fn message(blocks: &Value, reason: &str) -> String {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": blocks, "stop_reason": reason, "usage": { "input_tokens": 9, "output_tokens": 9 } })
    .to_string()
}

#[tokio::test]
async fn tools_stay_in_a_conversation_that_needs_them() {
    let upstream = Fake::start(|request, _| {
        let refusal = json!({ "type": "error", "error": { "type": "invalid_request_error",
            "message": "tool_choice: Input should be 'auto', 'any' or 'tool'" } });
        match request.json()["tool_choice"] {
            Value::Null => {
                json("200 OK", &message(&json!([{ "type": "text", "text": "Done." }]), "end_turn"))
            }
            _ => json("400 Bad Request", &refusal.to_string()),
        }
    })
    .await;
    let policy = "[finish]\nwrap = \"steps >= 0\"\n[stop]\nlimit = \"steps >= 9\"\n";
    for has_called in [true, false] {
        let before = upstream.calls();
        let gateway = gateway(policy, &upstream).await;
        let mut messages = vec![json!({ "role": "user", "content": "Look." })];
        if has_called {
            messages.push(json!({ "role": "assistant", "content": [
                { "type": "tool_use", "id": "t", "name": "look", "input": {} }] }));
            messages.push(json!({ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t", "content": "1" }] }));
        }
        let body = json!({ "model": "claude-sonnet-4-5", "max_tokens": 99, "messages": messages,
            "tools": [{ "name": "look", "input_schema": { "type": "object" } }] });
        let got = post(&gateway, "/v1/messages", &body).await;
        assert_eq!((got.status, upstream.calls() - before), (200, 2), "{got:?}");
        let sent = upstream.seen().pop().unwrap();
        assert_eq!(sent.json()["tools"].is_array(), has_called, "{sent:?}");
        assert!(sent.body.contains("last turn"));
        let warning = got.header("x-endstop-warning").unwrap_or_default();
        assert_eq!(warning.contains("they stay"), has_called, "{warning}");
    }
}
