//! An upstream for tests that speaks TLS, with a certificate of a test authority.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// The upstream. It answers `/echo` with the method, target and body, and `/parts` with the parts sent to it here.
pub(super) struct Secure {
    pub(super) addr: SocketAddr,
    /// The certificate that a client has to trust.
    pub(super) authority: String,
    connections: Arc<AtomicUsize>,
    pub(super) parts: mpsc::UnboundedSender<Bytes>,
    /// Resolved when the stream of parts is dropped here.
    pub(super) dropped: mpsc::UnboundedReceiver<()>,
}

struct Told(mpsc::UnboundedSender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

impl Secure {
    pub(super) async fn start(protocol: &str) -> Self {
        let (config, authority) = certified(protocol);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let (parts, source) = mpsc::unbounded_channel();
        let (told, dropped) = mpsc::unbounded_channel();
        let source = Arc::new(tokio::sync::Mutex::new(source));
        let is_h2 = protocol == "h2";
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
                let (source, told) = (Arc::clone(&source), told.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    count.fetch_add(1, Ordering::SeqCst);
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (source, told) = (Arc::clone(&source), Told(told.clone()));
                        async move { Ok::<_, Infallible>(answer(request, source, told).await) }
                    });
                    let io = TokioIo::new(stream);
                    // A client that has gone is what some tests are about.
                    if is_h2 {
                        let builder = http2::Builder::new(TokioExecutor::new());
                        let _ = builder.serve_connection(io, service).await;
                    } else {
                        let _ = http1::Builder::new().serve_connection(io, service).await;
                    }
                });
            }
        });
        Self { addr, authority, connections, parts, dropped }
    }

    pub(super) fn base(&self) -> Uri {
        format!("https://localhost:{}/v1", self.addr.port()).parse().unwrap()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn answer(
    request: Request<Incoming>,
    source: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Bytes>>>,
    told: Told,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if parts.uri.path() == "/v1/parts" {
        let source = source.lock_owned().await;
        let stream = futures_util::stream::unfold((source, told), |(mut source, told)| async {
            let part = source.recv().await.filter(|part| !part.is_empty())?;
            Some((Ok(Frame::data(part)), (source, told)))
        });
        return Response::new(StreamBody::new(stream).boxed_unsync());
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let body = body.collect().await.unwrap().to_bytes();
    let version = parts.version;
    let text = format!("{version:?} {} {} {}", parts.method, parts.uri, body.len());
    Response::new(Full::new(Bytes::from(text)).boxed_unsync())
}

pub(super) fn certified(protocol: &str) -> (ServerConfig, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let params =
        CertificateParams::new(vec!["localhost".to_owned(), "models.test".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    (config, pem)
}
