//! Connections that are kept, for each upstream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::connect::{Connector, Place, Wire};
use super::exchange::{Exchange, Line};
use super::shared::Stream;
use super::{Kind, UpstreamBody, UpstreamError};

/// How long a connection may take to be there, the wait for others who connect and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept; shorter than what the usual servers keep theirs for.
const MAX_IDLE: Duration = Duration::from_secs(50);

/// Idle connections that are kept for one upstream.
const MAX_KEPT: usize = 256;

/// Windows of a shared connection. A stream may fill its own while nobody reads it; the others go on.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The pools of all upstreams. There are as many as configured bases, so a list is searched.
#[derive(Clone)]
pub(super) struct Pools {
    connector: Connector,
    pools: Arc<Mutex<Vec<Named>>>,
}

/// A pool and the base that it is for.
type Named = (Scheme, Authority, Arc<Pool>);

impl std::fmt::Debug for Pools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pools")
    }
}

impl Pools {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, pools: Arc::default() }
    }

    /// The pool of the upstream that `base` names.
    pub(super) fn of(&self, base: &Uri) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pools.iter().find(|(scheme, authority, _)| {
            Some(scheme) == base.scheme() && Some(authority) == base.authority()
        });
        if let Some((_, _, pool)) = known {
            return Arc::clone(pool);
        }
        let scheme = base.scheme().cloned().unwrap_or(Scheme::HTTPS);
        let is_tls = scheme != Scheme::HTTP;
        let place = Place {
            is_tls,
            host: base.host().unwrap_or_default().to_owned(),
            port: base.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
        };
        let pool = Arc::new(Pool::new(self.connector.clone(), place));
        if let Some(authority) = base.authority() {
            pools.push((scheme, authority.clone(), Arc::clone(&pool)));
        }
        pool
    }
}

/// The connections to one upstream.
pub(super) struct Pool {
    connector: Connector,
    place: Place,
    #[expect(clippy::vec_box, reason = "they move between here and their exchanges")]
    idle: Mutex<Vec<Box<Line>>>,
    shared: Mutex<Option<SendRequest<Full<Bytes>>>>,
    /// Held while the first connection over TLS is made, which tells what the upstream speaks.
    connecting: tokio::sync::Mutex<()>,
    has_own_lines: AtomicBool,
}

enum Way {
    Own(Box<Line>),
    Shared(SendRequest<Full<Bytes>>),
}

impl Pool {
    fn new(connector: Connector, place: Place) -> Self {
        let has_own_lines = AtomicBool::new(!place.is_tls);
        Self {
            connector,
            place,
            idle: Mutex::default(),
            shared: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            has_own_lines,
        }
    }

    /// Sends a request over a kept connection or a new one.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: Request<Bytes>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        let mut request = request.map(Full::new);
        // A connection that closes just before it is used gives the request back unsent; a second one in a row
        // is taken as an answer.
        for is_last in [false, true] {
            let way = if is_last { self.open().await? } else { self.way().await? };
            let failed = match way {
                Way::Own(mut line) => match line.send(request).await {
                    Ok(answer) => {
                        let kind = |body| UpstreamBody(Kind::Own(Exchange::new(body, line, self)));
                        return Ok(answer.map(kind));
                    }
                    Err(failed) => failed,
                },
                Way::Shared(mut sender) => {
                    match sender.try_send_request(self.absolute(request)?).await {
                        Ok(answer) => {
                            return Ok(
                                answer.map(|body| UpstreamBody(Kind::Shared(Stream::new(body))))
                            );
                        }
                        Err(failed) => failed,
                    }
                }
            };
            let mut failed = failed;
            match failed.take_message() {
                Some(unsent) if !is_last => request = unsent,
                _ => return Err(failed.into_error().into()),
            }
        }
        Err(UpstreamError::Path)
    }

    /// HTTP/2 takes scheme and host from the target.
    fn absolute(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Request<Full<Bytes>>, UpstreamError> {
        let (mut parts, body) = request.into_parts();
        let Some(host) = parts.headers.remove(http::header::HOST) else {
            return Ok(Request::from_parts(parts, body));
        };
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(if self.place.is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        uri.authority =
            Some(Authority::try_from(host.as_bytes()).map_err(|_| UpstreamError::Path)?);
        parts.uri = Uri::from_parts(uri).map_err(|_| UpstreamError::Path)?;
        Ok(Request::from_parts(parts, body))
    }

    /// Keeps a connection whose exchange is over, if it can be used again.
    pub(super) fn keep(&self, mut line: Box<Line>) {
        if !line.is_idle() {
            return;
        }
        line.used = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The longest idle ones stand first.
        let oldest = line.used.checked_sub(MAX_IDLE);
        let stale = idle.iter().take_while(|kept| Some(kept.used) < oldest).count();
        let stale = stale.max((idle.len() + 1).saturating_sub(MAX_KEPT));
        let closed: Vec<_> = idle.drain(..stale).collect();
        idle.push(line);
        drop(idle);
        drop(closed);
    }

    async fn idle_line(&self) -> Option<Box<Line>> {
        loop {
            let mut line = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if line.used.elapsed() < MAX_IDLE && line.is_usable().await {
                return Some(line);
            }
        }
    }

    fn shared_line(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.as_ref().is_some_and(SendRequest::is_closed) {
            *shared = None;
        }
        shared.clone()
    }

    async fn way(&self) -> Result<Way, UpstreamError> {
        if let Some(line) = self.idle_line().await {
            return Ok(Way::Own(line));
        }
        match self.shared_line() {
            Some(sender) => Ok(Way::Shared(sender)),
            None => self.open().await,
        }
    }

    async fn open(&self) -> Result<Way, UpstreamError> {
        let connected = async {
            if self.has_own_lines.load(Ordering::Relaxed) {
                return self.connect().await;
            }
            // Everybody who comes before the first connection is there waits for what it turns out to be.
            let _turn = self.connecting.lock().await;
            match self.shared_line() {
                Some(sender) => Ok(Way::Shared(sender)),
                None => self.connect().await,
            }
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connected).await;
        let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        connected.map_err(|error| UpstreamError::Connect {
            host: format!("{}:{}", self.place.host, self.place.port),
            error,
        })
    }

    async fn connect(&self) -> std::io::Result<Way> {
        let (wire, is_h2) = self.connector.connect(&self.place).await?;
        if is_h2 {
            let sender = shared(wire).await.map_err(std::io::Error::other)?;
            *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
            return Ok(Way::Shared(sender));
        }
        self.has_own_lines.store(true, Ordering::Relaxed);
        Line::open(wire).await.map(Way::Own).map_err(std::io::Error::other)
    }
}

async fn shared(wire: Wire) -> Result<SendRequest<Full<Bytes>>, hyper::Error> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(64 << 10)
        .handshake(TokioIo::new(wire))
        .await?;
    // It ends when the last sender and the last answer are gone, or the upstream closes.
    tokio::spawn(connection);
    Ok(sender)
}
