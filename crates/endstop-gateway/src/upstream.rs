//! Calls to upstreams: connections that are kept, and answers that are read as they come.
//!
//! An upstream over plain TCP is spoken to in HTTP/1.1; over TLS in whatever it prefers of HTTP/2 and HTTP/1.1. An
//! exchange over HTTP/1.1 runs in the task of the call that it is for: no task of its own, so no switch per part of
//! the answer, and dropping it closes the connection. Connections of HTTP/2 are shared and have tasks of their own;
//! dropping an answer resets its stream. There are as many as the calls at one time need by what the upstream takes
//! on each.

mod chunks;
mod connect;
mod exchange;
mod headers;
mod pool;
mod proxy;
mod shared;
mod trunk;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use thiserror::Error;

pub(crate) use headers::{forwardable, only_forwardable};

use crate::body::{BodyError, BodySource};
use connect::Connector;
use exchange::Exchange;
use pool::Pools;
use proxy::Proxies;
use shared::Stream;

/// Why an upstream gave no answer, or broke it off. Nothing in it comes from a header or a body.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    /// There is no connection to it.
    #[error("cannot connect to {host}: {error}")]
    Connect {
        /// Host and port.
        host: String,
        /// What the system or TLS said.
        error: std::io::Error,
    },
    /// The path of the request cannot be put behind that of the base.
    #[error("the path of the request is not valid")]
    Path,
    /// It said twice that it does not take the request, or closed before it was written: it was not processed.
    #[error("the upstream does not take the request: {0}")]
    Refused(hyper::Error),
    /// It took the request, or may have, and did not begin an answer.
    #[error("the upstream has not answered within {within:?}")]
    Silent {
        /// How long it had.
        within: Duration,
    },
    /// It broke off, or what it says is not HTTP. The request may have reached it.
    #[error("the upstream broke off: {0}")]
    Broken(#[from] hyper::Error),
}

impl UpstreamError {
    /// What the client gets.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Silent { .. } => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// Whether the request may have reached the upstream, which may charge for it then.
    pub(crate) const fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Silent { .. })
    }
}

/// Sends requests to upstreams. Clones share its connections.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pools: Pools,
}

impl Client {
    /// One that trusts the public certificate authorities and uses no proxy.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self { pools: Pools::new(Connector::public(), Proxies::default()) }
    }

    /// One that trusts what the file in `SSL_CERT_FILE` holds and nothing else, as OpenSSL does, and without the
    /// variable the public certificate authorities. It uses the proxies of the environment; one that cannot be
    /// used fails the calls that would go through it.
    ///
    /// # Errors
    /// Where the file cannot be read or holds no certificate.
    pub(crate) fn from_environment(
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CertificatesError> {
        let connector = match get("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
            Some(path) => {
                let pem = std::fs::read(&path).map_err(|error| error.to_string());
                let connector = pem.and_then(|pem| Connector::trusting(&pem));
                connector.map_err(|why| CertificatesError { path, why })?
            }
            None => Connector::public(),
        };
        Ok(Self { pools: Pools::new(connector, Proxies::from_environment(get)) })
    }

    /// One that trusts these certificates (PEM) and no others, and uses no proxy.
    #[cfg(test)]
    pub(crate) fn trusting(pem: &[u8]) -> Result<Self, String> {
        Ok(Self { pools: Pools::new(Connector::trusting(pem)?, Proxies::default()) })
    }

    /// With a bound for the time from a request to the head of its answer; there is none before.
    pub(crate) const fn answering_within(mut self, within: Duration) -> Self {
        self.pools.answer_within = within;
        self
    }

    /// Sends a request and waits for the head of its answer; connecting takes ten seconds at most. The path of the request is put behind the path of `base`; host, length and framing are set here.
    ///
    /// A request is sent a second time, over a new connection, only if it certainly was not processed the first
    /// time: the kept connection that it was meant for had closed before a byte of it was written, or the upstream
    /// says so in the terms of HTTP/2. Anything else may have been processed, and a model call that is sent twice
    /// may be charged twice.
    ///
    /// # Cancellation safety
    /// Dropped, the exchange is closed (HTTP/1.1) or reset (HTTP/2).
    ///
    /// # Errors
    /// See [`UpstreamError`]; with [`may_have_arrived`](UpstreamError::may_have_arrived) it may have been charged.
    pub(crate) async fn send(
        &self,
        base: &Uri,
        request: Request<Bytes>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        let request = headers::aimed(base, request)?;
        self.pools.of(base).send(request).await
    }
}

/// Why the certificates that the environment names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("SSL_CERT_FILE: {path}: {why}")]
pub(crate) struct CertificatesError {
    path: String,
    why: String,
}

/// The body of an upstream's answer. Dropping it before its end closes or resets the exchange at once; at its end
/// the connection goes back to its pool.
#[derive(Debug)]
pub(crate) struct UpstreamBody(Kind);

#[derive(Debug)]
enum Kind {
    Own(Exchange),
    Shared(Stream),
}

impl UpstreamBody {
    /// Everything that is readable now, as one; none at the end.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        match &mut self.0 {
            Kind::Own(exchange) => exchange.poll_data(cx),
            Kind::Shared(stream) => stream.poll_data(cx),
        }
    }

    /// As [`poll_data`](Self::poll_data), to be awaited; it may be dropped and asked for again.
    pub(crate) async fn data(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        std::future::poll_fn(|cx| self.poll_data(cx)).await
    }

    /// Whether nothing more comes, where that is known without asking.
    pub(crate) fn is_end(&self) -> bool {
        match &self.0 {
            Kind::Own(exchange) => exchange.is_end(),
            Kind::Shared(stream) => stream.is_end(),
        }
    }

    /// Bytes that are still to come, where the upstream said so.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match &self.0 {
            Kind::Own(exchange) => exchange.remaining(),
            Kind::Shared(stream) => stream.remaining(),
        }
    }
}

impl From<UpstreamError> for BodyError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(Box::new(error))
    }
}

/// Passes an answer on as it comes.
impl BodySource for UpstreamBody {
    fn poll_data(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        let this: &mut Self = &mut self;
        this.poll_data(cx).map_err(BodyError::from)
    }

    fn is_end(&self) -> bool {
        Self::is_end(self)
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod secure;
#[cfg(test)]
mod tests;
