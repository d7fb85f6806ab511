//! Connections to upstreams: TCP, through a proxy if there is one, and TLS over that.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::proxy::{NamedProxy, Proxy};
use super::wire::Wire;
use crate::limits::{TCP_KEEPALIVE, TCP_PROBE};

/// Where an upstream is.
#[derive(Clone, Debug)]
pub(super) struct UpstreamAddress {
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The proxy on the way there, or the reason why a required one cannot be used.
    pub(super) proxy: Option<NamedProxy>,
}

impl UpstreamAddress {
    /// The proxy that receives the requests for the upstream, rather than a request for a connection to it.
    pub(super) fn asked_proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()?.as_deref().ok().filter(|proxy| !self.is_tls && proxy.is_asked())
    }
}

/// Why certificates cannot be trusted.
#[derive(Debug, Error)]
pub(crate) enum TrustError {
    /// Their file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is not PEM.
    #[error(transparent)]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// One of them cannot be used.
    #[error(transparent)]
    Certificate(#[from] rustls::Error),
    /// There are none.
    #[error("it contains no certificate")]
    Empty,
}

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    /// For proxies, and for upstreams that prefer HTTP/1.1.
    h1_tls: TlsConnector,
}

impl Connector {
    /// One that trusts the public certificate authorities.
    pub(super) fn public() -> Self {
        Self::with(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
    }

    /// One that trusts these certificates and no others.
    pub(super) fn trusting(pem: &[u8]) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
        if roots.is_empty() { Err(TrustError::Empty) } else { Ok(Self::with(roots)) }
    }

    fn with(roots: RootCertStore) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = rustls::DEFAULT_VERSIONS;
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        #[expect(clippy::expect_used, reason = "the provider has suites for both versions")]
        let builder = builder.expect("ring speaks TLS 1.2 and 1.3");
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let h1_tls = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Self { tls: TlsConnector::from(Arc::new(config)), h1_tls }
    }

    /// Connects; says whether the peer wants HTTP/2.
    pub(super) async fn connect(&self, address: &UpstreamAddress) -> io::Result<(Wire, bool)> {
        self.connect_over(&self.tls, address).await
    }

    /// Connects to speak HTTP/1.1.
    pub(super) async fn connect_h1(&self, address: &UpstreamAddress) -> io::Result<Wire> {
        self.connect_over(&self.h1_tls, address).await.map(|(wire, _)| wire)
    }

    async fn connect_over(
        &self,
        tls: &TlsConnector,
        address: &UpstreamAddress,
    ) -> io::Result<(Wire, bool)> {
        if let Some(proxy) = address.asked_proxy() {
            return self.reach(proxy).await.map(|wire| (wire, false));
        }
        let wire = self.connect_raw(address).await?;
        if !address.is_tls {
            return Ok((wire, false));
        }
        secured(tls, &address.host, wire).await
    }

    /// Connects for bytes of any kind. A proxy on the way opens a tunnel.
    pub(super) async fn connect_raw(&self, address: &UpstreamAddress) -> io::Result<Wire> {
        match &address.proxy {
            None => tcp(&address.host, address.port).await,
            Some(Err(why)) => Err(io::Error::other(why.clone())),
            Some(Ok(proxy)) => {
                let wire = self.reach(proxy).await?;
                proxy.tunnel(wire, &format!("{}:{}", address.host, address.port)).await
            }
        }
    }

    async fn reach(&self, proxy: &Proxy) -> io::Result<Wire> {
        let reached = async {
            let wire = tcp(&proxy.host, proxy.port).await?;
            if !proxy.is_tls {
                return Ok(wire);
            }
            secured(&self.h1_tls, &proxy.host, wire).await.map(|(wire, _)| wire)
        };
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", proxy.name()));
        reached.await.map_err(named)
    }
}

/// An address in brackets or without is connected to as it is; a name is looked up by the system.
fn unbracketed(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

async fn tcp(host: &str, port: u16) -> io::Result<Wire> {
    let stream = TcpStream::connect((unbracketed(host), port)).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_PROBE);
    // Without it a dead peer is noticed later and nothing else.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    Ok(Wire::Plain(stream))
}

/// TLS over a connection; says whether the peer wants HTTP/2.
async fn secured(tls: &TlsConnector, host: &str, wire: Wire) -> io::Result<(Wire, bool)> {
    let name = ServerName::try_from(unbracketed(host).to_owned()).map_err(io::Error::other)?;
    let stream = tls.connect(name, wire).await.map_err(not_tls)?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((Wire::Tls(Box::new(stream)), is_h2))
}

/// Describes a peer that answers a TLS handshake in plain text.
fn not_tls(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => io::Error::other(
            "it does not speak TLS there; is its address `http://` rather than `https://`?",
        ),
        _ => error,
    }
}
