//! An upstream for tests: raw TCP, each answer spelled out byte by byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// An act on a connection after a complete request was read.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Writes at once.
    Write(Vec<u8>),
    /// Waits for the test to say so.
    Wait,
    /// Closes properly.
    Close,
    /// Resets the connection.
    Reset,
    /// Signals when the peer has closed.
    TellWhenClosed,
}

pub(super) fn write(text: impl AsRef<[u8]>) -> Act {
    Act::Write(text.as_ref().to_vec())
}

/// A complete response with a length.
pub(super) fn whole(body: &str) -> Act {
    write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// The upstream; each request takes the next row of acts, the last row stands for all after it.
pub(super) struct Fake {
    pub(super) addr: SocketAddr,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) requests: Arc<Mutex<Vec<String>>>,
    pub(super) go: mpsc::UnboundedSender<()>,
    pub(super) closed: mpsc::UnboundedReceiver<()>,
}

impl Fake {
    pub(super) async fn start(script: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (go, going) = mpsc::unbounded_channel();
        let (told, closed) = mpsc::unbounded_channel();
        let going = Arc::new(tokio::sync::Mutex::new(going));
        let (count, seen) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (script, seen) = (script.clone(), Arc::clone(&seen));
                let (going, told) = (Arc::clone(&going), told.clone());
                tokio::spawn(serve(stream, script, seen, going, told));
            }
        });
        Self { addr, connections, requests, go, closed }
    }

    pub(super) fn base(&self) -> Uri {
        format!("http://{}/v1", self.addr).parse().unwrap()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Waits until everything sent has arrived and was processed. In a test everything runs in one thread, and each turn
/// of its loop takes all data on its way one station further, however long the machine lets it wait.
pub(super) async fn all_that_is_on_its_way() {
    const TURNS: usize = 25;
    for _ in 0..TURNS {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Vec<Vec<Act>>,
    seen: Arc<Mutex<Vec<String>>>,
    going: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<()>>>,
    told: mpsc::UnboundedSender<()>,
) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = request(&mut stream).await {
        let at = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len() - 1
        };
        for act in script.get(at).or(script.last()).unwrap() {
            match act {
                Act::Write(bytes) => {
                    // A client that has gone is what some tests are about.
                    let _ = stream.write_all(bytes).await;
                }
                Act::Wait => going.lock().await.recv().await.unwrap(),
                Act::Close => return,
                Act::Reset => {
                    socket2::SockRef::from(&stream)
                        .set_linger(Some(std::time::Duration::ZERO))
                        .unwrap();
                    return;
                }
                Act::TellWhenClosed => {
                    while matches!(stream.read(&mut [0; 64]).await, Ok(read) if read > 0) {}
                    let _ = told.send(());
                    return;
                }
            }
        }
    }
}

/// One request with a `Content-Length`, or without a body.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut all = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&all);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        match stream.read_buf(&mut all).await {
            Ok(read) if read > 0 => {}
            _ => return None,
        }
    }
}
