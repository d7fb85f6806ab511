//! Who may do what: holders of issued keys, pages of other sites, and clients with many run ids.

use endstop_gateway::{Gateway, Key, Runs, Unnamed, UpstreamKeys};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const CHAT: &str = "/v1/chat/completions";

async fn answering() -> Fake {
    Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await
}

/// A request with these headers, each of which ends its line.
async fn ask(gateway: &Gateway, line: &str, headers: &str, body: &str) -> Got {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

#[tokio::test]
async fn an_issued_key_is_for_model_calls_and_reads_nothing_of_the_account() {
    let upstream = answering().await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    let keys = vec![(Key::new("issued-canary"), id())];
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys };
    config.upstream_keys =
        UpstreamKeys { openai: Some(Key::new("upstream-canary")), ..UpstreamKeys::default() };
    let gateway = Gateway::start(config).await.unwrap();
    let key = "host: localhost\r\nauthorization: Bearer issued-canary\r\n";
    for line in [
        "GET /v1/responses/resp_of_another_tenant",
        "GET /v1/responses/resp_1/input_items",
        "DELETE /v1/responses/resp_1",
        "GET /v1/files",
        "GET /v1/files/file-1/content",
        "DELETE /v1/files/file-1",
        "GET /v1/chat/completions",
        "GET /v1/messages/batches",
        "GET /v1/organization/admin_api_keys",
        "OPTIONS /v1/files",
    ] {
        let got = ask(&gateway, line, key, "").await;
        assert_eq!(got.status, 403, "{line}: {got:?}");
        assert!(!got.text().contains("canary"), "{got:?}");
    }
    assert_eq!(upstream.calls(), 0);
    assert_eq!(ask(&gateway, "GET /v1/models", key, "").await.status, 200);
    let request = Agent::new("Answer.").request().to_string();
    assert_eq!(ask(&gateway, &format!("POST {CHAT}"), key, &request).await.words(), "Done.");
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn a_page_of_another_site_spends_nothing() {
    let upstream = answering().await;
    let gateway = gateway("[stop]\nlimit = \"steps >= 9\"\n", &upstream).await;
    let request = Agent::new("Answer.").request().to_string();
    let post = format!("POST {CHAT}");
    for headers in [
        "host: localhost\r\norigin: https://site.example\r\n",
        "host: localhost\r\norigin: null\r\n",
        // Its name leads to loopback.
        "host: site.example\r\n",
        "host: site.example:80\r\norigin: http://site.example:80\r\n",
    ] {
        for line in [post.as_str(), "OPTIONS /v1/models", "GET /endstop/health"] {
            let got = ask(&gateway, line, headers, &request).await;
            assert_eq!(got.status, 403, "{line} {headers}: {got:?}");
        }
    }
    assert_eq!((upstream.calls(), reading(&gateway, "steps")), (0, 0));
    for headers in ["host: localhost\r\n", "host: 127.0.0.1:1\r\norigin: http://localhost:3000\r\n"]
    {
        assert_eq!(ask(&gateway, &post, headers, &request).await.words(), "Done.", "{headers}");
    }
}

#[tokio::test]
async fn run_ids_that_cost_nothing_do_not_use_up_the_registry() {
    let upstream = answering().await;
    let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Vec::new() };
    config.bounds.runs = 3;
    let gateway = Gateway::start(config).await.unwrap();
    // One that has not ended stays.
    let calls =
        json!({ "model": "gpt-4o-mini", "messages": [{ "role": "user", "content": "Go." }] });
    assert_eq!(post(&gateway, &format!("/r/paid{CHAT}"), &calls).await.status, 200);
    for number in 0..50 {
        let line = format!("GET /r/free-{number}/v1/models");
        let got = ask(&gateway, &line, "host: localhost\r\n", "").await;
        assert_eq!(got.status, 200, "{number}: {got:?}");
    }
    assert_eq!(post(&gateway, &format!("/r/new{CHAT}"), &calls).await.status, 200);
    let kept: Vec<String> = gateway.runs().iter().map(|run| run.info().id.to_string()).collect();
    assert!(kept.contains(&"paid".to_owned()) && kept.contains(&"new".to_owned()), "{kept:?}");
}
