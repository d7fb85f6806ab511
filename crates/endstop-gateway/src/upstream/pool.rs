//! Connections that are kept, for each upstream.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;

use super::body::UpstreamBody;
use super::connect::{Connector, UpstreamAddress};
use super::error::UpstreamError;
use super::h1::{H1Client, H1Error};
use super::h2_pool::{H2Pick, H2Pool, H2Slot, Pings, Refusal, refusal};
use super::proxy::Proxies;
use super::wire::Wire;
use crate::limits::CONNECT_TIMEOUT;

/// The answer of a proxy that requires credentials.
const ASKS_WHO: StatusCode = StatusCode::PROXY_AUTHENTICATION_REQUIRED;

/// The connections of all upstreams. There are as many as configured bases, so a list is searched.
#[derive(Clone)]
pub(super) struct Pools {
    connector: Connector,
    pub(super) pings: Pings,
    pub(super) answer_within: Duration,
    proxies: Proxies,
    pools: Arc<Mutex<Vec<NamedPool>>>,
}

/// A pool and the base that it is for.
type NamedPool = (Scheme, Authority, Arc<Pool>);

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

    /// Connects to a host for bytes of any kind, through the proxy for HTTPS if one is on the way. It is in no pool.
    pub(super) async fn tunnel(&self, host: &str, port: u16) -> io::Result<Wire> {
        let base = Uri::builder().scheme(Scheme::HTTPS).authority(host).path_and_query("/").build();
        let proxy = self.proxies.on_the_way_to(&base.map_err(io::Error::other)?);
        let address = UpstreamAddress { is_tls: true, host: host.to_owned(), port, proxy };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connector.connect_raw(&address));
        connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
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
        let address = UpstreamAddress {
            is_tls,
            host: base.host().unwrap_or_default().to_owned(),
            port: base.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            proxy: self.proxies.on_the_way_to(base),
        };
        let pool = Arc::new(Pool::new(self, address));
        if let Some(authority) = base.authority() {
            pools.push((scheme, authority.clone(), Arc::clone(&pool)));
        }
        pool
    }
}

/// The connections to one upstream.
pub(super) struct Pool {
    connector: Connector,
    address: Arc<UpstreamAddress>,
    pings: Pings,
    answer_within: Duration,
    h1: H1Client,
    h2: Arc<H2Pool>,
    /// Whether the upstream speaks HTTP/1.1: without TLS, or because it has said so once. It is not asked again.
    is_h1: AtomicBool,
    /// Held while a connection over TLS is made that others may share.
    connecting: tokio::sync::Mutex<()>,
}

/// Where a request goes.
enum PooledConnection {
    /// Over a separate connection, which the library picks.
    H1,
    /// Over this shared one.
    H2(H2Slot),
}

/// The name of each upstream in the pool of the library, which holds no other. The library reads it letter by letter three
/// times for each request, and sends nothing of it.
static NAME_IN_POOL: LazyLock<Authority> = LazyLock::new(|| Authority::from_static("u"));

fn name_in_pool(request: &mut Request<Full<Bytes>>) -> Result<(), UpstreamError> {
    set_target(request, Scheme::HTTP, NAME_IN_POOL.clone())
}

fn set_target(
    request: &mut Request<Full<Bytes>>,
    scheme: Scheme,
    authority: Authority,
) -> Result<(), UpstreamError> {
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    (uri.scheme, uri.authority) = (Some(scheme), Some(authority));
    *request.uri_mut() = Uri::from_parts(uri).map_err(|_| UpstreamError::Path)?;
    Ok(())
}

/// A request that got no answer.
struct FailedRequest {
    error: UpstreamError,
    /// The request, if the upstream certainly has not processed it.
    unsent: Option<Request<Full<Bytes>>>,
}

impl From<UpstreamError> for FailedRequest {
    /// Permanently.
    fn from(error: UpstreamError) -> Self {
        Self { error, unsent: None }
    }
}

impl Pool {
    fn new(of: &Pools, address: UpstreamAddress) -> Self {
        let is_h1 = AtomicBool::new(!address.is_tls);
        let address = Arc::new(address);
        Self {
            connector: of.connector.clone(),
            pings: of.pings,
            answer_within: of.answer_within,
            h1: H1Client::new(of.connector.clone(), Arc::clone(&address)),
            h2: Arc::default(),
            is_h1,
            connecting: tokio::sync::Mutex::default(),
            address,
        }
    }

