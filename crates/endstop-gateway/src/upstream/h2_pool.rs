//! Shared connections to one upstream (HTTP/2): how many there are, and which has room for another call.
//!
//! The client of hyper-util, which carries HTTP/1.1 here, has one HTTP/2 connection for each host: calls beyond the
//! streams that the upstream takes on it at one time wait until others are over, and a model call takes minutes. It
//! does not expose that number, and it cannot send a refused request over another connection. So this module uses the
//! connections of hyper itself.

use std::error::Error as _;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2::{self, Connection, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Notify;

use super::wire::Wire;
use crate::limits::{
    H2_CONNECTION_WINDOW, H2_PING_AFTER, H2_PING_WITHIN, H2_STREAM_WINDOW, MAX_H2_CONNECTIONS,
    MAX_H2_HEAD, MAX_IDLE_TIME,
};

/// The assumed number of streams until the upstream has announced it; more than it can announce.
const UNTOLD: usize = usize::MAX - 1;

/// When a shared connection with calls on it is asked whether it still lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pings {
    /// The time without a frame from the upstream, which may think for minutes.
    pub(super) after: Duration,
    /// Without an answer in this time it is dead, and its calls fail.
    pub(super) within: Duration,
}

impl Default for Pings {
    fn default() -> Self {
        Self { after: H2_PING_AFTER, within: H2_PING_WITHIN }
    }
}

/// The shared connections to one upstream.
#[derive(Default)]
pub(super) struct H2Pool {
    /// The oldest first.
    list: Mutex<Vec<Arc<H2Connection>>>,
    begun: AtomicU64,
    /// A call is over, and there may be room again.
    pub(super) freed: Notify,
}

/// Where a call may go.
pub(super) enum H2Pick {
    /// There is room.
    Slot(H2Slot),
    /// Wait until this one has said what it has room for.
    Untold(Arc<H2Connection>),
    /// A new connection is needed.
    Connect,
    /// No more connections are made; wait until a call is over.
    Full,
}

impl H2Pool {
    /// Room for a call; with `since` only on a connection that is newer than that one.
    ///
    /// The oldest is filled first: so those that only a rush needed run empty, and are closed once they are idle.
    pub(super) fn pick(self: &Arc<Self>, since: Option<u64>) -> H2Pick {
        let mut list = lock(&self.list);
        let is_over = |connection: &mut Arc<H2Connection>| connection.is_over();
        // They are dropped below, when the list is free for others again.
        let over: Vec<_> = list.extract_if(.., is_over).collect();
        let is_full = list.len() >= MAX_H2_CONNECTIONS;
        let is_fit = |connection: &&Arc<H2Connection>| {
            is_full || since.is_none_or(|since| connection.number > since)
        };
        let mut untold = None;
        let mut pick = None;
        for connection in list.iter().filter(is_fit) {
            let limit = connection.limit();
            if connection.take(limit.unwrap_or(1)) {
                let slot = H2Slot { connection: Arc::clone(connection), pool: Arc::clone(self) };
                pick = Some(H2Pick::Slot(slot));
                break;
            }
            if limit.is_none() {
                untold.get_or_insert_with(|| Arc::clone(connection));
            }
        }
        drop(list);
        drop(over);
        pick.or(untold.map(H2Pick::Untold)).unwrap_or(if is_full {
            H2Pick::Full
        } else {
            H2Pick::Connect
        })
    }

    /// Begins a connection, with room for one call.
    pub(super) async fn begin(
        self: &Arc<Self>,
        wire: Wire,
        pings: Pings,
    ) -> Result<H2Slot, hyper::Error> {
        let polled = Arc::new(Notify::new());
        let (sender, http) = http2::Builder::new(NotifyingExecutor(Arc::clone(&polled)))
            .timer(TokioTimer::new())
            .initial_stream_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_CONNECTION_WINDOW)
            .initial_max_send_streams(UNTOLD)
            .max_header_list_size(MAX_H2_HEAD)
            .keep_alive_interval(pings.after)
            .keep_alive_timeout(pings.within)
            .handshake(TokioIo::new(wire))
            .await?;
        let http = Arc::new(Mutex::new(Some(http)));
        tokio::spawn(drive(Arc::clone(&http), Arc::clone(&polled)));
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let load = Mutex::new(CallLoad { calls: 1, since: Instant::now() });
        let is_closing = AtomicBool::new(false);
        let connection = Arc::new(H2Connection { number, sender, http, polled, load, is_closing });
        lock(&self.list).push(Arc::clone(&connection));
        Ok(H2Slot { connection, pool: Arc::clone(self) })
    }

    /// The number of the newest connection.
    pub(super) fn newest(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }
}

