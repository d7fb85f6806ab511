//! Calls that lose their clients before their responses are complete.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::fake::{Act, Fake, chunk, json_with, sse_end, sse_head};
use crate::kit::{
    Agent, all_that_is_on_its_way, chat, gateway, id, reply_call, reply_text, send, until,
};
use crate::streams::{agent, words};

const TOKENS: &str = "[stop]\nlimit = \"tokens >= 100_000\"\n";

fn with(accounting: &str) -> String {
    format!("{TOKENS}[accounting]\n{accounting}\n")
}

/// Returns its first response once `gate` opens, and the others at once.
async fn slow_upstream(gate: &Arc<Notify>, status: &'static str, body: &str) -> Fake {
    let (gate, body) = (Arc::clone(gate), body.to_owned());
    Fake::start(move |_, before| {
        let response = crate::fake::json(status, &body);
        match before {
            0 => [vec![Act::Gate(Arc::clone(&gate))], response].concat(),
            _ => response,
        }
    })
    .await
}

async fn sent(gateway: &endstop_gateway::Gateway, upstream: &Fake, body: &Value) -> TcpStream {
    let before = upstream.calls();
    let stream = send(gateway.addr(), "/v1/chat/completions", "", &body.to_string()).await;
    until("it has arrived", || upstream.calls() == before + 1).await;
    stream
}

#[tokio::test]
async fn a_whole_response_whose_client_left_is_charged_what_it_reports() {
    let gate = Arc::new(Notify::new());
    let upstream = slow_upstream(&gate, "200 OK", &reply_text("Done.")).await;
    let gateway = gateway(TOKENS, &upstream).await;
    let stream = sent(&gateway, &upstream, &Agent::new("Answer.").request()).await;
    drop(stream);
    all_that_is_on_its_way().await;
    let run = gateway.run(&id()).unwrap();
    assert!(!run.budget().held().is_zero(), "it is not settled before its response arrives");
    assert_eq!(upstream.closed.load(Ordering::SeqCst), 0, "its connection stays open");
    gate.notify_one();
    until("it is settled", || run.budget().held().is_zero()).await;
    let (usage, is_estimate) = run.usage();
    assert_eq!((usage.input, usage.output, is_estimate), (100, 10, false));
    let counts = gateway.counts(&id()).unwrap();
    assert_eq!((counts.client_disconnects, counts.failed_calls), (1, 1));
    assert_eq!(run.look(|run| run.gauge("errors")), Some(1), "its conversation has no reply");
}

#[tokio::test]
async fn a_call_beside_one_whose_client_left_does_not_wait_for_it() {
    let gate = Arc::new(Notify::new());
    let upstream = slow_upstream(&gate, "200 OK", &reply_text("Done.")).await;
    let gateway = gateway(TOKENS, &upstream).await;
    let body = Agent::new("Answer.").request();
    drop(sent(&gateway, &upstream, &body).await);
    all_that_is_on_its_way().await;
    // The client tries again.
    assert_eq!(chat(&gateway, &body).await.words(), "Done.");
    let run = gateway.run(&id()).unwrap();
    assert_eq!(run.usage().0.total(), 110);
    gate.notify_one();
    until("both are settled", || run.budget().held().is_zero()).await;
    assert_eq!((run.usage().0.total(), run.usage().1), (220, false));
}

#[tokio::test]
async fn a_conversation_whose_retry_overtook_it_keeps_counting_its_tools() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let upstream = Fake::start(move |_, before| {
        let call =
            |n: usize| crate::fake::json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"));
        match before {
            0 => [vec![Act::Gate(Arc::clone(&held))], call(0)].concat(),
            n => call(n),
        }
    })
    .await;
    let policy = "[stop]\nlimit = 'tokens >= 100_000'\nloops = 'repeats >= 3'\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agent = Agent::new("Answer.");
    drop(sent(&gateway, &upstream, &agent.request()).await);
    all_that_is_on_its_way().await;
    // The client tries again and gets a tool call; only then does the first response arrive.
    let got = chat(&gateway, &agent.request()).await;
    assert!(agent.take(&got, "the same"));
    gate.notify_one();
    let run = gateway.run(&id()).unwrap();
    until("both are settled", || run.budget().held().is_zero()).await;
    let mut last = got;
    for _ in 0..6 {
        last = chat(&gateway, &agent.request()).await;
        if !agent.take(&last, "the same") {
            break;
        }
    }
    assert_eq!(last.header("x-endstop-reason").as_deref(), Some("no_progress"), "{last:?}");
    // The one without its client, and four whose equal results are three repeats.
    assert_eq!(upstream.calls(), 5);
}

#[tokio::test]
async fn an_error_that_comes_after_its_client_left_is_free() {
    let gate = Arc::new(Notify::new());
    let error = json!({ "error": { "message": "busy", "type": "server_error", "code": null } });
    let upstream = slow_upstream(&gate, "503 Service Unavailable", &error.to_string()).await;
    let gateway = gateway(&with("on_server_error = \"free\""), &upstream).await;
    drop(sent(&gateway, &upstream, &Agent::new("Answer.").request()).await);
    all_that_is_on_its_way().await;
    gate.notify_one();
    let run = gateway.run(&id()).unwrap();
    until("it is settled", || run.budget().held().is_zero()).await;
    assert_eq!(run.usage().0.total(), 0);
    assert_eq!(gateway.counts(&id()).unwrap().client_disconnects, 1);
}

