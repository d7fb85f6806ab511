//! Requests in forms that the gateway does not read (WebSockets, cloud platforms), and bodies that it has to decode.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const MONEY: &str = "[stop]\nlimit = \"cost >= $5 or steps >= 9\"\n";
const STEPS: &str = "[stop]\nlimit = \"steps >= 9\"\n";

async fn upstream() -> Fake {
    Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await
}

/// A request to upgrade the connection, as Codex makes it for its model calls.
async fn upgrade(gateway: &endstop_gateway::Gateway, path: &str, protocol: &str) -> Got {
    let to = gateway.addr();
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {to}\r\nconnection: Upgrade, close\r\nupgrade: {protocol}\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

#[tokio::test]
async fn a_websocket_is_refused_at_once_and_nothing_passes() {
    let upstream = upstream().await;
    for policy in [MONEY, STEPS] {
        let gateway = gateway(policy, &upstream).await;
        for path in ["/v1/responses", "/v1/realtime?model=gpt-realtime", "/r/run-1/a/v1/responses"]
        {
            let got = upgrade(&gateway, path, "websocket").await;
            assert_eq!(got.status, 426, "{path}: {got:?}");
            assert_eq!(got.header("upgrade").as_deref(), Some("HTTP/1.1"), "{got:?}");
            assert!(got.text().contains("no WebSocket"), "{got:?}");
        }
        assert_eq!(upgrade(&gateway, "/v1/responses", "WebSocket/13").await.status, 426);
        let counts = gateway.counts(&id()).unwrap();
        assert_eq!((upstream.calls(), counts.unmetered), (0, 0));
    }
}

/// Java's client offers `h2c` with every request.
#[tokio::test]
async fn an_offer_of_another_protocol_is_ignored() {
    let upstream = upstream().await;
    let gateway = gateway(MONEY, &upstream).await;
    let got = upgrade(&gateway, "/v1/models", "h2c").await;
    assert_eq!((got.status, upstream.calls()), (200, 1), "{got:?}");
}

#[tokio::test]
async fn cloud_platforms_are_refused_by_name_with_what_to_do() {
    let upstream = upstream().await;
    let rules = [MONEY, "[stop]\nlimit = \"tokens >= 100000\"\n"];
    let bedrock = ["invoke", "invoke-with-response-stream", "converse", "converse-stream"];
    let bedrock =
        bedrock.map(|method| format!("/model/anthropic.claude-sonnet-4-6-v1%3A0/{method}"));
    let vertex = ["rawPredict", "streamRawPredict"].map(|method| {
        format!(
            "/v1/projects/p/locations/eu/publishers/anthropic/models/claude-sonnet-4-6:{method}"
        )
    });
    let cases = bedrock.iter().map(|path| (path, "Amazon Bedrock", "bedrock", "USE_BEDROCK"));
    let cases = cases
        .chain(vertex.iter().map(|path| (path, "Vertex AI", "vertex", "CLAUDE_CODE_USE_VERTEX")));
    for (path, title, name, hint) in cases {
        for policy in rules {
            let gateway = gateway(policy, &upstream).await;
            let got = post(&gateway, path, &json!({ "max_tokens": 9 })).await;
            assert_eq!(got.status, 402, "{path}: {got:?}");
            let text = got.text();
            assert!(text.contains(&format!("calls of {title} cannot be read")), "{text}");
            assert!(text.contains(hint), "{text}");
            assert!(text.contains(&format!("--allow-unmetered={name}`")), "{text}");
        }
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn cloud_platforms_pass_where_that_is_allowed_and_nothing_limits_them() {
    let upstream = upstream().await;
    let allowed = format!("[accounting]\nallow_unmetered = [\"bedrock\"]\n{MONEY}");
    for policy in [allowed.as_str(), STEPS] {
        let before = upstream.calls();
        let gateway = gateway(policy, &upstream).await;
        let got = post(&gateway, "/model/m/invoke", &json!({})).await;
        assert_eq!((got.status, upstream.calls()), (200, before + 1), "{got:?}");
        assert_eq!(gateway.counts(&id()).unwrap().unmetered, 1);
    }
}

/// As Codex sends them with a ChatGPT login.
#[tokio::test]
async fn a_request_in_zstd_is_read_and_sent_on_without_its_encoding() {
    let upstream = upstream().await;
    let gateway = gateway(MONEY, &upstream).await;
    let plain = chat_body(&Agent::new("Go."));
    let packed = compress_to_vec(plain.as_bytes(), CompressionLevel::Fastest);
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-encoding: zstd\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        gateway.addr(),
        packed.len()
    );
    stream.write_all(&[head.as_bytes(), &packed].concat()).await.unwrap();
    let got = receive(stream).await;
    assert_eq!((got.status, upstream.calls()), (200, 1), "{got:?}");
    let arrived = &upstream.seen()[0];
    assert!(!arrived.head.to_ascii_lowercase().contains("content-encoding"), "{arrived:?}");
    assert_eq!(arrived.json()["messages"][1]["content"], "Go.");
    assert_eq!(reading(&gateway, "steps"), 1);
}

fn chat_body(agent: &Agent) -> String {
    agent.request().to_string()
}
