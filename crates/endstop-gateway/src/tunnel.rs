//! The gateway as the proxy of its client (`HTTPS_PROXY`): it tunnels every host but those of model providers, so that no
//! model call bypasses it unnoticed.
//!
//! A tunnel (`CONNECT`) carries bytes that the gateway does not read; it cannot tell a model call from telemetry. So the
//! host decides, before its name is looked up. Each tunnel is bounded in time, and all of them in number. Requests of
//! plain HTTP for other hosts are refused like all requests for another host (`origin`): no variable sends them here.

mod hosts;
mod pass;
mod password;
mod report;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
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
use crate::upstream::HttpClient;
pub use hosts::model_hosts;
pub use report::{DirectConnections, TunnelReport};

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
         URL, and otherwise no limit holds for them; `endstop doctor` says how, --allow-direct lets them pass"
    )]
    ModelHost { host: String, provider: &'static str },
    #[error("{MAX_TUNNELS} tunnels are open, which is the most")]
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
            Self::Unreachable { .. } => StatusCode::BAD_GATEWAY,
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
    /// Hosts of model providers that are tunnelled, whatever the mode.
    direct_hosts: Vec<String>,
    password: ProxyPassword,
    client: HttpClient,
    /// The hosts that the gateway itself sends calls to.
    upstreams: Vec<String>,
    room: Arc<Semaphore>,
    open: Mutex<JoinSet<()>>,
    report: watch::Sender<TunnelReport>,
}

impl TunnelService {
    pub(crate) fn new(mode: Tunnels, client: HttpClient, config: &Config) -> Self {
        let upstreams = &config.upstreams;
        let bases = [&upstreams.openai, &upstreams.anthropic, &upstreams.gemini];
        let hosts = bases.into_iter().filter_map(Uri::host).map(hosts::normalized);
        let is_local = |host: &str| host == "localhost" || host.parse::<std::net::IpAddr>().is_ok();
        Self {
            mode,
            direct_hosts: config.direct_hosts.iter().map(|host| hosts::normalized(host)).collect(),
            password: ProxyPassword::new(),
            client,
            upstreams: hosts.filter(|host| !is_local(host)).collect(),
            room: Arc::new(Semaphore::new(MAX_TUNNELS)),
            open: Mutex::default(),
            report: watch::Sender::new(TunnelReport::default()),
        }
    }

    /// Returns the report, and notifies of changes.
    pub(crate) fn report(&self) -> watch::Receiver<TunnelReport> {
        self.report.subscribe()
    }

    /// The address that clients put into `HTTPS_PROXY`, with its password. `None` if there are no tunnels.
    pub(crate) fn address(&self, at: SocketAddr) -> Option<String> {
        (self.mode != Tunnels::Off).then(|| self.password.address(at))
    }

    /// Closes all tunnels. None is opened afterwards.
    pub(crate) fn close(&self) {
        self.room.close();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Answers a `CONNECT`: with a tunnel, or with the reason why there is none.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match self.open(request).await {
            Ok(()) => Response::new(Body::empty()),
            Err(why) => why.response(),
        }
    }

    async fn open(&self, request: Request<Incoming>) -> Result<(), TunnelError> {
        if request.headers().contains_key(ORIGIN) {
            return Err(TunnelError::WebPage);
        }
        if !self.password.is_sent_in(request.headers()) {
            self.report.send_modify(|report| report.without_password += 1);
            return Err(TunnelError::NoPassword);
        }
        let target = request.uri().authority().filter(|it| !it.as_str().contains('@'));
        let target = target.and_then(|it| Some((it.host().to_owned(), it.port_u16()?)));
        let (host, port) = target.ok_or(TunnelError::NoTarget)?;
        let model_host = self.model_host(&host);
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
            return Some(ModelHost { name, pattern: pattern.to_owned(), provider });
        }
        let is_upstream = self.upstreams.contains(&name);
        is_upstream.then(|| ModelHost { pattern: name.clone(), name, provider: "the upstream" })
    }
}

#[cfg(test)]
mod tests;
