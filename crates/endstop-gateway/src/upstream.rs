//! Calls to upstreams: connections that are kept, and answers that are read as they come.
//!
//! An upstream over plain TCP is spoken to in HTTP/1.1; over TLS in whatever it prefers of HTTP/2 and HTTP/1.1. An
//! exchange over HTTP/1.1 runs in the task of the call that it is for: no task of its own, so no switch per part of
//! the answer, and dropping it closes the connection. Connections of HTTP/2 are shared and have a task each;
//! dropping an answer resets its stream.

mod chunks;
mod connect;
mod exchange;
mod headers;
mod pool;
mod shared;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, Uri};
use thiserror::Error;

pub(crate) use headers::{forwardable, only_forwardable};

use crate::body::{BodyError, BodySource};
use connect::Connector;
use exchange::Exchange;
use pool::Pools;
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
    /// It broke off, or what it says is not HTTP. The request may have reached it.
    #[error("the upstream broke off: {0}")]
    Broken(#[from] hyper::Error),
}

impl UpstreamError {
    /// Whether the request may have reached the upstream, which may charge for it then.
    pub(crate) const fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

/// Sends requests to upstreams. Clones share its connections.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pools: Pools,
}

impl Client {
    /// One that trusts the public certificate authorities.
    pub(crate) fn new() -> Self {
        Self { pools: Pools::new(Connector::public()) }
    }

    /// One that trusts what the file in `SSL_CERT_FILE` holds and nothing else, as OpenSSL does; without the
    /// variable as [`new`](Self::new).
    ///
    /// # Errors
    /// Where the file cannot be read or holds no certificate.
    pub(crate) fn from_environment(
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CertificatesError> {
        match get("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
            Some(path) => {
                let pem = std::fs::read(&path).map_err(|error| CertificatesError {
                    path: path.clone(),
                    why: error.to_string(),
                })?;
                Self::trusting(&pem).map_err(|why| CertificatesError { path, why })
            }
            None => Ok(Self::new()),
        }
    }

    /// One that trusts these certificates (PEM) and no others.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn trusting(pem: &[u8]) -> Result<Self, String> {
        Ok(Self { pools: Pools::new(Connector::trusting(pem)?) })
    }

    /// Sends a request and waits for the head of its answer, however long that takes; connecting takes ten seconds
    /// at most. The path of the request is put behind the path of `base`; host, length and framing are set here.
    ///
    /// A request is sent a second time only if it certainly was not sent the first time: the kept connection that
    /// it was meant for had closed before a byte of it was written. Anything else may have been processed, and a
    /// model call that is sent twice may be charged twice.
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
mod relay_tests;
#[cfg(test)]
mod secure;
#[cfg(test)]
mod secure_tests;
#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
