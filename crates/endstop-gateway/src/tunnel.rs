//! The gateway as the proxy of its client (`HTTPS_PROXY`): it tunnels every host but those of model providers, so that no
//! model call bypasses it unnoticed.
//!
//! A tunnel (`CONNECT`) carries bytes that the gateway does not read; it cannot tell a model call from telemetry. So the
//! host decides, before its name is looked up. Each tunnel is bounded in time, and all of them in number. Requests of
//! plain HTTP for other hosts are refused like all requests for another host (`origin`): no variable sends them here.

mod authority;
mod hosts;
mod intercept;
mod pass;
mod password;
mod report;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use endstop_runtime::cancel::CancelToken;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, ORIGIN, PROXY_AUTHENTICATE};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::json;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::body::Body;
use crate::config::{Config, Tunnels};
use crate::limits::{MAX_TUNNELS, TUNNEL_IDLE};
use crate::server::PeerInfo;
use crate::upstream::HttpClient;
pub(crate) use authority::AuthorityError;
pub use hosts::{model_hosts, model_provider};
pub(crate) use intercept::InterceptedHost;
pub use report::{DirectConnections, TunnelReport};

use intercept::{Intercepted, Interceptor};
use password::ProxyPassword;
use report::ModelHost;

/// Why a tunnel is refused.
#[derive(Debug, Error)]
enum TunnelError {
    #[error("tunnels are for programs, not for web pages")]
    WebPage,
    #[error(
        "tunnels need the user and password of HTTPS_PROXY, which `endstop run` gives to its command"
    )]
    NoPassword,
    #[error("`CONNECT` needs a host and a port")]
    NoTarget,
    #[error(
        "Endstop refused this connection to {host} ({provider}): model calls have to go through the gateway at its base \
         URL, and otherwise no limit applies to them; `endstop doctor` says how, --intercept limits fixed addresses too, \
         --allow-direct=HOST lets them pass"
    )]
    ModelHost { host: String, provider: &'static str },
    #[error("no certificate for {host}: {why}")]
    NoCertificate { host: String, why: String },
    #[error("{MAX_TUNNELS} tunnels are open, and no more are allowed")]
    TooMany,
    #[error("cannot connect to {host}: {error}")]
    Unreachable { host: String, error: io::Error },
}