type Http2 = Connection<TokioIo<Wire>, Full<Bytes>, NotifyingExecutor>;

/// A shared connection.
pub(super) struct H2Connection {
    number: u64,
    sender: SendRequest<Full<Bytes>>,
    /// None when it is over.
    http: Arc<Mutex<Option<Http2>>>,
    polled: Arc<Notify>,
    load: Mutex<CallLoad>,
    is_closing: AtomicBool,
}

/// How many calls a connection has, and since when.
struct CallLoad {
    calls: usize,
    since: Instant,
}

impl H2Connection {
    /// Whether no more calls go to it. Those in flight there finish.
    fn is_over(&self) -> bool {
        let load = lock(&self.load);
        let is_stale = load.calls == 0 && load.since.elapsed() >= MAX_IDLE_TIME;
        is_stale || self.is_closing.load(Ordering::Relaxed) || self.sender.is_closed()
    }

    /// The number of parallel calls that the upstream takes; `None` until it has announced it.
    fn limit(&self) -> Option<usize> {
        let http = lock(&self.http);
        let max = http.as_ref().map(Connection::current_max_send_streams);
        max.filter(|max| *max != UNTOLD)
    }

    fn take(&self, limit: usize) -> bool {
        let mut load = lock(&self.load);
        let has_room = load.calls < limit;
        load.calls += usize::from(has_room);
        has_room
    }

    /// Waits until the upstream has said how many calls it takes, or the connection is over.
    pub(super) async fn told(&self) {
        loop {
            let mut polled = pin!(self.polled.notified());
            polled.as_mut().enable();
            if self.limit().is_some() || lock(&self.http).is_none() {
                return;
            }
            polled.await;
        }
    }
}

/// The room for one call on a shared connection; given back when it is dropped.
pub(super) struct H2Slot {
    connection: Arc<H2Connection>,
    pool: Arc<H2Pool>,
}

impl H2Slot {
    pub(super) fn sender(&self) -> SendRequest<Full<Bytes>> {
        self.connection.sender.clone()
    }

    /// Sends no more calls over the connection.
    pub(super) fn close(&self) {
        self.connection.is_closing.store(true, Ordering::Relaxed);
    }
}

impl Drop for H2Slot {
    fn drop(&mut self) {
        let mut load = lock(&self.connection.load);
        load.calls = load.calls.saturating_sub(1);
        load.since = Instant::now();
        drop(load);
        self.pool.freed.notify_one();
    }
}

impl std::fmt::Debug for H2Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("H2Slot")
            .field("connection", &self.connection.number)
            .finish_non_exhaustive()
    }
}

/// How an upstream says that it has not processed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Of this request alone.
    Stream,
    /// The connection takes no more.
    Connection,
}

/// The refusal that an error is. A request that is refused so was not processed, by the rules of the protocol (RFC
/// 9113, 8.7); the peer's word for the closing of a connection reaches only those requests that it names as such.
/// Anything else may have been processed.
pub(super) fn refusal(error: &hyper::Error) -> Option<Refusal> {
    let error = error.source()?.downcast_ref::<h2::Error>()?;
    if !error.is_remote() {
        return None;
    }
    if error.is_go_away() {
        return Some(Refusal::Connection);
    }
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    is_refused.then_some(Refusal::Stream)
}

/// Runs a connection: until the last sender and the last answer are gone, or the upstream closes it.
async fn drive(connection: Arc<Mutex<Option<Http2>>>, polled: Arc<Notify>) {
    poll_fn(|cx| match &mut *lock(&connection) {
        // The responses report errors.
        Some(connection) => Pin::new(connection).poll(cx).map(drop),
        None => std::task::Poll::Ready(()),
    })
    .await;
    let over = lock(&connection).take();
    drop(over);
    polled.notify_waiters();
}

/// Spawns the tasks of a connection, and notifies whenever one of them has made a step.
#[derive(Clone)]
pub(super) struct NotifyingExecutor(Arc<Notify>);

impl<F> Executor<F> for NotifyingExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let polled = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut future = pin!(future);
            poll_fn(|cx| {
                let step = future.as_mut().poll(cx).map(drop);
                polled.notify_waiters();
                step
            })
            .await;
        });
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
