//! Proxies between the gateway and its upstreams: those that the gateway's own environment names, and no others.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tower_service::Service;

use super::wire::Wire;
use crate::config::Key;
use crate::limits::MAX_PROXY_HEAD;

/// The proxies of the environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies {
    http: Option<NamedProxy>,
    https: Option<NamedProxy>,
    /// Records the traffic that bypasses them.
    past: Option<Arc<Matcher>>,
}

/// The proxy that a variable names, or the reason why it cannot be used.
pub(super) type NamedProxy = Result<Arc<Proxy>, ProxyError>;

/// Why a proxy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the proxy of {variable} cannot be used: {problem}")]
pub(super) struct ProxyError {
    variable: &'static str,
    problem: ProxyProblem,
}

/// The error in the value of a variable. The value is not shown: there may be a password in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum ProxyProblem {
    #[error("it is not an address such as http://HOST:PORT")]
    NoAddress,
    #[error("{0} is not supported; use HTTP or SOCKS 5")]
    Scheme(String),
    #[error("it has no host")]
    NoHost,
}

/// A proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    /// The variable that names it.
    variable: &'static str,
    pub(super) is_tls: bool,
    /// Whether it speaks SOCKS 5, not HTTP. It looks up the names, also with `socks5://`: names of hosts stay with the proxy.
    is_socks: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Marked as sensitive: it is shown nowhere.
    authorization: Option<HeaderValue>,
    /// User and password for SOCKS.
    login: Option<(Key, Key)>,
}

