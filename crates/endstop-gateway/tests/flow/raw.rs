//! Requests that are forwarded unparsed, and their ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use endstop_gateway::Gateway;
use endstop_runtime::cancel::Urgency;
use futures_util::future::join;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fake::{Act, Fake, chunk, json, sse_head};
use crate::kit::*;

const STEPS: &str = "[stop]\nlimit = \"steps >= 9\"\n";
const SOON: &str = "[stop]\nlimit = \"elapsed >= 2s\"\n";
/// It is not read, and costs nothing that is limited here.
const SPEECH: &str = "/v1/audio/speech";

/// An upstream whose answer begins and never ends.
async fn endless(status: &'static str) -> Fake {
    Fake::start(move |_, _| {
        let head = format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n");
        vec![Act::Send(head.into_bytes()), chunk(b"begun"), Act::AwaitClose]
    })
    .await
}

/// Reads until the body has begun.
async fn begun(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    while !all.windows(5).any(|window| window == b"begun") {
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_buf(&mut all)).await;
        assert!(read.unwrap().unwrap() > 0, "{}", String::from_utf8_lossy(&all));
    }
    String::from_utf8(all).unwrap()
}

/// All that comes after, up to the end of the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut all)).await;
    // Closed, or reset.
    let _ = read.expect("the connection ends");
    String::from_utf8(all).unwrap()
}

async fn is_closed(upstream: &Fake) {
    until("the upstream is closed", || upstream.closed.load(Ordering::SeqCst) == 1).await;
}

fn kill(gateway: &Gateway) {
    assert!(gateway.cancel(&id(), "enough", Urgency::Now));
}

#[tokio::test]
async fn a_kill_cuts_an_answer_that_passes_unread() {
    let body = Agent::new("Fail.").request().to_string();
    for (path, status) in [(SPEECH, "200 OK"), ("/v1/chat/completions", "500 Broken")] {
        let upstream = endless(status).await;
        let gateway = gateway(STEPS, &upstream).await;
        let mut stream = send(gateway.addr(), path, "", &body).await;
        let head = begun(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {}", &status[..3])), "{head}");
        kill(&gateway);
        let rest = rest(stream).await;
        assert!(!rest.contains("0\r\n\r\n"), "{path}: it does not end properly: {rest:?}");
        is_closed(&upstream).await;
    }
}

#[tokio::test]
async fn a_limit_in_time_cuts_an_answer_that_passes_unread() {
    let upstream = endless("200 OK").await;
    let gateway = gateway(SOON, &upstream).await;
    let mut stream = send(gateway.addr(), SPEECH, "", "{}").await;
    begun(&mut stream).await;
    assert!(!rest(stream).await.contains("0\r\n\r\n"));
    is_closed(&upstream).await;
    let got = post(&gateway, SPEECH, &serde_json::json!({})).await;
    assert_eq!((got.status, got.header("x-endstop-reason").as_deref()), (402, Some("time_limit")));
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_kill_closes_the_upstream_of_a_client_that_does_not_read() {
    let upstream = Fake::start(|_, _| {
        let mut acts = vec![sse_head()];
        acts.extend((0..64).map(|_| chunk(&[b'x'; 1 << 20])));
        acts.push(Act::AwaitClose);
        acts
    })
    .await;
    let gateway = gateway(STEPS, &upstream).await;
    let stream = send(gateway.addr(), SPEECH, "", "{}").await;
    until("it has arrived", || upstream.calls() == 1).await;
    all_that_is_on_its_way().await;
    kill(&gateway);
    is_closed(&upstream).await;
    drop(stream);
}

#[tokio::test]
async fn a_kill_or_a_limit_in_time_ends_the_wait_for_an_answer_that_passes_unread() {
    for policy in [STEPS, SOON] {
        let upstream = Fake::start(|_, _| vec![Act::AwaitClose]).await;
        let gateway = gateway(policy, &upstream).await;
        let killing = async {
            until("it has arrived", || upstream.calls() == 1).await;
            if policy == STEPS {
                kill(&gateway);
            }
        };
        let body = serde_json::json!({});
        let (got, ()) = join(post(&gateway, SPEECH, &body), killing).await;
        let reason = if policy == STEPS { "user_requested" } else { "time_limit" };
        assert_eq!((got.status, got.header("x-endstop-reason").as_deref()), (402, Some(reason)));
        is_closed(&upstream).await;
    }
}

#[tokio::test]
async fn a_kill_or_a_limit_in_time_ends_a_request_that_is_still_coming() {
    for policy in [STEPS, SOON] {
        let upstream = Fake::start(|_, _| json("200 OK", "{}")).await;
        let gateway = gateway(policy, &upstream).await;
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        let head =
            format!("POST {SPEECH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(b"half").await.unwrap();
        all_that_is_on_its_way().await;
        if policy == STEPS {
            kill(&gateway);
        }
        let mut answer = [0; 12];
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut answer));
        read.await.expect("an answer in time").unwrap();
        assert_eq!(&answer, b"HTTP/1.1 402");
        assert_eq!(upstream.calls(), 0);
    }
}

#[tokio::test]
async fn a_run_that_stops_in_order_lets_what_passes_unread_end() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let held = std::sync::Arc::clone(&gate);
    let upstream = Fake::start(move |_, _| {
        let gate = Act::Gate(std::sync::Arc::clone(&held));
        vec![sse_head(), chunk(b"begun"), gate, chunk(b"ended"), crate::fake::sse_end()]
    })
    .await;
    let gateway = gateway(STEPS, &upstream).await;
    let mut stream = send(gateway.addr(), SPEECH, "", "{}").await;
    begun(&mut stream).await;
    assert!(gateway.cancel(&id(), "enough", Urgency::Graceful));
    gate.notify_one();
    assert!(rest(stream).await.ends_with("ended\r\n0\r\n\r\n"));
}
