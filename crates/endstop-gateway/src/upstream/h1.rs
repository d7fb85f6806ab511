//! HTTP/1.1 to one upstream, by the pooled client of hyper-util: a connection for each call in flight.
//!
//! # Why the library
//!
//! An earlier client of this gateway polled each connection in the task of its call. Both were measured in a relay of
//! the gateway's server and client alone, in alternating rounds on a busy machine with 16 connections. CPU is user and
//! system time of the process for each request (median of twelve rounds); instructions are from callgrind, without the
//! kernel's. Telling the time to connect from the time to answer is not in the figures: it takes some allocations for
//! each request.
//!
//! | | earlier client | hyper-util |
//! |---|---|---|
//! | JSON request: CPU | 59 µs | 49 µs |
//! | instructions | 52,200 | 57,800 |
//! | system calls | 5.2 | 4.2 |
//! | stream of 53 events at once: CPU | 76 µs | 82 µs |
//! | instructions | 68,700 | 96,300 |
//! | separate event: CPU | 36 µs | 31 µs |
//!
//! The rule was to use the library if it costs at most a quarter more CPU for each JSON request. The earlier client
//! had to check a socket before it used it again. A connection with a separate task has read the end of its stream by
//! then. A stream costs more instructions because its frames pass from one task to another.
//!
//! # What may be sent twice
//!
//! Nothing that was written. The library sends a request again only if the connection gives it back whole: the request
//! waited for a kept connection, and the upstream closed that before a byte of the request went out.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tower_service::Service;

use super::chunks::JoinedChunks;
use super::connect::{Connector, UpstreamAddress};
use super::wire::Wire;
use crate::limits::{CONNECT_TIMEOUT, MAX_IDLE_CONNECTIONS, MAX_IDLE_TIME, MAX_RESPONSE_HEAD};

/// A connection that was made to learn which protocol the upstream prefers, and the time when it was made.
type AdoptedWire = Arc<Mutex<Option<(Wire, Instant)>>>;

/// Sends requests over HTTP/1.1 and keeps the connections.
pub(super) struct H1Client {
    client: legacy::Client<H1Connector, Full<Bytes>>,
    adopted: AdoptedWire,
}

impl H1Client {
    pub(super) fn new(connector: Connector, address: Arc<UpstreamAddress>) -> Self {
        let adopted = AdoptedWire::default();
        let connector = H1Connector { connector, address, adopted: Arc::clone(&adopted) };
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(MAX_IDLE_TIME)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http1_max_buf_size(MAX_RESPONSE_HEAD)
            .set_host(false)
            // It sends again only what a kept connection did not begin to write before it closed.
            .retry_canceled_requests(true)
            .build(connector);
        Self { client, adopted }
    }

    /// Takes a connection that was made to learn which protocol the upstream prefers; the next request uses it.
    pub(super) fn adopt(&self, wire: Wire) {
        let since = Instant::now();
        *self.adopted.lock().unwrap_or_else(PoisonError::into_inner) = Some((wire, since));
    }

    /// Sends a request whose target is absolute; the upstream receives the path of it, or a proxy all of it. The upstream has
    /// the time `within` to answer, from when the request has its connection.
    ///
    /// # Cancel safety
    /// Dropping it closes the connection that has the request, and abandons a connection that is being made.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Incoming>, H1Error> {
        let mut connection = capture_connection(&mut request);
        let mut answer = pin!(self.client.request(request));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = async { drop(connection.wait_for_connection_metadata().await) } => {
                let answer = tokio::time::timeout(within, answer).await;
                answer.map_err(|_| H1Error::Silent)?
            }
        };
        answer.map_err(|error| H1Error::new(&error, connection.connection_metadata().is_some()))
    }
}

/// Why a request over HTTP/1.1 got no response.
#[derive(Debug)]
pub(super) enum H1Error {
    /// There is no connection.
    Connect(io::Error),
    /// Nothing of the request was written.
    Unsent(String),
    /// The request has its connection, and no answer has begun in time.
    Silent,
    /// The request, or a part of it, was written.
    Broken(String),
}

impl H1Error {
    /// The kind of an error, by whether the request was handed to a connection.
    fn new(error: &legacy::Error, had_connection: bool) -> Self {
        let source = std::error::Error::source(error);
        if error.is_connect() {
            let reason = source.and_then(|source| source.downcast_ref::<io::Error>());
            let reason = reason.map(|reason| io::Error::new(reason.kind(), reason.to_string()));
            return Self::Connect(reason.unwrap_or_else(|| io::Error::other(error.to_string())));
        }
        let reason = source.and_then(|source| source.downcast_ref::<hyper::Error>());
        let text = reason.map_or_else(|| error.to_string(), ToString::to_string);
        if reason.is_some_and(hyper::Error::is_canceled) || !had_connection {
            Self::Unsent(text)
        } else {
            Self::Broken(text)
        }
    }
}

/// Connects to one upstream for the library.
#[derive(Clone)]
struct H1Connector {
    connector: Connector,
    address: Arc<UpstreamAddress>,
    adopted: AdoptedWire,
}

impl Service<Uri> for H1Connector {
    type Response = H1Wire;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<H1Wire>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The target is known: each client has one upstream.
    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { connector, address, adopted } = self.clone();
        Box::pin(async move {
            let is_asked_proxy = address.asked_proxy().is_some();
            let adopted = adopted.lock().unwrap_or_else(PoisonError::into_inner).take();
            let wire = match adopted {
                Some((wire, since)) if since.elapsed() < MAX_IDLE_TIME => wire,
                _ => {
                    let connect = connector.connect_h1(&address);
                    tokio::time::timeout(CONNECT_TIMEOUT, connect)
                        .await
                        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?
                }
            };
            Ok(H1Wire { io: TokioIo::new(JoinedChunks::new(wire)), is_asked_proxy })
        })
    }
}

/// A connection as the library sees it.
struct H1Wire {
    io: TokioIo<JoinedChunks<Wire>>,
    is_asked_proxy: bool,
}

impl Connection for H1Wire {
    fn connected(&self) -> Connected {
        // A proxy that receives requests for the upstream needs the whole target.
        Connected::new().proxy(self.is_asked_proxy)
    }
}

impl hyper::rt::Read for H1Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for H1Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
