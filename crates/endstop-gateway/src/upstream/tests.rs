//! The client of upstreams against raw TCP, and against HTTP/2 over TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use self::fake::{Act, Fake, whole, write};
use super::*;
use crate::body::{BodyError, BodySource};

mod fake;
mod h2;
mod h2_upstream;
mod proxy;
mod relay;
mod socks;
mod tls;
mod tls_upstream;

const NET: Duration = Duration::from_secs(100);

fn post(body: &'static str) -> Request<Bytes> {
    Request::post("/chat?x=1").header("x-key", "k").body(Bytes::from(body)).unwrap()
}

/// All parts of a body, and the error that it ended with.
async fn parts(answer: Response<UpstreamBody>) -> (Vec<Bytes>, Option<UpstreamError>) {
    let mut body = answer.into_body();
    let mut parts = Vec::new();
    loop {
        match tokio::time::timeout(NET, body.data()).await.expect("the body continues") {
            Some(Ok(part)) => parts.push(part),
            Some(Err(error)) => return (parts, Some(error)),
            None => return (parts, None),
        }
    }
}

fn events() -> (Vec<u8>, Vec<u8>) {
    let events: Vec<_> =
        (0..53).map(|n| format!("data: {{\"n\":{n},\"x\":\"{}\"}}\n\n", "y".repeat(150))).collect();
    let chunked: String =
        events.iter().map(|event| format!("{:x}\r\n{event}\r\n", event.len())).collect();
    (events.concat().into_bytes(), chunked.into_bytes())
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn a_request_is_sent_below_its_base_with_its_own_host_and_length() {
    let fake = Fake::start(vec![vec![whole("ok")]]).await;
    let mut request = post("body");
    request.headers_mut().insert("host", HeaderValue::from_static("evil.example"));
    request.headers_mut().insert("transfer-encoding", HeaderValue::from_static("chunked"));
    request.headers_mut().insert("content-length", HeaderValue::from_static("9"));
    let answer = HttpClient::new().send(&fake.base(), request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.body().remaining(), Some(2));
    assert_eq!(parts(answer).await.0, ["ok"]);
    let seen = fake.requests.lock().unwrap().concat();
    let mut lines: Vec<_> = seen.lines().collect();
    lines.sort_unstable();
    let host = format!("host: {}", fake.addr);
    assert_eq!(
        lines,
        ["", "POST /v1/chat?x=1 HTTP/1.1", "body", "content-length: 4", &host, "x-key: k"]
    );
}

#[tokio::test]
async fn requests_without_a_body_say_so_as_their_method_demands() {
    let fake = Fake::start(vec![vec![whole("ok")]]).await;
    let client = HttpClient::new();
    for (method, has_length) in [(Method::GET, false), (Method::POST, true), (Method::DELETE, true)]
    {
        let request = Request::builder().method(method).uri("/models").body(Bytes::new()).unwrap();
        parts(client.send(&fake.base(), request).await.unwrap()).await;
        let seen = fake.requests.lock().unwrap().pop().unwrap();
        assert_eq!(seen.contains("content-length: 0"), has_length, "{seen}");
    }
}

#[tokio::test]
async fn events_that_come_at_once_are_handed_over_at_once() {
    let (events, chunked) = events();
    let all = [STREAM.as_bytes(), &chunked, b"0\r\n\r\n"].concat();
    let fake = Fake::start(vec![vec![write(all)]]).await;
    let answer = HttpClient::new().send(&fake.base(), post("x")).await.unwrap();
    let (parts, error) = parts(answer).await;
    assert!(error.is_none());
    assert_eq!(parts.concat(), events);
    assert!(parts.len() <= 3, "{} parts", parts.len());
}

#[tokio::test]
async fn what_comes_alone_is_handed_over_alone() {
    let fake = Fake::start(vec![vec![
        write(STREAM),
        Act::Wait,
        write("3\r\none\r\n"),
        Act::Wait,
        write("3\r\ntwo\r\n"),
        Act::Wait,
        write("0\r\n\r\n"),
    ]])
    .await;
    let answer = HttpClient::new().send(&fake.base(), post("x")).await.unwrap();
    let mut body = answer.into_body();
    for expected in ["one", "two"] {
        fake.go.send(()).unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), expected);
        assert!(!body.is_end());
    }
    fake.go.send(()).unwrap();
    assert!(body.data().await.is_none());
    assert!(body.data().await.is_none());
    assert!(body.is_end());
}

