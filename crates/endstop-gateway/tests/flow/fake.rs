//! An upstream that does what a test says, byte by byte, and counts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Arrived {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The next act of the upstream.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Send(Vec<u8>),
    Wait(Duration),
    /// Until the test lets it continue.
    Gate(Arc<Notify>),
    /// Closes the connection.
    Close,
    /// Reads until the gateway closes, and counts that.
    AwaitClose,
}

type Script = dyn Fn(&Arrived, usize) -> Vec<Act> + Send + Sync;

pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    seen: Arc<Mutex<Vec<Arrived>>>,
    pub(crate) closed: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    /// `script` says what is answered; it gets the request and how many came before it.
    pub(crate) async fn start(
        script: impl Fn(&Arrived, usize) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicUsize::new(0));
        let script: Arc<Script> = Arc::new(script);
        let sent = Arc::new(AtomicUsize::new(0));
        let (requests, closes) = (Arc::clone(&seen), Arc::clone(&closed));
        let acts = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&requests));
                let (closed, sent) = (Arc::clone(&closes), Arc::clone(&acts));
                tokio::spawn(async move { serve(stream, &*script, &seen, &closed, &sent).await });
            }
        });
        Self { addr, seen, closed, sent, task }
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The number of complete responses.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn seen(&self) -> Vec<Arrived> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    script: &Script,
    seen: &Mutex<Vec<Arrived>>,
    closed: &AtomicUsize,
    sent: &AtomicUsize,
) {
    let mut buffer = Vec::new();
    while let Some(arrived) = read_request(&mut stream, &mut buffer).await {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(arrived.clone());
            seen.len() - 1
        };
        for act in script(&arrived, number) {
            match act {
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        closed.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    sent.fetch_add(1, Ordering::SeqCst);
                }
                Act::Wait(time) => tokio::time::sleep(time).await,
                Act::Gate(gate) => gate.notified().await,
                Act::Close => return,
                Act::AwaitClose => {
                    let mut rest = [0u8; 64];
                    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
                    closed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Arrived> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned)
        })
        .map_or(0, |value| value.trim().parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&buffer[end..end + length]).into_owned();
    buffer.drain(..end + length);
    Some(Arrived { head, body })
}

/// A whole JSON answer.
pub(crate) fn json(status: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    vec![Act::Send(
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: req_7\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes(),
    )]
}

/// The head of a stream.
pub(crate) fn sse_head() -> Act {
    Act::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec(),
    )
}

/// One chunk of a stream.
pub(crate) fn chunk(bytes: &[u8]) -> Act {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    Act::Send(out)
}

/// The end of a stream.
pub(crate) fn sse_end() -> Act {
    Act::Send(b"0\r\n\r\n".to_vec())
}

/// The head of an answer of this length.
pub(crate) fn json_with(header: &str, length: usize) -> Act {
    Act::Send(
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{header}content-length: {length}\r\n\r\n"
        )
        .into_bytes(),
    )
}
