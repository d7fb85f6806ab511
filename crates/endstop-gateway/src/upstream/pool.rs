//! Connections that are kept, for each upstream.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;

use super::connect::{Connector, Place};
use super::exchange::{Exchange, Line};
use super::proxy::Proxies;
use super::shared::Stream;
use super::trunk::{Pick, Pings, Refusal, Slot, Trunks, refusal};
use super::{Kind, UpstreamBody, UpstreamError};

/// How long a connection may take to be there, the wait for others who connect and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept; shorter than what the usual servers keep theirs for.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(50);

/// Idle connections that are kept for one upstream.
const MAX_KEPT: usize = 256;

/// What a proxy answers that wants to know who asks.
const ASKS_WHO: StatusCode = StatusCode::PROXY_AUTHENTICATION_REQUIRED;

/// The pools of all upstreams. There are as many as configured bases, so a list is searched.
#[derive(Clone)]
pub(super) struct Pools {
    connector: Connector,
    pub(super) pings: Pings,
    pub(super) answer_within: Duration,
    proxies: Proxies,
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
    pub(super) fn new(connector: Connector, proxies: Proxies) -> Self {
        let (pings, answer_within) = (Pings::default(), Duration::MAX);
        Self { connector, pings, answer_within, proxies, pools: Arc::default() }
    }

    #[cfg(test)]
    pub(super) const fn proxies(&self) -> &Proxies {
        &self.proxies
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
            proxy: self.proxies.on_the_way_to(base),
        };
        let pool = Arc::new(Pool::new(self, place));
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
    pings: Pings,
    answer_within: Duration,
    #[expect(clippy::vec_box, reason = "they move between here and their exchanges")]
    idle: Mutex<Vec<Box<Line>>>,
    trunks: Arc<Trunks>,
    /// Held while a connection over TLS is made by which others may go too.
    connecting: tokio::sync::Mutex<()>,
    has_own_lines: AtomicBool,
}

enum Way {
    Own(Box<Line>),
    Shared(Slot),
}

/// A request that got no answer.
struct Failed {
    error: UpstreamError,
    /// The request, where the upstream certainly has not processed it.
    unsent: Option<Request<Full<Bytes>>>,
}

impl Failed {
    /// For good.
    fn with(error: UpstreamError) -> Box<Self> {
        Box::new(Self { error, unsent: None })
    }
}

impl Pool {
    fn new(of: &Pools, place: Place) -> Self {
        let has_own_lines = AtomicBool::new(!place.is_tls);
        Self {
            connector: of.connector.clone(),
            place,
            pings: of.pings,
            answer_within: of.answer_within,
            idle: Mutex::default(),
            trunks: Arc::default(),
            connecting: tokio::sync::Mutex::default(),
            has_own_lines,
        }
    }

