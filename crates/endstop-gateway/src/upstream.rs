//! HTTP to upstreams: [`HttpClient::from_environment`], [`HttpClient::send`] and [`UpstreamBody::poll_data`].
//!
//! An upstream over plain TCP is spoken to in HTTP/1.1; over TLS in whatever it prefers of HTTP/2 and HTTP/1.1. HTTP/1.1
//! is the pooled client of hyper-util, with figures in [`h1`]; why HTTP/2 is not, [`h2_pool`] says. Dropping a response
//! closes its connection (HTTP/1.1) or resets its stream (HTTP/2).

mod body;
mod chunks;
mod connect;
mod error;
mod h1;
mod h2_pool;
mod headers;
mod pool;
mod proxy;
mod wire;

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use endstop_runtime::store::read_certificates;
use http::{Request, Response, Uri};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use body::UpstreamBody;
pub(crate) use error::UpstreamError;
pub(crate) use headers::forwardable;

use connect::{Connector, TrustError};
use pool::Pools;
use proxy::Proxies;

/// Sends requests to upstreams. Clones share its connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    pools: Pools,
}

impl HttpClient {
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
    /// Returns an error if the file cannot be read or holds no certificate.
    pub(crate) fn from_environment(
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, CertificatesError> {
        let connector = match get("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
            Some(path) => {
                let pem = read_certificates(Path::new(&path)).map_err(TrustError::from);
                let connector = pem.and_then(|pem| Connector::trusting(&pem));
                connector.map_err(|why| CertificatesError { path, why })?
            }
            None => Connector::public(),
        };
        Ok(Self { pools: Pools::new(connector, Proxies::from_environment(get)) })
    }

    /// One that trusts these certificates (PEM) and no others, and uses no proxy.
    #[cfg(test)]
    pub(crate) fn trusting(pem: &[u8]) -> Result<Self, TrustError> {
        Ok(Self { pools: Pools::new(Connector::trusting(pem)?, Proxies::default()) })
    }

    /// With a bound for the time from a request to the head of its answer; there is none before.
    pub(crate) const fn answering_within(mut self, within: Duration) -> Self {
        self.pools.answer_within = within;
        self
    }

    /// Sends a request and waits for the head of its answer; connecting takes ten seconds at most. The path
    /// of the request is put behind the path of `base`; host, length and framing are set here.
    ///
    /// A request is sent a second time, over another connection, only if it certainly was not processed the first
    /// time: the kept connection that it was meant for had closed before a byte of it was written, or the upstream
    /// says so in the terms of HTTP/2. Anything else may have been processed, and a model call that is sent twice
    /// may be charged twice.
    ///
    /// # Cancel safety
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

    /// Connects to a host (an IPv6 address in brackets) for bytes of any kind, through the environment's proxy for HTTPS
    /// if one is on the way; ten seconds at most.
    ///
    /// # Errors
    /// Returns an error if there is no connection.
    pub(crate) async fn tunnel(
        &self,
        host: &str,
        port: u16,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>> {
        self.pools.tunnel(host, port).await
    }
}

/// Why the certificates that the environment names cannot be used.
#[derive(Debug, Error)]
#[error("SSL_CERT_FILE: {path}: {why}")]
pub(crate) struct CertificatesError {
    path: String,
    why: TrustError,
}

#[cfg(test)]
mod tests;
