//! Connections to upstreams: TCP, and TLS over it.

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

/// A peer that is gone without a word is noticed after this and some probes; a model may be silent for long.
const KEEPALIVE: Duration = Duration::from_secs(30);
const PROBE: Duration = Duration::from_secs(10);

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
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
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Connects; says whether the peer wants HTTP/2.
    pub(super) async fn connect(&self, place: &Place) -> io::Result<(Wire, bool)> {
        // An address in brackets or without is connected to as it is; a name is looked up by the system.
        let host = place.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, place.port)).await?;
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(PROBE);
        // Without it a dead peer is noticed later and nothing else.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let tcp = Socket { stream, look: Look::default() };
        if !place.is_tls {
            return Ok((Wire::Plain(tcp), false));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, tcp).await.map_err(not_tls)?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Wire::Tls(Box::new(stream)), is_h2))
    }
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
    Tls(Box<TlsStream<Socket>>),
}

impl Wire {
    /// Asks the socket below.
    pub(super) fn look(&self) -> Look {
        match self {
            Self::Plain(tcp) => tcp.look.clone(),
            Self::Tls(stream) => stream.get_ref().0.look.clone(),
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
