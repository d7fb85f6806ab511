//! Connections to upstreams: TCP, and TLS over it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A peer that is gone without a word is noticed after this and three probes; a silent model may think for long.
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
        let tcp = SharedTcp(Arc::new(stream));
        if !place.is_tls {
            return Ok((Wire::Plain(tcp), false));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, tcp).await?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Wire::Tls(Box::new(stream)), is_h2))
    }
}

/// A socket that can be looked at beside the connection that owns it.
#[derive(Clone, Debug)]
pub(super) struct SharedTcp(Arc<TcpStream>);

impl SharedTcp {
    /// Whether an idle connection can be used: it is open and nothing has come. A peer that closed, or says
    /// anything without having been asked, has made it useless. Asks the system, so nothing is missed that has
    /// arrived.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        matches!(SockRef::from(&*self.0).peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for SharedTcp {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buf) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for SharedTcp {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}

/// A connection as HTTP sees it.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(SharedTcp),
    Tls(Box<TlsStream<SharedTcp>>),
}

impl Wire {
    /// The socket below.
    pub(super) fn tcp(&self) -> SharedTcp {
        match self {
            Self::Plain(tcp) => tcp.clone(),
            Self::Tls(stream) => stream.get_ref().0.clone(),
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
