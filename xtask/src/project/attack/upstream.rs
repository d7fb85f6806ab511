//! The upstream that misbehaves: it answers what a row says, byte by byte, and adds up its bill.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::bill::{Arrival, Work};
use super::reply;

/// How long it thinks, so that calls side by side are in flight together. No result depends on it.
const THINKING: Duration = Duration::from_millis(5);

/// How the upstream serves one request.
#[derive(Debug)]
pub(in crate::project) struct Serving {
    /// The tokens that it bills.
    pub(in crate::project) work: Work,
    pub(in crate::project) sent: Sent,
}

/// The bytes that the gateway gets from it.
#[derive(Debug)]
pub(in crate::project) enum Sent {
    /// A complete answer.
    Whole(Vec<u8>),
    /// These bytes; then the connection breaks.
    Broken(Vec<u8>),
    /// The first bytes, and after a pause the last ones.
    Slowly(Vec<u8>, Duration, Vec<u8>),
    /// These bytes; then nothing until the gateway closes. If the client has left, the connection breaks.
    Silence(Vec<u8>),
}

/// How it serves the request of this number, which counts model calls from 0.
pub(in crate::project) type Serve = fn(&Arrival, u64) -> Serving;

/// Like [`Serve`], but with its own values.
trait ServeCall: Fn(&Arrival, u64) -> Serving + Send + Sync {}

impl<F: Fn(&Arrival, u64) -> Serving + Send + Sync> ServeCall for F {}

/// A running upstream.
pub(in crate::project) struct Upstream {
    pub(in crate::project) addr: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    serve: Box<dyn ServeCall>,
    /// Model calls that arrived.
    calls: watch::Sender<u64>,
    /// Clients that have left.
    left: watch::Sender<u64>,
    /// Pico-dollars.
    billed: AtomicU64,
}

impl Upstream {
    /// # Errors
    /// If no port of the loopback address is free.
    pub(in crate::project) async fn start(
        serve: impl Fn(&Arrival, u64) -> Serving + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let serve = Box::new(serve);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let (calls, left) = (watch::Sender::new(0), watch::Sender::new(0));
        let state = Arc::new(State { serve, calls, left, billed: AtomicU64::new(0) });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                // A connection that breaks is what many rows are about.
                tokio::spawn(async move { state.connection(stream).await.unwrap_or_default() });
            }
        });
        Ok(Self { addr, state, task })
    }

    /// Model calls that arrived.
    pub(in crate::project) fn calls(&self) -> u64 {
        *self.state.calls.borrow()
    }

    /// Waits until more model calls than this have arrived.
    pub(in crate::project) async fn has_more_than(&self, calls: u64) {
        let mut arrived = self.state.calls.subscribe();
        // The sender lives as long as this does.
        let _ = arrived.wait_for(|now| *now > calls).await;
    }

    /// A client has left.
    pub(in crate::project) fn client_has_left(&self) {
        self.state.left.send_modify(|left| *left = left.saturating_add(1));
    }

    /// Pico-dollars billed so far.
    pub(in crate::project) fn billed(&self) -> u64 {
        self.state.billed.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    async fn connection(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(arrival) = read_request(&mut stream, &mut buffer).await? {
            if arrival.is_count() {
                stream.write_all(&reply::count(&arrival)).await?;
                continue;
            }
            let mut left = self.left.subscribe();
            let left_before = *left.borrow();
            let number = *self.calls.borrow();
            let serving = (self.serve)(&arrival, number);
            self.billed.fetch_add(arrival.bill(&serving.work), Ordering::SeqCst);
            self.calls.send_modify(|calls| *calls = calls.saturating_add(1));
            tokio::time::sleep(THINKING).await;
            match serving.sent {
                Sent::Whole(bytes) => stream.write_all(&bytes).await?,
                Sent::Slowly(first, pause, rest) => {
                    stream.write_all(&first).await?;
                    tokio::time::sleep(pause).await;
                    stream.write_all(&rest).await?;
                }
                Sent::Broken(bytes) => return stream.write_all(&bytes).await,
                Sent::Silence(bytes) => {
                    stream.write_all(&bytes).await?;
                    let mut rest = [0u8; 64];
                    tokio::select! {
                        _ = stream.read(&mut rest) => {}
                        _ = left.wait_for(|now| *now > left_before) => {}
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The next request; `None` at the end of the connection.
async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<Option<Arrival>> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at.saturating_add(4);
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned();
    let lines = head.lines().map(str::to_ascii_lowercase);
    let mut lengths =
        lines.filter_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let whole = end.saturating_add(lengths.next().unwrap_or(0));
    while buffer.len() < whole {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = String::from_utf8_lossy(buffer.get(end..whole).unwrap_or_default()).into_owned();
    buffer.drain(..whole);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok(Some(Arrival { path, body }))
}
