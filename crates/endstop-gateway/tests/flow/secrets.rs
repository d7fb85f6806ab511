//! Keys that an upstream repeats: no client gets them, and no file has them.

use std::io::Write as _;
use std::sync::Arc;

use endstop_gateway::{Config, Gateway, Key, Runs, Unnamed, UpstreamKeys};
use endstop_runtime::observe::{Observation, Observer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fake::{Act, Arrived, Fake, json as answer};
use crate::kit::*;
use crate::stored_runs::directory;

const POLICY: &str = "[stop]\nlimit = \"steps >= 90\"\n[accounting]\non_server_error = \"free\"\n";
const CHAT: &str = "/v1/chat/completions";

/// Every header of a request, and its target, as an upstream might quote them.
fn quoted(arrived: &Arrived) -> String {
    arrived.head.replace("\r\n", " | ").replace('"', "'")
}

/// A response with this status whose body, headers and redirect repeat the whole request.
fn echo(status: &str, arrived: &Arrived, how: &str) -> Vec<Act> {
    let quoted = quoted(arrived);
    let body = serde_json::json!({ "error": { "message": quoted, "type": "invalid" } }).to_string();
    let target = arrived.head.split(' ').nth(1).unwrap();
    let mut head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-debug: {quoted}\r\n\
         location: http://127.0.0.1:1/elsewhere{target}\r\nset-cookie: session=cookie-canary\r\n"
    );
    if let Some(encoding) = how.strip_prefix("encoded-") {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(body.as_bytes()).unwrap();
        let mut bytes = gzip.finish().unwrap();
        if encoding == "cut" {
            bytes.truncate(bytes.len() - 9);
        }
        head.push_str(&format!(
            "content-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
            bytes.len()
        ));
        return vec![Act::Send([head.into_bytes(), bytes].concat())];
    }
    if how == "pieces" {
        head.push_str("transfer-encoding: chunked\r\n\r\n");
        let pieces = body.as_bytes().chunks(3).map(crate::fake::chunk);
        return [
            vec![Act::Send(head.into_bytes())],
            pieces.collect(),
            vec![crate::fake::sse_end()],
        ]
        .concat();
    }
    head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    vec![Act::Send(head.into_bytes())]
}

fn keyed(upstream: &Fake) -> Config {
    let mut config = config(POLICY, upstream.addr);
    let keys = vec![(Key::new("issued/canary+1"), id().into())];
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: keys.into() };
    config.upstream_keys =
        UpstreamKeys { openai: Some(Key::new("upstream/canary+2")), ..UpstreamKeys::default() };
    config
}

async fn ask(gateway: &Gateway, line: &str, headers: &str, body: &str) -> Got {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

#[tokio::test]
async fn an_upstream_that_repeats_keys_tells_them_to_nobody() {
    let statuses = ["302 Found", "400 Bad Request", "401 Unauthorized", "404 Not Found"];
    let statuses =
        [&statuses[..], &["500 Internal Server Error", "503 Service Unavailable"]].concat();
    for how in ["whole", "pieces", "encoded-whole", "encoded-cut"] {
        for status in &statuses {
            let said = (*status).to_owned();
            let upstream = Fake::start(move |arrived, _| echo(&said, arrived, how)).await;
            let stored = directory("secrets");
            let mut config = keyed(&upstream);
            config.stored_runs = Some(stored.clone().into());
            let gateway = Gateway::start(config).await.unwrap();
            let body = Agent::new("Look.").request().to_string();
            for line in [format!("POST {CHAT}?a=b"), "GET /v1/models".to_owned()] {
                let key = "authorization: Bearer issued/canary+1\r\n";
                let got = ask(&gateway, &line, key, &body).await;
                let what = format!("{how} {status} {line}: {got:?}");
                assert_eq!(
                    (&got.status.to_string(), got.is_whole),
                    (&status[..3].to_owned(), true),
                    "{what}"
                );
                assert!(!what.contains("canary"), "{what}");
                // It says everything else.
                let is_read = how != "encoded-cut";
                assert_eq!(got.text().contains("Bearer [redacted]"), is_read, "{what}");
                assert!(got.json()["error"]["message"].is_string(), "{what}");
                assert!(got.header("x-debug").unwrap().contains("Bearer [redacted]"), "{what}");
            }
            assert!(upstream.seen().iter().all(|it| it.head.contains("Bearer upstream/canary+2")));
            assert!(upstream.seen().iter().all(|it| !it.head.contains("issued")));
            gateway.shut_down().await;
            for file in std::fs::read_dir(&stored).unwrap().filter_map(|it| it.ok()) {
                let written = std::fs::read(file.path()).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&written).contains("canary"), "{file:?}");
            }
        }
    }
}

