//! Upstreams over TLS: HTTP/2 shared, HTTP/1.1 kept, certificates checked.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};

use super::tls_upstream::Secure;
use super::*;

const NET: Duration = Duration::from_secs(100);

fn post(path: &str) -> Request<Bytes> {
    Request::post(path)
        .header("connection", "keep-alive")
        .body(Bytes::from_static(b"body"))
        .unwrap()
}

async fn text(answer: Response<UpstreamBody>) -> String {
    let mut body = answer.into_body();
    let mut all = Vec::new();
    while let Some(part) = tokio::time::timeout(NET, body.data()).await.unwrap() {
        all.extend(part.unwrap());
    }
    assert!(body.is_end());
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn calls_at_the_same_time_share_one_connection_of_http2() {
    let upstream = Secure::start("h2").await;
    let client = HttpClient::trusting(upstream.authority.as_bytes()).unwrap();
    let base = upstream.base();
    let calls =
        (0..50).map(|_| async { text(client.send(&base, post("/echo?x")).await.unwrap()).await });
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer, format!("HTTP/2.0 POST {base}/echo?x 4"));
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn http1_over_tls_keeps_its_connections() {
    let upstream = Secure::start("http/1.1").await;
    let client = HttpClient::trusting(upstream.authority.as_bytes()).unwrap();
    for _ in 0..5 {
        let answer = text(client.send(&upstream.base(), post("/echo")).await.unwrap()).await;
        assert_eq!(answer, "HTTP/1.1 POST /v1/echo 4");
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_is_dropped_ends_its_stream_and_leaves_the_connection() {
    for (protocol, connections) in [("h2", 1), ("http/1.1", 2)] {
        let mut upstream = Secure::start(protocol).await;
        let client = HttpClient::trusting(upstream.authority.as_bytes()).unwrap();
        let mut answer = client.send(&upstream.base(), post("/parts")).await.unwrap();
        upstream.parts.send(Bytes::from_static(b"one")).unwrap();
        assert_eq!(answer.body_mut().data().await.unwrap().unwrap(), "one");
        drop(answer);
        tokio::time::timeout(NET, upstream.dropped.recv()).await.unwrap().unwrap();
        assert!(
            text(client.send(&upstream.base(), post("/echo")).await.unwrap())
                .await
                .contains("POST")
        );
        assert_eq!(upstream.connections(), connections, "{protocol}");
    }
}

#[tokio::test]
async fn parts_that_come_at_once_over_http2_are_handed_over_in_few() {
    let upstream = Secure::start("h2").await;
    let client = HttpClient::trusting(upstream.authority.as_bytes()).unwrap();
    for _ in 0..53 {
        upstream.parts.send(Bytes::from_static(b"data: {}\n\n")).unwrap();
    }
    upstream.parts.send(Bytes::new()).unwrap();
    let answer = client.send(&upstream.base(), post("/parts")).await.unwrap();
    // The frames travel; all frames that have arrived by the next read are returned as one.
    super::fake::all_that_is_on_its_way().await;
    let mut body = answer.into_body();
    let (mut parts, mut all) = (0, Vec::new());
    while let Some(part) = body.data().await {
        parts += 1;
        all.extend(part.unwrap());
    }
    assert_eq!(all, b"data: {}\n\n".repeat(53));
    assert!(parts <= 3, "{parts} parts");
}

#[tokio::test]
async fn an_upstream_that_cannot_be_trusted_gets_no_request() {
    let upstream = Secure::start("h2").await;
    let other = Secure::start("h2").await;
    for client in [HttpClient::new(), HttpClient::trusting(other.authority.as_bytes()).unwrap()] {
        let error = client.send(&upstream.base(), post("/echo")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Connect { .. }), "{error}");
    }
    let client = HttpClient::trusting(upstream.authority.as_bytes()).unwrap();
    let by_address = upstream.base().to_string().replace("localhost", "127.0.0.1").parse().unwrap();
    let error = client.send(&by_address, post("/echo")).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Connect { .. }), "{error}");
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn the_environment_can_name_the_certificates_to_trust() {
    let upstream = Secure::start("h2").await;
    let directory = std::env::temp_dir().join(format!("endstop-ca-{}", std::process::id()));
    std::fs::write(&directory, &upstream.authority).unwrap();
    let path = directory.to_str().unwrap().to_owned();
    let client =
        HttpClient::from_environment(|name| (name == "SSL_CERT_FILE").then(|| path.clone()));
    std::fs::remove_file(&directory).unwrap();
    let answer = client.unwrap().send(&upstream.base(), post("/echo")).await.unwrap();
    assert!(text(answer).await.starts_with("HTTP/2.0 POST"));

    let gone = HttpClient::from_environment(|_| Some(path.clone())).unwrap_err();
    assert!(gone.to_string().contains("SSL_CERT_FILE"), "{gone}");
    #[cfg(unix)]
    {
        let endless = HttpClient::from_environment(|_| Some("/dev/zero".to_owned())).unwrap_err();
        assert!(endless.to_string().contains("it has more than 4194304 bytes"), "{endless}");
    }
    assert!(HttpClient::trusting(b"no certificate").is_err());
    assert!(HttpClient::from_environment(|_| None).is_ok());
}