impl TunnelError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::WebPage | Self::ModelHost { .. } => StatusCode::FORBIDDEN,
            Self::NoPassword => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            Self::NoTarget => StatusCode::BAD_REQUEST,
            Self::TooMany => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable { .. } | Self::NoCertificate { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    /// The connection is closed with it: what a client sends behind a `CONNECT` is not checked as HTTP.
    fn response(&self) -> Response<Body> {
        let text = json!({ "error": { "message": self.to_string() } }).to_string();
        let mut response = Response::new(Body::full(Bytes::from(text)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if matches!(self, Self::NoPassword) {
            let asks = HeaderValue::from_static("Basic realm=\"endstop\"");
            headers.insert(PROXY_AUTHENTICATE, asks);
        }
        response
    }
}

/// The tunnels of a gateway.
#[derive(Debug)]
pub(crate) struct TunnelService {
    mode: Tunnels,
    /// Hosts of model providers that are tunneled, whatever the mode.
    direct_hosts: Vec<String>,
    password: ProxyPassword,
    /// Answers connections to model providers, if it is to.
    interceptor: Option<Interceptor>,
    client: HttpClient,
    /// The hosts that the gateway itself sends calls to.
    upstreams: Vec<String>,
    room: Arc<Semaphore>,
    open: Mutex<JoinSet<()>>,
    report: watch::Sender<TunnelReport>,
}

impl TunnelService {
    /// # Errors
    /// Returns an error if it is to intercept, and has no certificate for that.
    pub(crate) fn new(
        mode: Tunnels,
        client: HttpClient,
        config: &Config,
        stop: CancelToken,
    ) -> Result<Self, AuthorityError> {
        let is_intercepting = mode == Tunnels::Intercepted;
        let interceptor = is_intercepting.then(|| Interceptor::new(config.bounds, stop));
        let upstreams = &config.upstreams;
        let bases = [&upstreams.openai, &upstreams.anthropic, &upstreams.gemini];
        let hosts = bases.into_iter().filter_map(Uri::host).map(hosts::normalized);
        let is_local = |host: &str| host == "localhost" || host.parse::<std::net::IpAddr>().is_ok();
        Ok(Self {
            mode,
            direct_hosts: config.direct_hosts.iter().map(|host| hosts::normalized(host)).collect(),
            password: ProxyPassword::new(),
            interceptor: interceptor.transpose()?,
            client,
            upstreams: hosts.filter(|host| !is_local(host)).collect(),
            room: Arc::new(Semaphore::new(MAX_TUNNELS)),
            open: Mutex::default(),
            report: watch::Sender::new(TunnelReport::default()),
        })
    }

    /// Returns the report, and notifies of changes.
    pub(crate) fn report(&self) -> watch::Receiver<TunnelReport> {
        self.report.subscribe()
    }

    /// The address that clients put into `HTTPS_PROXY`, with its password. `None` if there are no tunnels.
    pub(crate) fn address(&self, at: SocketAddr) -> Option<String> {
        (self.mode != Tunnels::Off).then(|| self.password.address(at))
    }

    /// The certificate of the authority that intercepted connections are answered with.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.interceptor.as_ref().map(Interceptor::pem)
    }

    /// Waits for calls in intercepted connections, which the stop of the gateway ends.
    pub(crate) async fn end(&self) {
        if let Some(interceptor) = &self.interceptor {
            interceptor.end().await;
        }
    }

    /// Ends intercepted connections at once.
    pub(crate) fn abort(&self) {
        self.close();
        self.interceptor.as_ref().inspect(|interceptor| interceptor.abort());
    }

    /// Closes all tunnels. None is opened afterwards.
    pub(crate) fn close(&self) {
        self.room.close();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Answers a `CONNECT`: with a tunnel, or with the reason why there is none. `handler` makes what answers the requests of
    /// an intercepted host.
    pub(crate) async fn answer<H, F>(
        &self,
        request: Request<Incoming>,
        peer: PeerInfo,
        handler: impl FnOnce(Arc<InterceptedHost>) -> H,
    ) -> Response<Body>
    where
        H: Fn(Request<Incoming>, PeerInfo) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let opened = async {
            let (host, port) = self.target(&request)?;
            match (self.model_host(&host), &self.interceptor) {
                (Some(model), Some(interceptor)) if model.is_listed && !self.is_direct(&model) => {
                    self.intercept(interceptor, (request, peer), model, port, handler)
                }
                (model, _) => self.open(request, host, port, model).await,
            }
        };
        match opened.await {
            Ok(()) => Response::new(Body::empty()),
            Err(why) => why.response(),
        }
    }

    /// The target of a `CONNECT` that may have a tunnel.
    fn target(&self, request: &Request<Incoming>) -> Result<(String, u16), TunnelError> {
        if request.headers().contains_key(ORIGIN) {
            return Err(TunnelError::WebPage);
        }
        if !self.password.is_sent_in(request.headers()) {
            self.report.send_modify(|report| report.without_password += 1);
            return Err(TunnelError::NoPassword);
        }
        let target = request.uri().authority().filter(|it| !it.as_str().contains('@'));
        let target = target.and_then(|it| Some((it.host().to_owned(), it.port_u16()?)));
        target.ok_or(TunnelError::NoTarget)
    }

    fn intercept<H, F>(
        &self,
        interceptor: &Interceptor,
        (connect, peer): (Request<Incoming>, PeerInfo),
        host: ModelHost,
        port: u16,
        handler: impl FnOnce(Arc<InterceptedHost>) -> H,
    ) -> Result<(), TunnelError>
    where
        H: Fn(Request<Incoming>, PeerInfo) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let permit = Arc::clone(&self.room).try_acquire_owned();
        let permit = permit.map_err(|_| TunnelError::TooMany)?;
        let config = interceptor.config(&host.name).map_err(|why| {
            let why = why.to_string();
            TunnelError::NoCertificate { host: host.name.clone(), why }
        })?;
        let handler = handler(InterceptedHost::new(&host.name, port).ok_or(TunnelError::NoTarget)?);
        let report = self.report.clone();
        interceptor.answer(Intercepted { connect, peer, host, config, report, permit }, handler);
        Ok(())
    }

    async fn open(
        &self,
        request: Request<Incoming>,
        host: String,
        port: u16,
        model_host: Option<ModelHost>,
    ) -> Result<(), TunnelError> {
        if let Some(model_host) = &model_host
            && self.mode != Tunnels::All
            && !self.is_direct(model_host)
        {
            self.report.send_modify(|report| report.refuse(model_host));
            return Err(TunnelError::ModelHost { host, provider: model_host.provider });
        }
        let permit = Arc::clone(&self.room).try_acquire_owned();
        let permit = permit.map_err(|_| TunnelError::TooMany)?;
        let connected = self.client.tunnel(&host, port).await;
        self.report.send_modify(|report| match (&connected, &model_host) {
            (Ok(_), Some(model_host)) => report.tunnel(model_host),
            (Ok(_), None) => report.other += 1,
            (Err(_), _) => report.failed += 1,
        });
        let remote = connected.map_err(|error| TunnelError::Unreachable { host, error })?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // A set keeps its finished tasks until they are joined.
        while open.try_join_next().is_some() {}
        open.spawn(async move {
            // A client that is gone before it has read the answer needs no tunnel.
            if let Ok(client) = hyper::upgrade::on(request).await {
                pass::both_ways(TokioIo::new(client), remote, TUNNEL_IDLE).await;
            }
            drop(permit);
        });
        Ok(())
    }

    /// Whether connections to a host of a model provider may bypass the gateway.
    fn is_direct(&self, host: &ModelHost) -> bool {
        self.direct_hosts.iter().any(|direct| hosts::matches(direct, &host.name))
    }

    /// The row of a host of a model provider. The upstreams of the gateway are among them.
    fn model_host(&self, host: &str) -> Option<ModelHost> {
        let name = hosts::normalized(host);
        if let Some((pattern, provider)) = hosts::row_of(&name) {
            return Some(ModelHost {
                name,
                pattern: pattern.to_owned(),
                provider,
                is_listed: true,
            });
        }
        let is_upstream = self.upstreams.contains(&name);
        is_upstream.then(|| ModelHost {
            pattern: name.clone(),
            name,
            provider: "the upstream",
            is_listed: false,
        })
    }
}

#[cfg(test)]
mod tests;
