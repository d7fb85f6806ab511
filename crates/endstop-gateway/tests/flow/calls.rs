//! The admission of a call, its charge, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use endstop_core::run::Status;
use endstop_gateway::{Gateway, PauseLimit};
use endstop_runtime::account::{
    Account, AccountSet, AccountSource, AccountTables, MemoryBudgetStore, RunAccounts,
};
use endstop_runtime::cancel::Urgency;
use endstop_runtime::ledger::{Budget, Limits};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fake::{Act, Fake, chunk, json, json_with, sse_head};
use crate::flaky_store::{FlakyStore, away};
use crate::kit::*;
use crate::streams::{agent, delta};

const CHAT: &str = "/v1/chat/completions";
const STEPS: &str = "[stop]\nlimit = \"steps >= 9\"\n";
const TOKENS: &str = "[stop]\nlimit = \"tokens >= 100_000\"\n";

async fn answering() -> Fake {
    Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await
}

/// A request with any head and body.
async fn raw(gateway: &Gateway, request: &str) -> Got {
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

#[tokio::test]
async fn a_call_in_the_background_is_refused_where_it_has_to_be_counted() {
    let upstream = answering().await;
    let metered = gateway(TOKENS, &upstream).await;
    let body = json!({ "model": "gpt-4o-mini", "input": "Go.", "background": true });
    let got = post(&metered, "/v1/responses", &body).await;
    assert_eq!((got.status, upstream.calls()), (402, 0), "{got:?}");
    assert!(got.text().contains("background") && got.text().contains("--allow-unmetered"));
    let counts = metered.counts(&id()).unwrap();
    assert_eq!((counts.refused, status(&metered)), (1, Status::InProgress));
    let unmetered = gateway(STEPS, &upstream).await;
    assert_eq!(post(&unmetered, "/v1/responses", &body).await.status, 200);
}

#[tokio::test]
async fn an_answer_that_is_only_queued_is_charged_in_full() {
    let upstream = Fake::start(|_, _| {
        json(
            "200 OK",
            "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"queued\",\"output\":[]}",
        )
    })
    .await;
    let gateway = gateway(TOKENS, &upstream).await;
    let body = json!({ "model": "gpt-4o-mini", "input": "Go." });
    assert_eq!(post(&gateway, "/v1/responses", &body).await.status, 200);
    let run = gateway.run(&id()).unwrap();
    assert_eq!((run.usage().0.output, run.budget().held().is_zero()), (1_000, true));
    assert_eq!((reading(&gateway, "errors"), gateway.counts(&id()).unwrap().failed_calls), (0, 0));
}

#[tokio::test]
async fn an_answer_in_the_background_is_no_failure_and_costs_no_output_that_nothing_holds() {
    let queued = json!({ "id": "resp_1", "object": "response", "status": "queued", "output": [] });
    let upstream = Fake::start(move |_, _| json("200 OK", &queued.to_string())).await;
    let gateway = gateway(STEPS, &upstream).await;
    let body = json!({ "model": "gpt-4o-mini", "input": "Go.", "background": true });
    assert_eq!(post(&gateway, "/v1/responses", &body).await.status, 200);
    let (tokens, is_estimate) = gateway.run(&id()).unwrap().usage();
    assert!(tokens.total_input() > 0 && tokens.output == 0 && is_estimate, "{tokens:?}");
    assert_eq!((reading(&gateway, "errors"), reading(&gateway, "steps")), (0, 1));
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_keep_a_cut_call_alive() {
    let upstream = Fake::start(|_, _| {
        let word = delta(&json!({ "content": "words ".repeat(10_000) }), &json!(null));
        let mut acts = vec![sse_head()];
        acts.extend((0..1_000).map(|_| chunk(&word)));
        acts.push(Act::AwaitClose);
        acts
    })
    .await;
    let gateway = gateway(TOKENS, &upstream).await;
    let stream =
        send(gateway.addr(), "/v1/chat/completions", "", &agent().request().to_string()).await;
    until("it has arrived", || upstream.calls() == 1).await;
    // Until nothing more fits anywhere.
    let mut sent = 0;
    while sent == 0 || upstream.sent() > sent {
        sent = upstream.sent();
        all_that_is_on_its_way().await;
    }
    let run = gateway.run(&id()).unwrap();
    assert!(!run.budget().held().is_zero() && upstream.closed.load(Ordering::SeqCst) == 0);
    gateway.cancel(&id(), "enough", Urgency::Now);
    until("it is settled", || run.budget().held().is_zero()).await;
    until("the upstream is closed", || upstream.closed.load(Ordering::SeqCst) == 1).await;
    assert!(run.usage().0.output > 0);
    drop(stream);
}

#[tokio::test]
async fn a_cap_that_nobody_asked_for_is_lowered_to_what_the_model_takes() {
    let upstream = Fake::start(|arrived, _| match arrived.json()["max_completion_tokens"].as_u64() {
        Some(cap) if cap > 700 => json(
            "400 Bad Request",
            "{\"error\":{\"message\":\"too large: 1000. It supports at most 700 completion tokens\"}}",
        ),
        _ => json("200 OK", &reply_text("Done.")),
    })
    .await;
    let gateway = gateway(TOKENS, &upstream).await;
    for turn in ["One.", "Two."] {
        let got = chat(&gateway, &Agent::new(turn).request()).await;
        assert_eq!((got.status, got.words().as_str()), (200, "Done."));
    }
    let caps: Vec<_> =
        upstream.seen().iter().map(|it| it.json()["max_completion_tokens"].clone()).collect();
    assert_eq!(caps, [1_000, 700, 700]);
    let run = gateway.run(&id()).unwrap();
    assert_eq!((run.usage().0.total(), reading(&gateway, "attempts")), (220, 2));
    // The gateway does not change what the client requests.
    let mut own = Agent::new("Three.").request();
    own["max_completion_tokens"] = json!(900);
    assert_eq!(chat(&gateway, &own).await.status, 400);
    assert!(run.budget().held().is_zero());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_charged_for_what_came() {
    let upstream =
        Fake::start(|_, _| vec![json_with("", 9_000), Act::Send(vec![b' '; 3_000]), Act::Close])
            .await;
    let gateway = gateway(TOKENS, &upstream).await;
    let got = chat(&gateway, &Agent::new("Answer.").request()).await;
    assert_eq!(got.status, 502);
    assert_eq!(
        got.text().matches("the upstream closed the connection early").count(),
        1,
        "{}",
        got.text()
    );
    let (usage, is_estimate) = gateway.run(&id()).unwrap().usage();
    assert_eq!((usage.output, is_estimate), (1_000, true));
    assert_eq!(gateway.counts(&id()).unwrap().failed_calls, 1);
}

#[tokio::test]
async fn a_stream_whose_request_demands_structure_is_cut_and_not_ended_with_text() {
    let upstream = Fake::start(|_, _| {
        let word = delta(&json!({ "content": "STOP HERE" }), &json!(null));
        vec![sse_head(), chunk(&word), Act::AwaitClose]
    })
    .await;
    let policy = "[stop]\ndone = 'said(\"STOP HERE\") or steps >= 9'\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agent = agent();
    agent.extra = json!({ "tool_choice": "required" });
    let got = chat(&gateway, &agent.request()).await;
    assert!(!got.is_whole && !got.text().contains("Endstop"), "{got:?}");
}

#[tokio::test]
async fn a_dearer_model_that_answers_is_paid_for() {
    let upstream =
        Fake::start(|_, _| json("200 OK", &reply_text("Done.").replace("gpt-4o-mini", "gpt-4o")))
            .await;
    let gateway = gateway("[stop]\nlimit = \"cost >= $5\"\n", &upstream).await;
    chat(&gateway, &Agent::new("Answer.").request()).await;
    // $2.50 and $10 a million.
    assert_eq!(gateway.run(&id()).unwrap().budget().settled().cost.to_string(), "$0.00035");
}

#[tokio::test]
async fn what_a_provider_billed_is_paid() {
    let upstream = Fake::start(|_, _| {
        let mut reply: serde_json::Value = serde_json::from_str(&reply_text("Done.")).unwrap();
        reply["usage"]["cost"] = json!(0.25);
        json("200 OK", &reply.to_string())
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"cost >= $5\"\n", &upstream).await;
    chat(&gateway, &Agent::new("Answer.").request()).await;
    assert_eq!(gateway.run(&id()).unwrap().budget().settled().cost.to_string(), "$0.25");
}

#[tokio::test]
async fn the_stop_of_a_gateway_further_on_is_passed_on_and_costs_nothing() {
    let upstream = Fake::start(|_, _| {
        let body = reply_text("Endstop stopped this run.");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-endstop-reason: cost_limit\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        vec![Act::Send(head.into_bytes())]
    })
    .await;
    for (is_endstop, tokens) in [(true, 0), (false, 110)] {
        let mut config = config(TOKENS, upstream.addr);
        if is_endstop {
            config.upstreams = config.upstreams.with_endstop(behind_endstop(upstream.addr));
        }
        let gateway = Gateway::start(config).await.unwrap();
        let got = chat(&gateway, &Agent::new("Answer.").request()).await;
        // The client may be an Endstop that believes it.
        let passed = got.header("x-endstop-reason");
        assert_eq!(passed.as_deref(), is_endstop.then_some("cost_limit"));
        assert!(got.words().contains("Endstop"));
        let run = gateway.run(&id()).unwrap();
        assert_eq!((run.usage().0.total(), run.usage().1), (tokens, false), "{is_endstop}");
        assert!(run.budget().held().is_zero());
        let stream =
            send(gateway.addr(), "/v1/chat/completions", "x-endstop-reason: cost_limit\r\n", "{}");
        receive(stream.await).await;
        assert!(!upstream.seen().last().unwrap().head.to_lowercase().contains("x-endstop-reason"));
    }
}

#[tokio::test]
async fn a_method_that_costs_nothing_costs_with_a_body() {
    let upstream = answering().await;
    let gateway = gateway(TOKENS, &upstream).await;
    let head = "GET /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let got = raw(&gateway, &format!("{head}content-length: 2\r\n\r\n{{}}")).await;
    assert_eq!((got.status, upstream.calls()), (402, 0));
    let got = raw(&gateway, &format!("{head}x-http-method-override: POST\r\n\r\n")).await;
    assert_eq!(got.status, 200);
    assert!(!upstream.seen()[0].head.to_lowercase().contains("override"));
}

#[tokio::test]
async fn a_preflight_passes_a_stopped_run_and_a_head_keeps_its_length() {
    let upstream = Fake::start(|arrived, _| match arrived.head.split(' ').next() {
        Some("HEAD") => vec![json_with("", 77)],
        _ => json("200 OK", "{}"),
    })
    .await;
    let gateway = gateway(TOKENS, &upstream).await;
    let of = |method: &str| {
        format!("{method} /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    };
    let got = raw(&gateway, &of("HEAD")).await;
    assert_eq!((got.status, got.header("content-length").as_deref()), (200, Some("77")));
    gateway.cancel(&id(), "enough", Urgency::Graceful);
    assert_eq!(raw(&gateway, &of("OPTIONS")).await.status, 200);
    assert_eq!(raw(&gateway, &of("GET")).await.status, 402);
}

#[tokio::test]
async fn what_a_shared_budget_refuses_a_sub_agent_stops_the_run() {
    let upstream = answering().await;
    let mut config = config(STEPS, upstream.addr);
    let limits = Limits { tokens: Some(10), ..Limits::unlimited() };
    config.environment.budget = Some(Budget::root(limits));
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request();
    let got = post(&gateway, "/r/run-1/kid/v1/chat/completions", &body).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("token_limit"), "{got:?}");
    assert_eq!((status(&gateway), upstream.calls()), (Status::Stopped, 0));
}

#[tokio::test]
async fn a_store_of_budgets_that_is_away_refuses_calls_and_stops_no_run() {
    let upstream = answering().await;
    let mut config = config(STEPS, upstream.addr);
    let store = FlakyStore::default();
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let accounts = RunAccounts::new(Arc::new(store.clone()), set, &["me"], "test").unwrap();
    config.environment.accounts = Some(accounts);
    config.pause = PauseLimit(Duration::from_millis(400));
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request();
    store.fail(Some(away));
    let got = post(&gateway, CHAT, &body).await;
    assert_eq!((got.status, got.header("retry-after").as_deref()), (503, Some("1")), "{got:?}");
    assert!(!got.words().contains("on purpose"), "no client sees the server: {got:?}");
    assert_eq!((status(&gateway), upstream.calls()), (Status::InProgress, 0));
    // Its step had begun before the outage was known. Now no step begins.
    for text in ["One.", "Two."] {
        let got = post(&gateway, CHAT, &Agent::new(text).request()).await;
        assert_eq!((got.status, reading(&gateway, "steps")), (503, 1), "{text} {got:?}");
    }
    // A call that waits is sent once the store is back.
    let back = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        store.fail(None);
    };
    let (got, ()) = tokio::join!(post(&gateway, CHAT, &body), back);
    assert_eq!((got.status, upstream.calls(), reading(&gateway, "steps")), (200, 1, 2), "{got:?}");
}

#[tokio::test]
async fn a_call_whose_gateway_stood_still_since_its_reservation_is_not_sent() {
    let upstream = answering().await;
    let mut config = config(STEPS, upstream.addr);
    let store = FlakyStore::default();
    let set = AccountSet::new([Account::new("me", &["1M tokens"]).unwrap()]).unwrap();
    let accounts = RunAccounts::new(Arc::new(store.clone()), set, &["me"], "test").unwrap();
    config.environment.accounts = Some(accounts.clone());
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request();
    // The store has reserved, and then the gateway has heard nothing of it for too long: it may have missed a kill.
    store.lapse(Some(away));
    let got = post(&gateway, CHAT, &body).await;
    assert_eq!((got.status, got.header("retry-after").as_deref()), (503, Some("1")), "{got:?}");
    assert!(!got.words().contains("on purpose"), "no client sees the server: {got:?}");
    assert_eq!((status(&gateway), upstream.calls()), (Status::InProgress, 0));
    let limit = accounts.read().unwrap()[0].limits[0].clone();
    assert_eq!((limit.settled, limit.held), (0, 0), "it has cost nothing");
    store.lapse(None);
    let got = post(&gateway, CHAT, &body).await;
    assert_eq!((got.status, upstream.calls()), (200, 1), "{got:?}");
}

fn limited(limit: &str) -> AccountSet {
    AccountSet::new([Account::new("me", &[limit]).unwrap()]).unwrap()
}

/// Definitions without room, from the third look on.
#[derive(Debug, Default)]
struct FullAtThird(AtomicU32);

impl AccountSource for FullAtThird {
    fn look(&self) -> Option<AccountTables> {
        let names = vec!["me".to_owned()];
        let full = AccountTables { set: limited("0 steps"), names, ..AccountTables::default() };
        (self.0.fetch_add(1, Ordering::SeqCst) == 2).then_some(full)
    }
}

#[tokio::test]
async fn a_call_is_admitted_under_one_set_of_definitions() {
    let upstream = answering().await;
    let mut config = config(STEPS, upstream.addr);
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, limited("9 steps"), &["me"], "test").unwrap();
    // A call looks when it arrives, and when it is admitted.
    config.environment.accounts = Some(accounts.with_source(Arc::new(FullAtThird::default())));
    let gateway = Gateway::start(config).await.unwrap();
    let body = Agent::new("Answer.").request();
    let got = post(&gateway, CHAT, &body).await;
    assert_eq!((got.status, upstream.calls()), (200, 1), "{got:?}");
    let got = post(&gateway, CHAT, &Agent::new("Again.").request()).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("steps_limit"), "{got:?}");
    assert_eq!(upstream.calls(), 1, "the next call is under the new ones");
}
