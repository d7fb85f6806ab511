//! Connections to model providers that the gateway answers itself, with a certificate that it issues: the requests in
//! them are read like all others, and continue to the host that the client asked for.
//!
//! The client decides the host by its `CONNECT`, from the list of model providers, and no request in the connection can
//! change it: one for another host gets 421.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use endstop_runtime::cancel::CancelToken;
use http::header::HOST;
use http::uri::{Authority as HostAndPort, Scheme};
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::authority::{Authority, AuthorityError};
use super::hosts;
use super::report::{ModelHost, TunnelReport};
use crate::body::Body;
use crate::config::Bounds;
use crate::limits::{HEAD_TIMEOUT, MAX_REPORTED_HOSTS, SHUTDOWN_GRACE};
use crate::server::{self, PeerInfo};

/// A host whose connections are answered here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterceptedHost {
    /// Its name, as it is compared.
    name: String,
    /// Where its requests go: `https://NAME`, with the port that the client named.
    pub(crate) base: Uri,
}

impl InterceptedHost {
    pub(crate) fn new(name: &str, port: u16) -> Option<Arc<Self>> {
        let authority = if port == 443 { name.to_owned() } else { format!("{name}:{port}") };
        let base = Uri::builder().scheme(Scheme::HTTPS).authority(authority).path_and_query("/");
        Some(Arc::new(Self { name: name.to_owned(), base: base.build().ok()? }))
    }

    /// Whether a request is for this host: it names no other one.
    pub(crate) fn is_named_by(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_it = |host: &str| hosts::normalized(host) == self.name;
        let named = headers.get_all(HOST).iter().all(|value| {
            let host = value.to_str().ok().and_then(|it| it.parse::<HostAndPort>().ok());
            host.is_some_and(|host| is_it(host.host()))
        });
        named && uri.host().is_none_or(is_it)
    }

    /// Whether a request to this host is known to cost nothing: settings, logins, telemetry.
    pub(crate) fn has_free(&self, method: &Method, path: &str) -> bool {
        let is_below =
            |(host, prefix): &(&str, &str)| *host == self.name && path.starts_with(prefix);
        let has_call = |name: &&str| path.split('/').any(|segment| segment == *name);
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_free = match is_read {
            true => FREE_TO_READ.iter().any(is_below),
            false => FREE_TO_WRITE.iter().any(is_below),
        };
        is_free && !CALL_SEGMENTS.iter().any(has_call)
    }
}

/// Paths of hosts that cost nothing to read, each a row.
const FREE_TO_READ: [(&str, &str); 4] = [
    ("api.anthropic.com", "/api/"),
    ("api.cline.bot", "/api/v1/auth/"),
    ("api.cline.bot", "/api/v1/users/"),
    ("chatgpt.com", "/backend-api/"),
];
/// Paths that cost nothing to write to: telemetry and logins. Another request may start work that is billed.
const FREE_TO_WRITE: [(&str, &str); 6] = [
    ("api.anthropic.com", "/api/event_logging/"),
    ("api.anthropic.com", "/api/claude_code/metrics"),
    ("api.anthropic.com", "/api/oauth/"),
    ("api.cline.bot", "/api/v1/auth/"),
    ("chatgpt.com", "/backend-api/codex/analytics-events"),
    ("chatgpt.com", "/backend-api/codex/otel"),
];
/// Segments of model calls below such paths.
const CALL_SEGMENTS: [&str; 4] = ["responses", "conversation", "completions", "messages"];

/// The connections that a gateway answers itself.
#[derive(Debug)]
pub(super) struct Interceptor {
    authority: Authority,
    bounds: Bounds,
    stop: CancelToken,
    configs: Mutex<BTreeMap<String, Arc<ServerConfig>>>,
    open: Mutex<JoinSet<()>>,
}

impl Interceptor {
    pub(super) fn new(bounds: Bounds, stop: CancelToken) -> Result<Self, AuthorityError> {
        let authority = Authority::new()?;
        Ok(Self { authority, bounds, stop, configs: Mutex::default(), open: Mutex::default() })
    }

    pub(super) fn pem(&self) -> &str {
        self.authority.pem()
    }

    /// The configuration of TLS for a host. Of very many hosts, not all are kept.
    pub(super) fn config(&self, host: &str) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = configs.get(host) {
            return Ok(Arc::clone(config));
        }
        let config = self.authority.answering_for(host)?;
        if configs.len() < MAX_REPORTED_HOSTS {
            configs.insert(host.to_owned(), Arc::clone(&config));
        }
        Ok(config)
    }

    /// Answers a connection once its `CONNECT` has its answer. `handler` answers the requests in it.
    pub(super) fn answer<H, F>(&self, connect: Intercepted, handler: H)
    where
        H: Fn(Request<Incoming>, PeerInfo) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // A set keeps its finished tasks until they are joined.
        while open.try_join_next().is_some() {}
        open.spawn(connect.serve(self.bounds, handler, self.stop.clone()));
    }

    /// Waits until calls in flight have ended, or cuts them.
    pub(super) async fn end(&self) {
        let mut open =
            std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async { while open.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, all).await;
    }

    pub(super) fn abort(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// A connection that the gateway answers.
pub(super) struct Intercepted {
    pub(super) connect: Request<Incoming>,
    pub(super) peer: PeerInfo,
    pub(super) host: ModelHost,
    pub(super) config: Arc<ServerConfig>,
    pub(super) report: watch::Sender<TunnelReport>,
    /// Held while it is open.
    pub(super) permit: tokio::sync::OwnedSemaphorePermit,
}

impl Intercepted {
    async fn serve<H, F>(self, bounds: Bounds, handler: H, stop: CancelToken)
    where
        H: Fn(Request<Incoming>, PeerInfo) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let Self { connect, peer, host, config, report, permit } = self;
        // A client that is gone before it has read the answer needs nothing.
        let Ok(client) = hyper::upgrade::on(connect).await else { return };
        let tls = TlsAcceptor::from(config).accept(TokioIo::new(client));
        let Ok(Ok(client)) = tokio::time::timeout(HEAD_TIMEOUT, tls).await else {
            report.send_modify(|report| report.distrust(&host));
            return;
        };
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = {
            let (has_asked, report, host) = (Arc::clone(&has_asked), report.clone(), host.clone());
            move |request, peer| {
                if !has_asked.swap(true, Ordering::Relaxed) {
                    report.send_modify(|report| report.intercept(&host));
                }
                handler(request, peer)
            }
        };
        server::answer(client, bounds, asked, peer, stop).await;
        // Some clients check the certificate only when the handshake is done, and then close.
        if !has_asked.load(Ordering::Relaxed) {
            report.send_modify(|report| report.distrust_if_never_asked(&host));
        }
        drop(permit);
    }
}

#[cfg(test)]
mod tests;