#[tokio::test]
async fn with_close_a_whole_response_is_closed_and_charged_the_most_that_is_possible() {
    let upstream = Fake::start(|_, _| {
        vec![json_with("", 9_000), Act::Send(vec![b' '; 3_000]), Act::AwaitClose]
    })
    .await;
    let gateway = gateway(&with("on_client_gone = \"close\""), &upstream).await;
    drop(sent(&gateway, &upstream, &Agent::new("Answer.").request()).await);
    let run = gateway.run(&id()).unwrap();
    until("it is settled", || run.budget().held().is_zero()).await;
    assert_eq!((run.usage().0.output, run.usage().1), (1_000, true));
    until("it is closed", || upstream.closed.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn with_drain_a_stream_whose_client_left_is_read_to_its_end() {
    let gate = Arc::new(Notify::new());
    let (held, events) = (Arc::clone(&gate), words(&["One", " two", " three"]));
    let upstream = Fake::start(move |_, _| {
        let mut acts = vec![sse_head()];
        acts.extend(events.iter().take(2).map(|event| chunk(event)));
        acts.push(Act::Gate(Arc::clone(&held)));
        acts.extend(events.iter().skip(2).map(|event| chunk(event)));
        acts.push(sse_end());
        acts
    })
    .await;
    let gateway = gateway(&with("on_client_gone = \"drain\""), &upstream).await;
    let mut stream = sent(&gateway, &upstream, &agent().request()).await;
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut [0u8; 1]).await.unwrap();
    drop(stream);
    all_that_is_on_its_way().await;
    let run = gateway.run(&id()).unwrap();
    assert!(!run.budget().held().is_zero());
    gate.notify_one();
    until("it is settled", || run.budget().held().is_zero()).await;
    assert_eq!((run.usage().0.total(), run.usage().1), (110, false));
    assert_eq!(gateway.counts(&id()).unwrap().client_disconnects, 1);
}

#[tokio::test]
async fn a_stream_that_is_closed_before_its_usage_report_is_charged_what_it_reports() {
    let gate = Arc::new(Notify::new());
    let (held, events) = (Arc::clone(&gate), words(&["One", " two"]));
    let upstream = Fake::start(move |_, _| {
        // Its output is finished, and its usage comes later.
        let (output, usage) = events.split_at(4);
        let mut acts = vec![sse_head()];
        acts.extend(output.iter().map(|event| chunk(event)));
        acts.push(Act::Gate(Arc::clone(&held)));
        acts.extend(usage.iter().map(|event| chunk(event)));
        acts.push(sse_end());
        acts
    })
    .await;
    let gateway = gateway(TOKENS, &upstream).await;
    let mut stream = sent(&gateway, &upstream, &agent().request()).await;
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("\"stop\"") {
        let mut part = [0u8; 256];
        let count = tokio::io::AsyncReadExt::read(&mut stream, &mut part).await.unwrap();
        read.extend_from_slice(&part[..count]);
    }
    drop(stream);
    all_that_is_on_its_way().await;
    let run = gateway.run(&id()).unwrap();
    assert!(!run.budget().held().is_zero());
    gate.notify_one();
    until("it is settled", || run.budget().held().is_zero()).await;
    assert_eq!((run.usage().0.total(), run.usage().1), (110, false));
    assert_eq!(run.look(|run| run.gauge("errors")), Some(0), "its client has all of its output");
}

#[tokio::test]
async fn an_abort_cuts_a_call_whose_client_left() {
    let gate = Arc::new(Notify::new());
    let upstream = slow_upstream(&gate, "200 OK", &reply_text("Done.")).await;
    let gateway = gateway(TOKENS, &upstream).await;
    drop(sent(&gateway, &upstream, &Agent::new("Answer.").request()).await);
    all_that_is_on_its_way().await;
    gateway.cancel(&id(), "enough", endstop_runtime::cancel::Urgency::Now);
    let run = gateway.run(&id()).unwrap();
    until("it is settled", || run.budget().held().is_zero()).await;
    assert_eq!((run.usage().0.output, run.usage().1), (1_000, true));
}

#[tokio::test]
async fn a_gateway_that_shuts_down_waits_for_a_call_whose_client_left() {
    let gate = Arc::new(Notify::new());
    let upstream = slow_upstream(&gate, "200 OK", &reply_text("Done.")).await;
    let gateway = gateway(TOKENS, &upstream).await;
    drop(sent(&gateway, &upstream, &Agent::new("Answer.").request()).await);
    all_that_is_on_its_way().await;
    let run = gateway.run(&id()).unwrap();
    let opening = async { gate.notify_one() };
    futures_util::future::join(gateway.shut_down(), opening).await;
    assert_eq!((run.usage().0.total(), run.usage().1), (110, false));
}