#[tokio::test]
async fn keys_of_clients_in_queries_and_odd_headers_are_not_repeated() {
    let upstream = Fake::start(|arrived, _| echo("400 Bad Request", arrived, "whole")).await;
    let gateway = gateway(POLICY, &upstream).await;
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"Hi."}]}]}"#;
    let line = "POST /v1beta/models/gemini-2.5-flash:generateContent?key=query%2Dcanary&alt=json";
    let headers = "x-portkey-api-key: portkey-canary\r\nhelicone-auth: Bearer helicone-canary\r\n\
        cookie: a=cookie-canary\r\nx-plain: shown\r\n";
    for line in [line, "GET /v1/files?api_key=query-canary&after=7"] {
        let got = ask(&gateway, line, headers, body).await;
        let what = format!("{line}: {got:?}");
        assert!(got.status == 400 && !what.replace(line, "").contains("canary"), "{what}");
        assert!(got.text().contains("x-plain: shown"), "{what}");
        assert!(got.header("location").unwrap().contains("key=[redacted]&"), "{what}");
    }
    // The upstream has them: they are the client's own.
    assert!(upstream.seen().iter().all(|it| it.head.contains("portkey-canary")));
    assert!(upstream.seen()[0].head.contains("key=query%2Dcanary"));
}

#[tokio::test]
async fn an_issued_key_reaches_no_upstream_wherever_it_stands() {
    let upstream = Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await;
    let gateway = Gateway::start(keyed(&upstream)).await.unwrap();
    let headers = "authorization: Bearer issued/canary+1\r\nx-litellm-key: another-canary\r\n\
        helicone-auth: Bearer issued/canary+1\r\nx-debug: a issued/canary+1 b\r\n\
        idempotency-key: once-1\r\nx-plain: passed\r\n";
    let line =
        format!("POST {CHAT}?access_token=t-canary&x=issued%2Fcanary%2B1&alt=json&pageToken=3");
    let got = ask(&gateway, &line, headers, &Agent::new("Look.").request().to_string()).await;
    assert_eq!(got.words(), "Done.");
    let arrived = upstream.seen()[0].head.clone();
    assert!(arrived.starts_with("POST /v1/chat/completions?alt=json&pageToken=3 "), "{arrived}");
    assert!(
        arrived.contains("idempotency-key: once-1") && arrived.contains("x-plain"),
        "{arrived}"
    );
    assert_eq!(arrived.matches("canary").count(), 1, "{arrived}");
    assert!(arrived.contains("authorization: Bearer upstream/canary+2"), "{arrived}");
}

/// Writes down everything that an observer receives.
#[derive(Debug, Default)]
struct Told(std::sync::Mutex<String>);

impl Observer for Told {
    fn observe(&self, seen: &Observation<'_>) {
        let line = format!("{:?} {:?}\n", seen.event, seen.detail);
        self.0.lock().unwrap().push_str(&line);
    }
}

#[tokio::test]
async fn an_error_with_the_status_of_a_success_repeats_no_key() {
    let upstream = Fake::start(|arrived, _| echo("200 OK", arrived, "whole")).await;
    let mut config = keyed(&upstream);
    let told = Arc::new(Told::default());
    config.environment.observers.push(Arc::clone(&told) as Arc<dyn Observer>);
    let gateway = Gateway::start(config).await.unwrap();
    let key = "authorization: Bearer issued/canary+1\r\n";
    let body = Agent::new("Look.").request().to_string();
    let got = ask(&gateway, &format!("POST {CHAT}"), key, &body).await;
    assert!(got.status == 200 && got.text().contains("Bearer [redacted]"), "{got:?}");
    assert!(!format!("{got:?}").contains("canary"), "{got:?}");
    gateway.shut_down().await;
    let told = told.0.lock().unwrap();
    assert!(told.contains("Bearer [redacted]") && !told.contains("canary"), "{told}");
}

#[tokio::test]
async fn an_error_event_of_a_stream_tells_no_key_and_the_other_events_pass() {
    let upstream = Fake::start(|arrived, _| {
        let quoted = quoted(arrived);
        let error = serde_json::json!({ "error": { "message": quoted, "type": "invalid" } });
        let words = "{\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-4o\",\
                     \"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi. \"}}]}";
        let body = format!("data: {words}\n\ndata: {error}\n\n");
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        vec![Act::Send(format!("{head}{body}").into_bytes()), Act::Close]
    })
    .await;
    let gateway = Gateway::start(keyed(&upstream)).await.unwrap();
    let mut body = Agent::new("Look.").request();
    body["stream"] = true.into();
    let key = "authorization: Bearer issued/canary+1\r\n";
    let got = ask(&gateway, &format!("POST {CHAT}"), key, &body.to_string()).await;
    let text = got.text();
    assert!(!format!("{got:?}{text}").contains("canary"), "{text}");
    assert!(text.contains("Bearer [redacted]") && text.contains("Hi. "), "{text}");
}