#[tokio::test]
async fn a_body_is_the_same_however_its_bytes_are_cut() {
    let (events, chunked) = events();
    let all = [STREAM.as_bytes(), &chunked, b"0\r\n\r\n"].concat();
    for size in [1, 7, 100, 1_000] {
        let acts = all.chunks(size).map(write).collect();
        let fake = Fake::start(vec![acts]).await;
        let answer = HttpClient::new().send(&fake.base(), post("x")).await.unwrap();
        let (parts, error) = parts(answer).await;
        assert!(error.is_none());
        assert_eq!(parts.concat(), events, "in pieces of {size}");
    }
}

#[tokio::test]
async fn a_large_body_passes_whole() {
    let body = "0123456789abcdef".repeat(1 << 16);
    let fake = Fake::start(vec![vec![whole(&body)]]).await;
    let answer = HttpClient::new().send(&fake.base(), post("x")).await.unwrap();
    let (parts, error) = parts(answer).await;
    assert!(error.is_none());
    assert!(parts.concat() == body.as_bytes());
}

#[tokio::test]
async fn a_connection_is_used_again_after_an_answer_was_read_whole() {
    let (_, chunked) = events();
    let stream = [STREAM.as_bytes(), &chunked, b"0\r\n\r\n"].concat();
    let fake = Fake::start(vec![vec![whole("a")], vec![write(stream)], vec![whole("")]]).await;
    let client = HttpClient::new();
    for _ in 0..6 {
        let (_, error) = parts(client.send(&fake.base(), post("x")).await.unwrap()).await;
        assert!(error.is_none());
    }
    assert_eq!(fake.connections(), 1);
    assert_eq!(fake.requests.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a_connection_whose_answer_was_not_read_whole_is_closed_at_once_and_not_used_again() {
    let endless = vec![write(STREAM), write("3\r\none\r\n"), Act::TellWhenClosed];
    let mut fake = Fake::start(vec![endless, vec![whole("b")]]).await;
    let client = HttpClient::new();
    let mut answer = client.send(&fake.base(), post("x")).await.unwrap();
    assert_eq!(answer.body_mut().data().await.unwrap().unwrap(), "one");
    drop(answer);
    tokio::time::timeout(NET, fake.closed.recv()).await.unwrap().unwrap();
    assert_eq!(parts(client.send(&fake.base(), post("x")).await.unwrap()).await.0, ["b"]);
    assert_eq!(fake.connections(), 2);
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let mut fake = Fake::start(vec![vec![Act::TellWhenClosed]]).await;
    let (client, base) = (HttpClient::new(), fake.base());
    let there = async {
        while fake.requests.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        answer = client.send(&base, post("x")) => panic!("{answer:?}"),
        () = there => {}
    }
    tokio::time::timeout(NET, fake.closed.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_kept_connection_that_the_upstream_has_closed_is_not_used() {
    let fake = Fake::start(vec![vec![whole("a"), Act::Wait, Act::Close], vec![whole("b")]]).await;
    let client = HttpClient::new();
    parts(client.send(&fake.base(), post("x")).await.unwrap()).await;
    fake.go.send(()).unwrap();
    // The end of the connection travels over loopback; the upstream says nothing about when it has arrived.
    fake::all_that_is_on_its_way().await;
    assert_eq!(parts(client.send(&fake.base(), post("x")).await.unwrap()).await.0, ["b"]);
    assert_eq!(fake.connections(), 2);
}

#[tokio::test]
async fn a_request_that_may_have_been_processed_is_never_sent_twice() {
    for end in [Act::Close, Act::Reset] {
        let fake = Fake::start(vec![vec![whole("a")], vec![end], vec![whole("c")]]).await;
        let client = HttpClient::new();
        parts(client.send(&fake.base(), post("x")).await.unwrap()).await;
        let error = client.send(&fake.base(), post("x")).await.unwrap_err();
        assert!(error.may_have_arrived(), "{error}");
        assert_eq!(fake.requests.lock().unwrap().len(), 2);
    }
}

/// An upstream that answers the first request of a connection if `is_kept`, reads only the head of the next one, and
/// resets the connection. Counts the heads that it has seen.
async fn resets_after_the_head(is_kept: bool) -> (Uri, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let heads = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut answers = usize::from(is_kept);
            loop {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                seen.fetch_add(1, Ordering::SeqCst);
                if answers == 0 {
                    break;
                }
                answers -= 1;
                let _ = stream.read_u8().await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            }
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    });
    (base, heads)
}

#[tokio::test]
async fn a_request_whose_head_has_arrived_is_never_sent_twice() {
    // More than the system buffers for a peer that does not read.
    let large = Bytes::from(vec![b'x'; 64 << 20]);
    for is_kept in [false, true] {
        let (base, heads) = resets_after_the_head(is_kept).await;
        let client = HttpClient::new();
        if is_kept {
            let (_, error) = parts(client.send(&base, post("x")).await.unwrap()).await;
            assert!(error.is_none());
        }
        let request = Request::post("/chat").body(large.clone()).unwrap();
        let error = client.send(&base, request).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Broken(_)), "{error}");
        fake::all_that_is_on_its_way().await;
        assert_eq!(heads.load(Ordering::SeqCst), 1 + usize::from(is_kept));
    }
}

