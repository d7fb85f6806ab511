//! Connections to upstreams: TCP, through a proxy where there is one, and TLS over that.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::proxy::Proxy;

/// A peer that is gone without a word is noticed after this and some probes; a model may be silent for long.
const KEEPALIVE: Duration = Duration::from_secs(30);
const PROBE: Duration = Duration::from_secs(10);

/// Where an upstream is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The proxy on the way there; why there is none although there ought to be.
    pub(super) proxy: Option<Result<Arc<Proxy>, String>>,
}

impl Place {
    /// The proxy that is asked for what the upstream has, rather than for a connection to it.
    pub(super) fn asked_proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()?.as_deref().ok().filter(|_| !self.is_tls)
    }
}

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    /// For proxies, which speak HTTP/1.1.
    proxy_tls: TlsConnector,
}

impl Connector {
    /// One that trusts the public certificate authorities.
    pub(super) fn public() -> Self {
        Self::with(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
    }

    /// One that trusts these certificates and no others.
    pub(super) fn trusting(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() { Err("it holds no certificate".into()) } else { Ok(Self::with(roots)) }
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
        let proxy_tls = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols.insert(0, b"h2".to_vec());
        Self { tls: TlsConnector::from(Arc::new(config)), proxy_tls }
    }

    /// Connects; says whether the peer wants HTTP/2.
    pub(super) async fn connect(&self, place: &Place) -> io::Result<(Wire, bool)> {
        let wire = match &place.proxy {
            None => tcp(&place.host, place.port).await?,
            Some(Err(why)) => return Err(io::Error::other(why.clone())),
            Some(Ok(proxy)) => {
                let wire = self.reach(proxy).await.map_err(|error| {
                    io::Error::new(error.kind(), format!("{}: {error}", proxy.name()))
                })?;
                if !place.is_tls {
                    return Ok((wire, false));
                }
                proxy.tunnel(wire, &format!("{}:{}", place.host, place.port)).await?
            }
        };
        if !place.is_tls {
            return Ok((wire, false));
        }
        secured(&self.tls, &place.host, wire).await
    }

    async fn reach(&self, proxy: &Proxy) -> io::Result<Wire> {
        let wire = tcp(&proxy.host, proxy.port).await?;
        if !proxy.is_tls {
            return Ok(wire);
        }
        secured(&self.proxy_tls, &proxy.host, wire).await.map(|(wire, _)| wire)
    }
}

/// An address in brackets or without is connected to as it is; a name is looked up by the system.
fn unbracketed(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

async fn tcp(host: &str, port: u16) -> io::Result<Wire> {
    let stream = TcpStream::connect((unbracketed(host), port)).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(PROBE);
    // Without it a dead peer is noticed later and nothing else.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    Ok(Wire::Plain(Socket { stream, look: Look::default() }))
}

/// TLS over a connection; says whether the peer wants HTTP/2.
async fn secured(tls: &TlsConnector, host: &str, wire: Wire) -> io::Result<(Wire, bool)> {
    let name = ServerName::try_from(unbracketed(host).to_owned()).map_err(io::Error::other)?;
    let stream = tls.connect(name, wire).await.map_err(not_tls)?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((Wire::Tls(Box::new(stream)), is_h2))
}

/// Says in words what a peer does that answers a TLS handshake in plain text.
fn not_tls(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => io::Error::other(
            "it does not speak TLS there; is its address `http://` rather than `https://`?",
        ),
        _ => error,
    }
}

/// A socket whose owner can be asked, from outside of the connection that has it, to look twice before it reads.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    look: Look,
}

/// Asks a socket to look before its next read whether anything has come at all. The reactor learns of it with some
/// delay; the system knows at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Look(Arc<AtomicBool>);

impl Look {
    /// The next read of a socket on which anything has come, or that is closed, says that it is closed: right for a
    /// connection that is idle, whose peer has no business to speak.
    pub(super) fn before_next_read(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Socket {
    fn is_quiet(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        let peeked = SockRef::from(&self.stream).peek(&mut byte);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_asked = self.look.0.load(Ordering::Relaxed);
        if is_asked {
            self.look.0.store(false, Ordering::Relaxed);
            if !self.is_quiet() {
                return Poll::Ready(Ok(()));
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection as HTTP sees it.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(Socket),
    /// Over a socket, or within the TLS of a proxy.
    Tls(Box<TlsStream<Wire>>),
}

impl Wire {
    /// Asks the socket below.
    pub(super) fn look(&self) -> Look {
        match self {
            Self::Plain(tcp) => tcp.look.clone(),
            Self::Tls(stream) => stream.get_ref().0.look(),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, data),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
