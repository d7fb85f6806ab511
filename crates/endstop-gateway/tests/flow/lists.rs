//! Gemini's streams without `alt=sse`: a JSON list that grows.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Notify;

use crate::fake::{Act, Fake};
use crate::kit::*;

const PATH: &str = "/v1beta/models/gemini-2.5-flash:streamGenerateContent";

fn piece(text: &str, finish: Option<&str>) -> String {
    let mut candidate =
        json!({ "index": 0, "content": { "role": "model", "parts": [{ "text": text }] } });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    let usage =
        json!({ "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 });
    let piece = json!({ "candidates": [candidate], "modelVersion": "gemini-2.5-flash",
        "responseId": "r1", "usageMetadata": usage });
    serde_json::to_string_pretty(&piece).unwrap()
}

fn request() -> String {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": "Go." }] }] }).to_string()
}

/// A list of these pieces, the first one alone.
fn list(first: &str, last: &str) -> [String; 2] {
    [format!("[{first}"), format!("\r\n,\r\n{last}\r\n]\n")]
}

fn head(length: usize) -> Act {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=UTF-8\r\ncontent-length: {length}\r\n\r\n"
    );
    Act::Send(head.into_bytes())
}

#[tokio::test]
async fn a_piece_of_a_list_is_passed_on_when_it_comes_and_all_of_it_as_it_came() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let [first, last] = list(&piece("One", None), &piece(" two", Some("STOP")));
    let whole = format!("{first}{last}");
    let length = whole.len();
    let upstream = Fake::start(move |_, _| {
        let (first, last) = (first.clone().into_bytes(), last.clone().into_bytes());
        vec![head(length), Act::Send(first), Act::Gate(Arc::clone(&held)), Act::Send(last)]
    })
    .await;
    let gateway = gateway("[stop]\nlimit = \"cost >= $5\"\n", &upstream).await;
    let mut stream = send(gateway.addr(), PATH, "", &request()).await;
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("One") {
        let more =
            tokio::time::timeout(std::time::Duration::from_secs(20), stream.read_buf(&mut got));
        assert!(more.await.expect("nothing came").unwrap() > 0);
    }
    assert!(!String::from_utf8_lossy(&got).contains("two"));
    gate.notify_one();
    stream.read_to_end(&mut got).await.unwrap();
    let text = String::from_utf8(got).unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    // Without the marks of chunks, which have separate lines.
    let body: Vec<&str> =
        body.lines().filter(|line| u64::from_str_radix(line, 16).is_err()).collect();
    let expected: Vec<&str> = whole.lines().collect();
    let is_text = |line: &&str| !line.trim().is_empty();
    assert_eq!(
        body.into_iter().filter(is_text).collect::<Vec<_>>(),
        expected.into_iter().filter(is_text).collect::<Vec<_>>()
    );
    assert_eq!(gateway.run(&id()).unwrap().usage(), (gateway.run(&id()).unwrap().usage().0, false));
    assert_eq!(reading(&gateway, "tokens"), 110);
}

#[tokio::test]
async fn a_list_that_is_stopped_in_the_middle_ends_properly() {
    let [first, _] = list(&piece("One stop word", None), "");
    let upstream = Fake::start(move |_, _| {
        vec![head(1 << 20), Act::Send(first.clone().into_bytes()), Act::AwaitClose]
    })
    .await;
    let policy = "[stop]\nlimit = \"steps >= 9\"\nword = 'said(\"stop word\")'\n";
    let gateway = gateway(policy, &upstream).await;
    let got = receive(send(gateway.addr(), PATH, "", &request()).await).await;
    assert!(got.is_whole, "{got:?}");
    let list = got.json();
    let pieces: Vec<&Value> = list.as_array().unwrap().iter().collect();
    assert_eq!(pieces.len(), 2, "{list}");
    assert_eq!(pieces[1]["candidates"][0]["finishReason"], "STOP");
    until("it is closed", || upstream.closed.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
}
