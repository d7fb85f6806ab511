//! Connections of clients.
//!
//! HTTP/1.1 only: every client of a base URL on a plain port uses it. A connection is one task, and its handler runs
//! in it, so a client that disconnects drops the handler's future or the body of its response immediately. The
//! framing of requests is checked before HTTP is parsed (see [`guard`]).

#[cfg(test)]
mod corpus;
mod framing;
mod guard;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use endstop_runtime::cancel::CancelToken;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::body::Body;
use crate::client::{ClientId, ClientShare, Shares};
use crate::config::Bounds;
use crate::limits::{
    ACCEPT_PAUSE, BODY_DEADLINE, BODY_TIMEOUT, HEAD_TIMEOUT, RESERVED_BODY_BYTES, TIMER_BEAT,
};
use guard::Guarded;

/// The sender of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerInfo {
    /// Its address. `None` on a unix socket.
    addr: Option<SocketAddr>,
    /// The share of connections of the issued key that came over this one last.
    of_key: Arc<Mutex<Option<ClientShare>>>,
}

impl PeerInfo {
    fn at(addr: SocketAddr) -> Self {
        Self { addr: Some(addr), of_key: Arc::default() }
    }

    /// Its address, if it has one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        Some(self.addr?.ip().to_canonical())
    }

    /// The client by its address, if that distinguishes clients.
    pub(crate) fn client(&self) -> Option<ClientId> {
        ClientId::at(self.addr?.ip())
    }

    /// Counts the connection as one with an issued key, until it ends or brings another. Returns `false` if there are too
    /// many with this key.
    pub(crate) fn hold(&self, shares: &Arc<Shares>, key: u64, bounds: &Bounds) -> bool {
        let client = ClientId::Key(key);
        let mut of_key = self.of_key.lock().unwrap_or_else(PoisonError::into_inner);
        if of_key.as_ref().is_some_and(|share| share.client() == client) {
            return true;
        }
        *of_key = shares.take(client, bounds.connections_per_client);
        of_key.is_some()
    }
}

/// Why the body of a request cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TooLargeOrBroken {
    /// It is too large: 413. The rest is not read.
    #[error("the body of the request is too large")]
    TooLarge,
    /// It ended early, its framing is wrong, or its sender fell silent: 400.
    #[error("the body of the request cannot be read")]
    Broken,
}

/// A listener of connections.
pub(crate) trait Accept: Send {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection.
    ///
    /// # Cancel safety
    /// No connection is lost.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, PeerInfo)>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, PeerInfo)> {
        let (stream, addr) = Self::accept(self).await?;
        // Without it, the socket is only slower.
        let _ = stream.set_nodelay(true);
        Ok((stream, PeerInfo::at(addr)))
    }
}

#[cfg(unix)]
impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, PeerInfo)> {
        loop {
            let (stream, _) = Self::accept(self).await?;
            if is_of_this_user(&stream) {
                return Ok((stream, PeerInfo::default()));
            }
        }
    }
}

/// Whether the process at the other end belongs to the user of this one, or to root. The directory of the socket
/// keeps others out; this check holds even if its permissions are opened.
#[cfg(unix)]
fn is_of_this_user(stream: &UnixStream) -> bool {
    let own = nix::unistd::Uid::effective();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own.as_raw() || peer.uid() == 0)
}

/// Serves connections until `stop` is cancelled. If that is graceful, calls in flight finish first; otherwise they are
/// cut. With `takes_connect` the handler gets `CONNECT` too, and answers it with a tunnel or closes the connection.
///
/// The end of a connection, and the drop of this future, drop the handlers that run in it.
pub(crate) async fn serve<L, H, F>(
    listener: L,
    bounds: Bounds,
    takes_connect: bool,
    handler: H,
    stop: CancelToken,
) where
    L: Accept,
    H: Fn(Request<Incoming>, PeerInfo) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(bounds.connections));
    let shares = Arc::<Shares>::default();
    let mut connections = JoinSet::new();
    let mut stopped = pin!(stop.cancelled());
    let mut beat = tokio::time::interval(TIMER_BEAT);
    loop {
        let accepted = async {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return std::future::pending().await;
            };
            (listener.accept().await, permit)
        };
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            _ = beat.tick() => {}
            (accepted, permit) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let client = peer.client();
                    let share = client.map(|it| shares.take(it, bounds.connections_per_client));
                    let Some(share) = share.map_or(Some(None), |share| share.map(Some)) else {
                        // Closed at once: the client has its share.
                        continue;
                    };
                    let socket = Guarded::new(stream, bounds.head, takes_connect);
                    let connection = connection(socket, bounds, handler.clone(), peer, stop.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop((share, permit));
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Answers the requests of one connection. It takes no `CONNECT`.
pub(crate) async fn answer<S, H, F>(
    stream: S,
    bounds: Bounds,
    handler: H,
    peer: PeerInfo,
    stop: CancelToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, PeerInfo) -> F + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    connection(Guarded::new(stream, bounds.head, false), bounds, handler, peer, stop).await;
}

async fn connection<S, H, F>(
    socket: Guarded<S>,
    bounds: Bounds,
    handler: H,
    peer: PeerInfo,
    stop: CancelToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, PeerInfo) -> F + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(move |request| {
        // Boxed: otherwise every idle connection would have room for a call.
        let answer = Box::pin(handler(request, peer.clone()));
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            // The default of a hundred header fields stays: setting a number costs an allocation per request.
            .max_buf_size(bounds.head.max(8 << 10))
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades()
    );
    tokio::select! {
        // How a connection ended is the client's affair.
        _ = &mut connection => return,
        _ = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = &mut connection => {}
        _ = stop.aborted() => {}
    }
}

/// Reads the whole body of a request, up to `max` bytes.
///
/// # Errors
/// Returns an error if it is larger, broken, or its sender is silent for half a minute or takes five minutes in all.
/// The connection should then be closed with the response; hyper does so if the body was not read in full.
pub(crate) async fn read_body(incoming: Incoming, max: usize) -> Result<Bytes, TooLargeOrBroken> {
    let told = incoming.size_hint();
    if told.lower() > max as u64 {
        return Err(TooLargeOrBroken::TooLarge);
    }
    let mut incoming = incoming;
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let deadline = Instant::now() + BODY_DEADLINE;
    while let Some(frame) = next_frame(&mut incoming, deadline).await? {
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > max {
            return Err(TooLargeOrBroken::TooLarge);
        }
        if first.is_empty() && all.is_empty() {
            // Most bodies come in one piece, which needs no copy.
            first = data;
        } else {
            if all.is_empty() {
                let expected = told.exact().and_then(|size| usize::try_from(size).ok());
                all.reserve(
                    expected.unwrap_or(0).min(RESERVED_BODY_BYTES).max(first.len() + data.len()),
                );
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

async fn next_frame(
    incoming: &mut Incoming,
    deadline: Instant,
) -> Result<Option<http_body::Frame<Bytes>>, TooLargeOrBroken> {
    // The timer only starts if there is something to wait for.
    let until = deadline.min(Instant::now() + BODY_TIMEOUT);
    let frame = tokio::time::timeout_at(until, incoming.frame()).await;
    let frame = frame.map_err(|_| TooLargeOrBroken::Broken)?;
    frame.transpose().map_err(|_| TooLargeOrBroken::Broken)
}

#[cfg(test)]
mod tests;