    /// Sends a request over a kept connection or a new one; once more over a new one where it certainly was not
    /// processed. A second such failure in a row is taken as an answer.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: Request<Bytes>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        let mut request = request.map(Full::new);
        if let Some(proxy) = self.place.asked_proxy() {
            self.make_absolute(&mut request)?;
            proxy.authorize(&mut request);
        }
        let way = self.way().await?;
        let request = match self.over(way, request).await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed.unsent.ok_or(failed.error)?,
        };
        let way = self.open(Some(self.trunks.newest())).await?;
        self.over(way, request).await.map_err(|failed| match *failed {
            Failed { unsent: Some(_), error: UpstreamError::Broken(error) } => {
                UpstreamError::Refused(error)
            }
            Failed { error, .. } => error,
        })
    }

    async fn over(
        self: &Arc<Self>,
        way: Way,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<UpstreamBody>, Box<Failed>> {
        match way {
            Way::Own(line) => self.over_own(line, request).await,
            Way::Shared(slot) => self.over_shared(slot, request).await,
        }
    }

    async fn over_own(
        self: &Arc<Self>,
        mut line: Box<Line>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<UpstreamBody>, Box<Failed>> {
        let answer = self.answered(line.send(request)).await?.map_err(|mut failed| {
            let unsent = failed.take_message();
            Box::new(Failed { error: failed.into_error().into(), unsent })
        })?;
        let status = answer.status();
        if let Some(proxy) = self.place.asked_proxy().filter(|_| status == ASKS_WHO) {
            return Err(Failed::with(self.unreachable(proxy.refusal(status))));
        }
        Ok(answer.map(|body| UpstreamBody(Kind::Own(Exchange::new(body, line, self)))))
    }

    async fn over_shared(
        &self,
        slot: Slot,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<UpstreamBody>, Box<Failed>> {
        // What an upstream refuses after it was written is not given back.
        let kept = request.clone();
        self.make_absolute(&mut request).map_err(Failed::with)?;
        request.headers_mut().remove(HOST);
        let mut failed = match self.answered(slot.sender().try_send_request(request)).await? {
            Ok(answer) => {
                return Ok(answer.map(|body| UpstreamBody(Kind::Shared(Stream::new(body, slot)))));
            }
            Err(failed) => failed,
        };
        let is_unwritten = failed.take_message().is_some();
        let error = failed.into_error();
        let refusal = refusal(&error);
        if is_unwritten || refusal == Some(Refusal::Connection) {
            slot.close();
        }
        let unsent = (is_unwritten || refusal.is_some()).then_some(kept);
        Err(Box::new(Failed { error: error.into(), unsent }))
    }

    /// Waits for the head of an answer.
    async fn answered<T>(&self, answer: impl Future<Output = T>) -> Result<T, Box<Failed>> {
        let within = self.answer_within;
        let answer = tokio::time::timeout(within, answer).await;
        answer.map_err(|_| Failed::with(UpstreamError::Silent { within }))
    }

    /// HTTP/2, and a proxy that is asked, take scheme and host from the target.
    fn make_absolute(&self, request: &mut Request<Full<Bytes>>) -> Result<(), UpstreamError> {
        let host = request.headers().get(HOST).ok_or(UpstreamError::Path)?;
        let authority = Authority::try_from(host.as_bytes()).map_err(|_| UpstreamError::Path)?;
        let mut uri = std::mem::take(request.uri_mut()).into_parts();
        uri.scheme = Some(if self.place.is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        uri.authority = Some(authority);
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| UpstreamError::Path)?;
        Ok(())
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

    async fn way(&self) -> Result<Way, UpstreamError> {
        if let Some(line) = self.idle_line().await {
            return Ok(Way::Own(line));
        }
        match self.trunks.pick(None) {
            Pick::Slot(slot) => Ok(Way::Shared(slot)),
            _ => self.open(None).await,
        }
    }

    /// A way for a request: a connection that is made for it, or a shared one that another has made meanwhile;
    /// with `since` one that was begun after that.
    async fn open(&self, since: Option<u64>) -> Result<Way, UpstreamError> {
        loop {
            let mut freed = pin!(self.trunks.freed.notified());
            freed.as_mut().enable();
            let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connected(since)).await;
            let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            match connected.map_err(|error| self.unreachable(error))? {
                Some(way) => return Ok(way),
                None => {
                    let room = tokio::time::timeout(self.answer_within, freed).await;
                    let busy = || std::io::Error::other("all connections to it are busy");
                    room.map_err(|_| self.unreachable(busy()))?;
                }
            }
        }
    }

    fn unreachable(&self, error: std::io::Error) -> UpstreamError {
        let host = format!("{}:{}", self.place.host, self.place.port);
        UpstreamError::Connect { host, error }
    }

    /// None where no more connections are made.
    async fn connected(&self, since: Option<u64>) -> std::io::Result<Option<Way>> {
        if self.has_own_lines.load(Ordering::Relaxed) {
            return self.connect().await.map(Some);
        }
        // Everybody who comes meanwhile waits for what the connection turns out to be, and to have room for.
        let _turn = self.connecting.lock().await;
        loop {
            match self.trunks.pick(since) {
                Pick::Slot(slot) => return Ok(Some(Way::Shared(slot))),
                Pick::Untold(trunk) => trunk.told().await,
                Pick::Connect => return self.connect().await.map(Some),
                Pick::Full => return Ok(None),
            }
        }
    }

    async fn connect(&self) -> std::io::Result<Way> {
        let (wire, is_h2) = self.connector.connect(&self.place).await?;
        if self.place.is_tls {
            self.has_own_lines.store(!is_h2, Ordering::Relaxed);
        }
        if is_h2 {
            let slot = self.trunks.begin(wire, self.pings).await;
            return slot.map(Way::Shared).map_err(std::io::Error::other);
        }
        Line::open(wire).await.map(Way::Own).map_err(std::io::Error::other)
    }
}
