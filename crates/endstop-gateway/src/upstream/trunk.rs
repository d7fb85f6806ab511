//! Shared connections to one upstream (HTTP/2): how many there are, and which has room for another call.

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

use super::connect::Wire;
use super::pool::MAX_IDLE;

/// Shared connections to one upstream. An upstream should take a hundred calls on each at least (RFC 9113), so these
/// are more than there are connections of clients.
const MAX_TRUNKS: usize = 64;

/// Windows of a shared connection. A stream may fill its own while nobody reads it; the others go on.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// What the number of streams is taken for until the upstream has said it; more than it can say.
const UNTOLD: usize = usize::MAX - 1;

/// When a shared connection with calls on it is asked whether it still lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pings {
    /// After so long without a frame from the upstream, which may think for minutes.
    pub(super) after: Duration,
    /// Without an answer in this time it is dead, and its calls fail.
    pub(super) within: Duration,
}

impl Default for Pings {
    fn default() -> Self {
        Self { after: Duration::from_secs(20), within: Duration::from_secs(20) }
    }
}

/// The shared connections to one upstream.
#[derive(Default)]
pub(super) struct Trunks {
    /// The oldest first.
    list: Mutex<Vec<Arc<Trunk>>>,
    begun: AtomicU64,
    /// A call is over, and there may be room where there was none.
    pub(super) freed: Notify,
}

/// Where a call may go.
pub(super) enum Pick {
    /// There is room.
    Slot(Slot),
    /// Wait until this one has said what it has room for.
    Untold(Arc<Trunk>),
    /// A new connection is needed.
    Connect,
    /// No more connections are made; wait until a call is over.
    Full,
}

impl Trunks {
    /// Room for a call; with `since` only on a connection that was begun after that one.
    ///
    /// The oldest is filled first: so those that only a rush needed run empty, and are closed once they are idle.
    pub(super) fn pick(self: &Arc<Self>, since: Option<u64>) -> Pick {
        let mut list = lock(&self.list);
        let is_over = |trunk: &mut Arc<Trunk>| trunk.is_over();
        // They are dropped below, when the list is free for others again.
        let over: Vec<_> = list.extract_if(.., is_over).collect();
        let is_full = list.len() >= MAX_TRUNKS;
        let is_fit =
            |trunk: &&Arc<Trunk>| is_full || since.is_none_or(|since| trunk.number > since);
        let mut untold = None;
        let mut pick = None;
        for trunk in list.iter().filter(is_fit) {
            let limit = trunk.limit();
            if trunk.take(limit.unwrap_or(1)) {
                let slot = Slot { trunk: Arc::clone(trunk), trunks: Arc::clone(self) };
                pick = Some(Pick::Slot(slot));
                break;
            }
            if limit.is_none() {
                untold.get_or_insert_with(|| Arc::clone(trunk));
            }
        }
        drop(list);
        drop(over);
        pick.or(untold.map(Pick::Untold)).unwrap_or(if is_full {
            Pick::Full
        } else {
            Pick::Connect
        })
    }

    /// Begins a connection, with room for one call.
    pub(super) async fn begin(
        self: &Arc<Self>,
        wire: Wire,
        pings: Pings,
    ) -> Result<Slot, hyper::Error> {
        let polled = Arc::new(Notify::new());
        let (sender, connection) = http2::Builder::new(Telling(Arc::clone(&polled)))
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(UNTOLD)
            .max_header_list_size(64 << 10)
            .keep_alive_interval(pings.after)
            .keep_alive_timeout(pings.within)
            .handshake(TokioIo::new(wire))
            .await?;
        let connection = Arc::new(Mutex::new(Some(connection)));
        tokio::spawn(drive(Arc::clone(&connection), Arc::clone(&polled)));
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let load = Mutex::new(Load { calls: 1, since: Instant::now() });
        let is_closing = AtomicBool::new(false);
        let trunk = Arc::new(Trunk { number, sender, connection, polled, load, is_closing });
        lock(&self.list).push(Arc::clone(&trunk));
        Ok(Slot { trunk, trunks: Arc::clone(self) })
    }

    /// The number of the newest connection.
    pub(super) fn newest(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }
}

type Http2 = Connection<TokioIo<Wire>, Full<Bytes>, Telling>;

/// A shared connection.
pub(super) struct Trunk {
    number: u64,
    sender: SendRequest<Full<Bytes>>,
    /// None when it is over.
    connection: Arc<Mutex<Option<Http2>>>,
    polled: Arc<Notify>,
    load: Mutex<Load>,
    is_closing: AtomicBool,
}

/// How many calls a connection has, and since when.
struct Load {
    calls: usize,
    since: Instant,
}

impl Trunk {
    /// Whether no more calls go to it. Those in flight there end by themselves.
    fn is_over(&self) -> bool {
        let load = lock(&self.load);
        let is_stale = load.calls == 0 && load.since.elapsed() >= MAX_IDLE;
        is_stale || self.is_closing.load(Ordering::Relaxed) || self.sender.is_closed()
    }

    /// How many calls the upstream takes at once; none until it has said so.
    fn limit(&self) -> Option<usize> {
        let connection = lock(&self.connection);
        let max = connection.as_ref().map(Connection::current_max_send_streams);
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
            if self.limit().is_some() || lock(&self.connection).is_none() {
                return;
            }
            polled.await;
        }
    }
}

/// The room for one call on a shared connection; given back when it is dropped.
pub(super) struct Slot {
    trunk: Arc<Trunk>,
    trunks: Arc<Trunks>,
}

impl Slot {
    pub(super) fn sender(&self) -> SendRequest<Full<Bytes>> {
        self.trunk.sender.clone()
    }

    /// Sends no more calls over the connection.
    pub(super) fn close(&self) {
        self.trunk.is_closing.store(true, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut load = lock(&self.trunk.load);
        load.calls = load.calls.saturating_sub(1);
        load.since = Instant::now();
        drop(load);
        self.trunks.freed.notify_one();
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("trunk", &self.trunk.number).finish_non_exhaustive()
    }
}

/// How an upstream says that it has not looked at a request.
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
        // What went wrong is told by the answers.
        Some(connection) => Pin::new(connection).poll(cx).map(drop),
        None => std::task::Poll::Ready(()),
    })
    .await;
    let over = lock(&connection).take();
    drop(over);
    polled.notify_waiters();
}

/// Spawns the tasks of a connection, and tells whenever one of them has made a step.
#[derive(Clone)]
pub(super) struct Telling(Arc<Notify>);

impl<F> Executor<F> for Telling
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