impl Proxies {
    /// The proxies of `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, each also in lower case, with the exceptions of
    /// `NO_PROXY`. An empty variable counts as missing. In the environment of a CGI script `HTTP_PROXY` is the value
    /// of a request's header, and is ignored.
    pub(super) fn from_environment(get: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let is_cgi = get("REQUEST_METHOD").is_some();
        let first = |names: &[&'static str]| {
            let names = names.iter().filter(|name| !(is_cgi && **name == "HTTP_PROXY"));
            names.copied().find_map(|name| Some(Proxy::parse(name, get(name)?.trim())))
        };
        let past = get("NO_PROXY").or_else(|| get("no_proxy"));
        Self {
            http: first(&["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
            https: first(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
            past: past.map(|hosts| {
                // Many write `*.host`, which is `.host`.
                let hosts = hosts.replace("*.", ".");
                Arc::new(Matcher::builder().all("http://any").no(hosts).build())
            }),
        }
    }

    /// The proxy on the way to an upstream. Loopback is reached without one.
    pub(super) fn on_the_way_to(&self, base: &Uri) -> Option<NamedProxy> {
        let is_past = |past: &Arc<Matcher>| past.intercept(base).is_none();
        if is_loopback(base.host()?) || self.past.as_ref().is_some_and(is_past) {
            return None;
        }
        if base.scheme_str() == Some("http") { self.http.clone() } else { self.https.clone() }
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = |ip: IpAddr| {
        let ip = ip.to_canonical();
        ip.is_loopback() || ip.is_unspecified()
    };
    host.parse().map_or_else(|_| host.eq_ignore_ascii_case("localhost"), is_here)
}

impl Proxy {
    fn parse(variable: &'static str, value: &str) -> NamedProxy {
        let unusable = |problem| Err(ProxyError { variable, problem });
        let any = Uri::from_static("http://any");
        let Some(found) = Matcher::builder().all(value).build().intercept(&any) else {
            return unusable(ProxyProblem::NoAddress);
        };
        let uri = found.uri();
        let (is_tls, is_socks) = match uri.scheme_str() {
            Some("http") => (false, false),
            Some("https") => (true, false),
            Some("socks5" | "socks5h") => (false, true),
            Some(scheme) => return unusable(ProxyProblem::Scheme(scheme.to_owned())),
            None => return unusable(ProxyProblem::NoAddress),
        };
        let Some(host) = uri.host().filter(|host| !host.is_empty()) else {
            return unusable(ProxyProblem::NoHost);
        };
        Ok(Arc::new(Self {
            variable,
            is_tls,
            is_socks,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(match (is_tls, is_socks) {
                (_, true) => 1080,
                (true, false) => 443,
                (false, false) => 80,
            }),
            authorization: found.basic_auth().cloned(),
            login: found.raw_auth().map(|(user, password)| (Key::new(user), Key::new(password))),
        }))
    }

    /// Who it is, without what may be a password.
    pub(super) fn name(&self) -> String {
        format!("the proxy {}:{} of {}", self.host, self.port, self.variable)
    }

    /// Whether it receives the requests for an upstream without TLS, rather than a request for a connection to it.
    pub(super) const fn is_asked(&self) -> bool {
        !self.is_socks
    }

    /// A request that the proxy itself sends to an upstream: it has the proxy's password, and no other one.
    pub(super) fn authorize<B>(&self, request: &mut Request<B>) {
        let authorization = self.authorization.clone();
        request.headers_mut().remove(PROXY_AUTHORIZATION);
        request.headers_mut().extend(authorization.map(|value| (PROXY_AUTHORIZATION, value)));
    }

    /// The text of its refusal.
    pub(super) fn refusal(&self, status: StatusCode) -> io::Error {
        let variable = self.variable;
        let remedy = match (status, &self.authorization) {
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, None) => {
                format!("; it asks for {variable}=http://USER:PASSWORD@HOST:PORT")
            }
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Some(_)) => {
                format!("; it does not take the user and password of {variable}")
            }
            _ => String::new(),
        };
        io::Error::other(format!("{} answers {status}{remedy}", self.name()))
    }

    async fn socks(&self, wire: Wire, target: &str) -> io::Result<Wire> {
        let target = Uri::builder().scheme("https").authority(target).path_and_query("/").build();
        // The address of the proxy is not asked for: it is reached.
        let proxy = ReachedProxy(Some(wire));
        let mut socks = SocksV5::new(Uri::from_static("http://proxy"), proxy);
        if let Some((user, password)) = &self.login {
            socks = socks.with_auth(user.expose().to_owned(), password.expose().to_owned());
        }
        let tunnel = socks.call(target.map_err(io::Error::other)?).await;
        let tunnel = tunnel.map_err(|why| io::Error::other(format!("{}: {why}", self.name())))?;
        Ok(tunnel.into_inner())
    }

    /// Asks the proxy, over a connection to it, for one to `target` (`host:port`).
    pub(super) async fn tunnel(&self, wire: Wire, target: &str) -> io::Result<Wire> {
        if self.is_socks {
            return self.socks(wire, target).await;
        }
        let broken =
            |error: hyper::Error| io::Error::other(format!("{} breaks off: {error}", self.name()));
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_PROXY_HEAD)
            .handshake::<_, Empty<Bytes>>(TokioIo::new(wire))
            .await
            .map_err(broken)?;
        let mut request = Request::connect(target)
            .header(HOST, target)
            .body(Empty::new())
            .map_err(io::Error::other)?;
        self.authorize(&mut request);
        let asked = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            if !answer.status().is_success() {
                return Err(self.refusal(answer.status()));
            }
            hyper::upgrade::on(answer).await.map_err(broken)
        };
        let tunnel = beside(connection.with_upgrades(), asked).await?;
        match tunnel.downcast::<TokioIo<Wire>>() {
            Ok(parts) if parts.read_buf.is_empty() => Ok(parts.io.into_inner()),
            _ => Err(io::Error::other(format!("{} speaks out of turn", self.name()))),
        }
    }
}

/// The connection to a proxy that speaks SOCKS.
struct ReachedProxy(Option<Wire>);

impl Service<Uri> for ReachedProxy {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<TokioIo<Wire>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let wire = self.0.take().map(TokioIo::new);
        std::future::ready(wire.ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

/// The output of `future`, while `connection` is driven on.
async fn beside<T>(connection: impl Future, future: impl Future<Output = T>) -> T {
    let (mut connection, mut future) = (pin!(connection), pin!(future));
    tokio::select! {
        biased;
        output = &mut future => output,
        // The task that waits for the response reports errors.
        _ = &mut connection => future.await,
    }
}