#[tokio::test]
async fn an_upstream_that_closes_at_once_has_not_seen_the_request_twice() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&connections);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let error = HttpClient::new().send(&base, post("x")).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Broken(_) | UpstreamError::Refused(_)), "{error}");
    fake::all_that_is_on_its_way().await;
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_waits_for_its_answer_as_long_as_is_said() {
    let mut fake = Fake::start(vec![vec![Act::TellWhenClosed]]).await;
    let within = Duration::from_millis(200);
    let client = HttpClient::new().answering_within(within);
    let error = client.send(&fake.base(), post("x")).await.unwrap_err();
    assert_eq!(error.to_string(), "the upstream has not answered within 200ms");
    assert!(error.may_have_arrived());
    tokio::time::timeout(NET, fake.closed.recv()).await.unwrap().unwrap();
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_after_what_came() {
    for (head, body) in [
        (STREAM, "3\r\none\r\n"),
        (STREAM, "3\r\none\r\n9\r\nabc"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "one"),
        (STREAM, "3\r\none\r\nxyz\r\n"),
    ] {
        let fake = Fake::start(vec![vec![write(head), write(body), Act::Close]]).await;
        let answer = HttpClient::new().send(&fake.base(), post("x")).await.unwrap();
        let (parts, error) = parts(answer).await;
        assert!(parts.concat().starts_with(b"one"), "{body:?}: {parts:?}");
        assert!(error.is_some_and(|error| error.may_have_arrived()), "{body:?}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let big = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(600 << 10));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: a\r\n".repeat(1_000));
    for answer in [
        "garbage\r\n\r\n",
        "\0\0\0\0",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "",
        &big,
        &many,
    ] {
        let fake = Fake::start(vec![vec![write(answer), Act::Close]]).await;
        let error = HttpClient::new().send(&fake.base(), post("x")).await.unwrap_err();
        let short = &answer[..answer.len().min(30)];
        assert!(matches!(error, UpstreamError::Broken(_)), "{short}: {error}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_told_from_one_that_may_have_the_request() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let error = HttpClient::new().send(&base, post("x")).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Connect { .. }), "{error}");
    assert!(!error.may_have_arrived());
}

#[test]
fn fields_of_one_hop_and_those_that_it_names_are_not_passed_on() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "close, X-Mine"),
        ("connection", "x-other"),
        ("x-mine", "1"),
        ("x-other", "2"),
        ("keep-alive", "1"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("http2-settings", "x"),
        ("proxy-authorization", "x"),
        ("proxy-connection", "x"),
        ("host", "h"),
        ("content-length", "1"),
        ("expect", "100-continue"),
        ("authorization", "k"),
        ("x-kept", "1"),
        ("x-kept", "2"),
        ("content-encoding", "gzip"),
    ] {
        headers.append(name, HeaderValue::from_static(value));
    }
    let passed = forwardable(headers, &[]);
    let mut names: Vec<_> =
        passed.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [("authorization", "k"), ("content-encoding", "gzip"), ("x-kept", "1"), ("x-kept", "2")]
    );
}
