//! The server over real sockets.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use endstop_core::signal::{StopReason, StopSignal};
use endstop_runtime::cancel::Urgency;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::corpus::{ambiguous, plain};
use super::*;
use crate::body::{BodyError, BodySource};

const NET: Duration = Duration::from_secs(100);

/// A server that reads each request whole and answers with its body.
struct Echo {
    addr: SocketAddr,
    bodies: Arc<Mutex<Vec<Bytes>>>,
    stop: CancelToken,
    server: tokio::task::JoinHandle<()>,
}

async fn serve_with<H, F>(
    bounds: Bounds,
    handler: H,
) -> (SocketAddr, CancelToken, tokio::task::JoinHandle<()>)
where
    H: Fn(Request<Incoming>, PeerInfo) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let stop = CancelToken::new();
    let server = tokio::spawn(serve(listener, bounds, false, handler, stop.clone()));
    (addr, stop, server)
}

async fn echo(bounds: Bounds) -> Echo {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let (addr, stop, server) = serve_with(bounds, move |request, _| {
        let seen = Arc::clone(&seen);
        async move {
            let (status, body) = match read_body(request.into_body(), bounds.request).await {
                Ok(body) => {
                    seen.lock().unwrap().push(body.clone());
                    (StatusCode::OK, body)
                }
                Err(TooLargeOrBroken::TooLarge) => (StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
                Err(TooLargeOrBroken::Broken) => (StatusCode::BAD_REQUEST, Bytes::new()),
            };
            let mut answer = Response::new(Body::full(body));
            *answer.status_mut() = status;
            answer
        }
    })
    .await;
    Echo { addr, bodies, stop, server }
}

async fn exchange(addr: SocketAddr, parts: &[&[u8]]) -> Vec<u8> {
    let talk = async {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for part in parts {
            // The server may have answered and closed before it had everything.
            if stream.write_all(part).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    tokio::time::timeout(NET, talk).await.expect("the connection is closed")
}

#[tokio::test]
async fn ambiguous_requests_are_answered_400_and_closed_and_never_handled() {
    let server = echo(Bounds::default()).await;
    let all = ambiguous();
    assert!(all.len() >= 140, "{}", all.len());
    for (name, request) in all {
        let smuggled = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
        let answer = exchange(server.addr, &[&request, smuggled]).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "),
            "{name}: {answer}"
        );
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{name}: {answer}");
        assert_eq!(*server.bodies.lock().unwrap(), Vec::<Bytes>::new(), "{name}");
    }
}

#[tokio::test]
async fn an_ambiguous_request_behind_a_plain_one_is_refused_alone() {
    let server = echo(Bounds::default()).await;
    for (name, request) in ambiguous() {
        let first = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
        let answer = exchange(server.addr, &[&[first.as_slice(), &request].concat()]).await;
        let answer = String::from_utf8_lossy(&answer);
        // A client may follow a body with one empty line, so one more of them is refused already.
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
        assert_eq!(answer.matches(" 400 Bad Request").count(), 1, "{name}: {answer}");
        assert_eq!(std::mem::take(&mut *server.bodies.lock().unwrap()), ["abc"], "{name}");
    }
}

#[tokio::test]
async fn plain_requests_are_handled_in_order_under_every_cut() {
    let server = echo(Bounds::default()).await;
    for (request, bodies) in plain() {
        for cut in 0..=request.len() {
            let (head, tail) = request.as_bytes().split_at(cut);
            let answer = exchange(server.addr, &[head, tail]).await;
            let answer = String::from_utf8_lossy(&answer);
            assert_eq!(
                answer.matches(" 200 OK\r\n").count(),
                bodies.len(),
                "{request:?} {cut}: {answer}"
            );
            assert_eq!(
                std::mem::take(&mut *server.bodies.lock().unwrap()),
                bodies,
                "{request:?} {cut}"
            );
        }
    }
}

#[tokio::test]
async fn a_client_that_expects_to_be_told_to_continue_is_told() {
    let server = echo(Bounds::default()).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    tokio::time::timeout(NET, stream.read_exact(&mut told)).await.unwrap().unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(NET, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("abc"), "{answer}");
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused_and_the_client_gets_to_read_it() {
    let server = echo(Bounds { request: 1_000, ..Bounds::default() }).await;
    let big = vec![b'a'; 300_000];
    let told = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", big.len());
    let answer = exchange(server.addr, &[told.as_bytes(), &big]).await;
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n";
    let answer = exchange(server.addr, &[chunked.as_bytes(), &big, b"\r\n0\r\n\r\n"]).await;
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    let exact = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n";
    let answer = exchange(server.addr, &[exact.as_bytes(), &big[..400], &big[..600]]).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

/// How long the server waits for a body of a thousand bytes, of which one comes each `interval`.
async fn time_for_a_body(interval: Duration) -> Duration {
    let (mut client, server) = tokio::io::duplex(4 << 10);
    let (sender, read) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let sender = sender.lock().unwrap().take().unwrap();
        async move {
            let begin = Instant::now();
            let body = read_body(request.into_body(), 1_000).await;
            assert!(matches!(body, Err(TooLargeOrBroken::Broken)), "{body:?}");
            sender.send(begin.elapsed()).unwrap();
            Ok::<_, std::convert::Infallible>(Response::new(Body::full(Bytes::new())))
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let connection = tokio::spawn(async move { drop(connection.await) });
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n";
    client.write_all(head).await.unwrap();
    let trickle = tokio::spawn(async move {
        while client.write_all(b"a").await.is_ok() {
            tokio::time::sleep(interval).await;
        }
    });
    let time = read.await.unwrap();
    trickle.abort();
    connection.abort();
    time
}

#[tokio::test(start_paused = true)]
async fn a_body_has_half_a_minute_between_its_parts_and_five_minutes_in_all() {
    assert_eq!(time_for_a_body(Duration::from_secs(20)).await.as_secs(), 300);
    assert_eq!(time_for_a_body(Duration::from_secs(40)).await.as_secs(), 30);
}

#[tokio::test]
async fn a_head_beyond_the_bound_is_refused() {
    let server = echo(Bounds { head: 8 << 10, ..Bounds::default() }).await;
    for head in [
        format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "a".repeat(20_000)),
        format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(20_000)),
        format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: a\r\n".repeat(300)),
    ] {
        let answer = exchange(server.addr, &[head.as_bytes()]).await;
        assert!(answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    assert!(server.bodies.lock().unwrap().is_empty());
}

/// Sends a signal when it is dropped.
struct Told(Option<oneshot::Sender<()>>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.take().map(|told| told.send(()));
    }
}

struct Parts {
    parts: mpsc::UnboundedReceiver<Result<Bytes, BodyError>>,
    _told: Told,
}

impl BodySource for Parts {
    fn poll_data(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.parts.poll_recv(cx)
    }
}

type Sender = mpsc::UnboundedSender<Result<Bytes, BodyError>>;

/// A server that answers with the data sent to it here, and signals when the body is dropped.
async fn streaming() -> (SocketAddr, CancelToken, Sender, oneshot::Receiver<()>) {
    let (sender, parts) = mpsc::unbounded_channel();
    let (told, dropped) = oneshot::channel();
    let source = Arc::new(Mutex::new(Some(Parts { parts, _told: Told(Some(told)) })));
    let (addr, stop, _) = serve_with(Bounds::default(), move |_, _| {
        let source = source.lock().unwrap().take();
        async move { Response::new(source.map_or_else(Body::empty, Body::stream)) }
    })
    .await;
    (addr, stop, sender, dropped)
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[tokio::test]
async fn a_client_that_goes_away_drops_the_body_of_its_answer() {
    let (addr, _stop, sender, dropped) = streaming().await;
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(GET).await.unwrap();
    sender.send(Ok(Bytes::from_static(b"first"))).unwrap();
    let mut space = [0; 1024];
    assert!(stream.read(&mut space).await.unwrap() > 0);
    drop(stream);
    tokio::time::timeout(NET, dropped).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_drops_the_handler_that_waits() {
    let (told, dropped) = oneshot::channel();
    let told = Arc::new(Mutex::new(Some(Told(Some(told)))));
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let (addr, ..) = serve_with(Bounds::default(), move |request, _| {
        let (told, begun) = (told.lock().unwrap().take(), begun.clone());
        async move {
            let _told = told;
            read_body(request.into_body(), 10).await.unwrap();
            begun.send(()).unwrap();
            std::future::pending().await
        }
    })
    .await;
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na").await.unwrap();
    has_begun.recv().await.unwrap();
    drop(stream);
    tokio::time::timeout(NET, dropped).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_that_is_cut_ends_without_the_last_chunk_after_all_that_came_before() {
    let (addr, _stop, sender, _dropped) = streaming().await;
    for part in
        [Ok(Bytes::from_static(b"one")), Ok(Bytes::from_static(b"two")), Err(BodyError::Cut)]
    {
        sender.send(part).unwrap();
    }
    let answer = String::from_utf8(exchange(addr, &[GET]).await).unwrap();
    assert!(answer.contains("3\r\none\r\n") && answer.ends_with("3\r\ntwo\r\n"), "{answer}");
}

#[tokio::test]
async fn a_graceful_stop_lets_answers_end_and_a_cut_does_not() {
    for urgency in [Urgency::Graceful, Urgency::Now] {
        let (addr, stop, sender, dropped) = streaming().await;
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(GET).await.unwrap();
        sender.send(Ok(Bytes::from_static(b"first"))).unwrap();
        let mut space = [0; 1024];
        assert!(stream.read(&mut space).await.unwrap() > 0);
        stop.cancel(StopSignal::new(StopReason::UserRequested), urgency);
        if urgency == Urgency::Graceful {
            sender.send(Ok(Bytes::from_static(b"second"))).unwrap();
            drop(sender);
        }
        let mut rest = Vec::new();
        let read = tokio::time::timeout(NET, stream.read_to_end(&mut rest)).await.unwrap();
        let is_whole = read.is_ok() && rest.ends_with(b"6\r\nsecond\r\n0\r\n\r\n");
        assert_eq!(is_whole, urgency == Urgency::Graceful, "{}", String::from_utf8_lossy(&rest));
        dropped.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_ends_when_it_is_stopped() {
    let server = echo(Bounds::default()).await;
    let mut idle = TcpStream::connect(server.addr).await.unwrap();
    idle.write_all(GET).await.unwrap();
    let mut space = [0; 1024];
    assert!(idle.read(&mut space).await.unwrap() > 0);
    server.stop.cancel(StopSignal::new(StopReason::UserRequested), Urgency::Graceful);
    tokio::time::timeout(NET, server.server).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.addr).await.is_err());
}

#[tokio::test]
async fn more_connections_than_the_bound_wait() {
    let server = echo(Bounds { connections: 1, ..Bounds::default() }).await;
    let first = TcpStream::connect(server.addr).await.unwrap();
    let mut second = TcpStream::connect(server.addr).await.unwrap();
    second.write_all(GET).await.unwrap();
    let mut space = [0; 1024];
    let early = tokio::time::timeout(Duration::from_millis(50), second.read(&mut space)).await;
    assert!(early.is_err(), "answered although another connection is open");
    drop(first);
    assert!(tokio::time::timeout(NET, second.read(&mut space)).await.unwrap().unwrap() > 0);
}

/// A listener whose first connections come from one address, and the rest from another.
struct FromElsewhere(TcpListener, std::sync::atomic::AtomicUsize);

impl Accept for FromElsewhere {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, PeerInfo)> {
        let (stream, _) = self.0.accept().await?;
        let number = self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let address = if number < 3 { [192, 0, 2, 1] } else { [192, 0, 2, 2] };
        Ok((stream, PeerInfo::at((address, 1).into())))
    }
}

#[tokio::test]
async fn an_address_has_its_share_of_connections_and_others_go_on() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let bounds = Bounds { connections: 9, connections_per_client: 2, ..Bounds::default() };
    let handler = |_, _| async { Response::new(Body::empty()) };
    let stop = CancelToken::new();
    let listener = FromElsewhere(listener, Default::default());
    let server = tokio::spawn(serve(listener, bounds, false, handler, stop.clone()));
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(TcpStream::connect(addr).await.unwrap());
    }
    for (number, stream) in connections.iter_mut().enumerate() {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut begin = [0; 12];
        let read = tokio::time::timeout(NET, stream.read_exact(&mut begin)).await.unwrap();
        assert_eq!(read.is_ok(), number != 2, "{number}: {read:?}");
    }
    drop(connections);
    stop.cancel(StopSignal::new(StopReason::StopRequested), Urgency::Now);
    server.await.unwrap();
}