    /// Sends a request over a kept connection or a new one; over HTTP/2 once more over a new one if it certainly was
    /// not processed. A second such failure in a row is taken as an answer.
    pub(super) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        let request = request.map(Full::new);
        match self.connection().await? {
            PooledConnection::H1 => self.send_h1(request).await,
            // Boxed: otherwise each call would have room for it.
            PooledConnection::H2(slot) => Box::pin(self.send_h2(slot, request)).await,
        }
    }

    async fn send_h2(
        &self,
        slot: H2Slot,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        self.make_absolute(&mut request)?;
        let unsent = match self.try_h2(slot, request).await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed.unsent.ok_or(failed.error)?,
        };
        let PooledConnection::H2(slot) = self.open(Some(self.h2.newest())).await? else {
            return self.send_h1(unsent).await;
        };
        self.try_h2(slot, unsent).await.map_err(|failed| match failed {
            FailedRequest { unsent: Some(_), error: UpstreamError::Broken(reason) } => {
                UpstreamError::Refused(reason)
            }
            FailedRequest { error, .. } => error,
        })
    }

    async fn send_h1(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        match self.address.asked_proxy() {
            None => name_in_pool(&mut request)?,
            Some(proxy) => {
                self.make_absolute(&mut request)?;
                proxy.authorize(&mut request);
            }
        }
        let within = self.answer_within;
        let answer = self.h1.send(request, within).await.map_err(|error| match error {
            H1Error::Connect(error) => self.unreachable(error),
            H1Error::Unsent(reason) => UpstreamError::Refused(reason),
            H1Error::Silent => UpstreamError::Silent { within },
            H1Error::Broken(reason) => UpstreamError::Broken(reason),
        })?;
        let status = answer.status();
        if let Some(proxy) = self.address.asked_proxy().filter(|_| status == ASKS_WHO) {
            return Err(self.unreachable(proxy.refusal(status)));
        }
        let (head, incoming) = answer.into_parts();
        Ok(Response::from_parts(head, UpstreamBody::begun(incoming).await))
    }

    async fn try_h2(
        &self,
        slot: H2Slot,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<UpstreamBody>, FailedRequest> {
        // A refused request cannot be recovered after it was written.
        let kept = request.clone();
        // The target has it.
        request.headers_mut().remove(HOST);
        let within = self.answer_within;
        let answer = tokio::time::timeout(within, slot.sender().try_send_request(request)).await;
        let mut failed = match answer.map_err(|_| UpstreamError::Silent { within })? {
            Ok(answer) => return Ok(answer.map(|body| UpstreamBody::shared(body, slot))),
            Err(failed) => failed,
        };
        let is_unwritten = failed.take_message().is_some();
        let error = failed.into_error();
        let refusal = refusal(&error);
        if is_unwritten || refusal == Some(Refusal::Connection) {
            slot.close();
        }
        let unsent = (is_unwritten || refusal.is_some()).then_some(kept);
        Err(FailedRequest { error: error.into(), unsent })
    }

    /// Puts the upstream into the target: HTTP/2 takes it from there, and so does a proxy that receives the request.
    fn make_absolute(&self, request: &mut Request<Full<Bytes>>) -> Result<(), UpstreamError> {
        let host = request.headers().get(HOST).ok_or(UpstreamError::Path)?;
        let authority = Authority::try_from(host.as_bytes()).map_err(|_| UpstreamError::Path)?;
        let scheme = if self.address.is_tls { Scheme::HTTPS } else { Scheme::HTTP };
        set_target(request, scheme, authority)
    }

    async fn connection(&self) -> Result<PooledConnection, UpstreamError> {
        if self.is_h1.load(Ordering::Relaxed) {
            return Ok(PooledConnection::H1);
        }
        match self.h2.pick(None) {
            H2Pick::Slot(slot) => Ok(PooledConnection::H2(slot)),
            _ => self.open(None).await,
        }
    }

    /// A connection for a request over TLS: one that is made for it, or a shared one that another request has made in
    /// the meantime; with `since` one that is newer than that.
    async fn open(&self, since: Option<u64>) -> Result<PooledConnection, UpstreamError> {
        loop {
            let mut freed = pin!(self.h2.freed.notified());
            freed.as_mut().enable();
            let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connected(since)).await;
            let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            match connected.map_err(|error| self.unreachable(error))? {
                Some(connection) => return Ok(connection),
                None => {
                    let room = tokio::time::timeout(self.answer_within, freed).await;
                    let busy = || std::io::Error::other("all connections to it are busy");
                    room.map_err(|_| self.unreachable(busy()))?;
                }
            }
        }
    }

    fn unreachable(&self, error: std::io::Error) -> UpstreamError {
        let host = format!("{}:{}", self.address.host, self.address.port);
        UpstreamError::Connect { host, error }
    }

    /// `None` if no more connections are made.
    async fn connected(&self, since: Option<u64>) -> std::io::Result<Option<PooledConnection>> {
        // Everybody who comes meanwhile waits for what the connection turns out to be, and to have room for.
        let _turn = self.connecting.lock().await;
        loop {
            if self.is_h1.load(Ordering::Relaxed) {
                return Ok(Some(PooledConnection::H1));
            }
            match self.h2.pick(since) {
                H2Pick::Slot(slot) => return Ok(Some(PooledConnection::H2(slot))),
                H2Pick::Untold(connection) => connection.told().await,
                // Boxed: few requests open a connection.
                H2Pick::Connect => return Box::pin(self.connect()).await.map(Some),
                H2Pick::Full => return Ok(None),
            }
        }
    }

    async fn connect(&self) -> std::io::Result<PooledConnection> {
        let (wire, is_h2) = self.connector.connect(&self.address).await?;
        if is_h2 {
            let slot = self.h2.begin(wire, self.pings).await;
            return slot.map(PooledConnection::H2).map_err(std::io::Error::other);
        }
        self.h1.adopt(wire);
        self.is_h1.store(true, Ordering::Relaxed);
        Ok(PooledConnection::H1)
    }
}
