//! Upstreams that refuse a request with a body that does not arrive.

use std::sync::Arc;
use std::time::Duration;

use endstop_gateway::Gateway;
use endstop_runtime::cancel::Urgency;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Notify;

use crate::fake::{Act, Fake};
use crate::kit::*;

const POLICY: &str = "[stop]\nlimit = \"tokens >= 100_000\"\n";
const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "{\"error\":{\"message\":\"slow down\",\"type\":\"rate_limit\"}}";

/// Refuses each request, and sends the text of that once the gate opens.
async fn stalling(gate: &Arc<Notify>) -> Fake {
    let gate = Arc::clone(gate);
    Fake::start(move |_, _| {
        let head = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            TEXT.len()
        );
        let text = Act::Send(TEXT.as_bytes().to_vec());
        vec![Act::Send(head.into_bytes()), Act::Gate(Arc::clone(&gate)), text]
    })
    .await
}

/// Waits until the only call has failed, and checks that it has cost nothing.
async fn costs_nothing(gateway: &Gateway) {
    until("it is settled", || gateway.counts(&id()).unwrap().failed_calls == 1).await;
    let run = gateway.run(&id()).unwrap();
    assert!(run.budget().held().is_zero());
    assert_eq!((run.usage().0.total(), reading(gateway, "cost")), (0, 0));
}

#[tokio::test]
async fn a_refused_request_whose_text_stalls_costs_nothing_if_its_run_is_killed() {
    let upstream = stalling(&Arc::default()).await;
    let gateway = gateway(POLICY, &upstream).await;
    let body = Agent::new("Answer.").request().to_string();
    let client = send(gateway.addr(), CHAT, "", &body).await;
    until("the head is sent", || upstream.sent() == 1).await;
    all_that_is_on_its_way().await;
    gateway.cancel(&id(), "enough", Urgency::Now);
    costs_nothing(&gateway).await;
    drop(client);
}

#[tokio::test]
async fn a_refused_request_whose_text_stalls_costs_nothing_if_its_client_leaves() {
    let upstream = stalling(&Arc::default()).await;
    let gateway = gateway(POLICY, &upstream).await;
    let agent = Agent { is_stream: true, ..Agent::new("Answer.") };
    let client = send(gateway.addr(), CHAT, "", &agent.request().to_string()).await;
    until("the head is sent", || upstream.sent() == 1).await;
    all_that_is_on_its_way().await;
    drop(client);
    costs_nothing(&gateway).await;
}

#[tokio::test]
async fn a_refusal_is_passed_on_before_its_text_arrives() {
    let gate = Arc::new(Notify::new());
    let upstream = stalling(&gate).await;
    let gateway = gateway(POLICY, &upstream).await;
    let body = Agent::new("Answer.").request().to_string();
    let mut client = send(gateway.addr(), CHAT, "", &body).await;
    // The upstream sends nothing more before the client has the head.
    let mut all = Vec::new();
    let head = async {
        while !all.ends_with(b"\r\n\r\n") {
            all.push(client.read_u8().await.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(100), head).await.expect("no head in time");
    costs_nothing(&gateway).await;
    gate.notify_one();
    client.read_to_end(&mut all).await.unwrap();
    let got = parse(&all, true);
    assert_eq!((got.status, got.text().as_str()), (429, TEXT), "{got:?}");
}
