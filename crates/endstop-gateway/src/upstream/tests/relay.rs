//! Server and client of upstreams together: what an answer looks like at its client.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use endstop_runtime::cancel::CancelToken;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::fake::{Act, Fake, whole, write};
use super::*;
use crate::body::Body;
use crate::config::Bounds;
use crate::server::{read_body, serve};

const NET: Duration = Duration::from_secs(100);
const STREAM: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Mine: 1\r\n\r\n";
const POST: &[u8] =
    b"POST /chat HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

/// Counts the parts that are given to a client.
struct Counted {
    body: UpstreamBody,
    parts: Arc<AtomicUsize>,
}

impl BodySource for Counted {
    fn poll_data(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        let polled = self.body.poll_data(cx);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            self.parts.fetch_add(1, Ordering::SeqCst);
        }
        polled.map_err(BodyError::from)
    }

    fn is_end(&self) -> bool {
        self.body.is_end()
    }
}

async fn relayed(
    client: HttpClient,
    base: Uri,
    parts: Arc<AtomicUsize>,
    request: Request<Incoming>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = read_body(body, 1 << 20).await.unwrap();
    let mut onward = Request::new(body);
    *onward.method_mut() = head.method;
    *onward.uri_mut() = head.uri;
    *onward.headers_mut() = forwardable(head.headers.clone(), &[]);
    match client.send(&base, onward).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let length = body.remaining();
            let source = Counted { body, parts };
            let body = match length {
                Some(length) => Body::sized_stream(source, length),
                None => Body::stream(source),
            };
            let mut answer = Response::new(body);
            *answer.status_mut() = head.status;
            *answer.headers_mut() = forwardable(head.headers.clone(), &[]);
            answer
        }
        Err(_) => {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    }
}

/// A relay in front of an upstream, and the number of parts that it has passed on.
async fn relay(base: Uri) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let parts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&parts);
    let client = HttpClient::new();
    let handler =
        move |request, _| relayed(client.clone(), base.clone(), Arc::clone(&counted), request);
    tokio::spawn(serve(listener, Bounds::default(), false, handler, CancelToken::new()));
    (addr, parts)
}

async fn ask(addr: SocketAddr) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(POST).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(NET, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

/// The body of an answer, and whether it ended properly.
fn unchunked(answer: &str) -> (String, bool) {
    let (_, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}

fn chunked(parts: &[String]) -> Vec<u8> {
    parts.iter().flat_map(|part| format!("{:x}\r\n{part}\r\n", part.len()).into_bytes()).collect()
}

#[tokio::test]
async fn fifty_three_events_that_come_at_once_go_on_in_few_parts() {
    let events: Vec<_> = (0..53).map(|n| format!("data: {n}{}\n\n", "y".repeat(170))).collect();
    let all = [STREAM.as_bytes(), &chunked(&events), b"0\r\n\r\n"].concat();
    let fake = Fake::start(vec![vec![write(all)]]).await;
    let (addr, parts) = relay(fake.base()).await;
    let answer = ask(addr).await;
    assert_eq!(unchunked(&answer), (events.concat(), true));
    assert!(parts.load(Ordering::SeqCst) <= 3, "{parts:?} parts");
    assert!(answer.contains("x-mine: 1\r\n"), "{answer}");
}

#[tokio::test]
async fn an_event_goes_on_before_the_next_one_comes() {
    let fake = Fake::start(vec![vec![
        write(STREAM),
        write("3\r\none\r\n"),
        Act::Wait,
        write("3\r\ntwo\r\n0\r\n\r\n"),
    ]])
    .await;
    let (addr, _) = relay(fake.base()).await;
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(POST).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"3\r\none\r\n") {
        assert!(tokio::time::timeout(NET, stream.read_buf(&mut seen)).await.unwrap().unwrap() > 0);
    }
    fake.go.send(()).unwrap();
    tokio::time::timeout(NET, stream.read_to_end(&mut seen)).await.unwrap().unwrap();
    assert!(seen.ends_with(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_upstream_breaks_off_at_the_client_after_what_came() {
    for (head, begun) in
        [(STREAM, "3\r\none\r\n"), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "one")]
    {
        let fake = Fake::start(vec![vec![write(head), write(begun), Act::Close]]).await;
        let (addr, _) = relay(fake.base()).await;
        let answer = ask(addr).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.trim_end().ends_with("one"), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_keeps_its_length_and_a_refused_one_its_status() {
    let refusal = "HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";
    let fake = Fake::start(vec![vec![whole("four")], vec![write(refusal)], vec![Act::Reset]]).await;
    let (addr, _) = relay(fake.base()).await;
    let answer = ask(addr).await;
    assert!(
        answer.contains("content-length: 4\r\n") && answer.ends_with("\r\n\r\nfour"),
        "{answer}"
    );
    let answer = ask(addr).await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("retry-after: 3\r\n"), "{answer}");
    assert_eq!(fake.connections(), 1);
    assert!(ask(addr).await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn a_client_that_goes_away_closes_the_upstream_before_and_within_an_answer() {
    for acts in [vec![], vec![write(STREAM)], vec![write(STREAM), write("3\r\none\r\n")]] {
        let has_answer = !acts.is_empty();
        let mut fake = Fake::start(vec![[acts, vec![Act::TellWhenClosed]].concat()]).await;
        let (addr, _) = relay(fake.base()).await;
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(POST).await.unwrap();
        if has_answer {
            assert!(
                tokio::time::timeout(NET, stream.read(&mut [0; 256])).await.unwrap().unwrap() > 0
            );
        } else {
            while fake.requests.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        }
        drop(stream);
        tokio::time::timeout(NET, fake.closed.recv()).await.unwrap().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn bytes_are_the_same_at_the_client_under_any_chunking(
        parts in proptest::collection::vec("[a-z\n]{1,200}", 1..40),
        sizes in proptest::collection::vec(1_usize..300, 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let all = [STREAM.as_bytes(), &chunked(&parts), b"0\r\n\r\n"].concat();
            let (mut acts, mut rest) = (Vec::new(), all.as_slice());
            for size in sizes {
                let (piece, after) = rest.split_at(size.min(rest.len()));
                acts.push(write(piece));
                rest = after;
            }
            acts.push(write(rest));
            let fake = Fake::start(vec![acts]).await;
            let (addr, _) = relay(fake.base()).await;
            assert_eq!(unchunked(&ask(addr).await), (parts.concat(), true));
        });
    }
}
