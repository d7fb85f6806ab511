//! TLS in front of a server of a test, with a certificate that no client trusts by default.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// The relay. It is gone when this is dropped.
pub(crate) struct TlsRelay {
    port: u16,
    certificate: PathBuf,
    listening: AbortHandle,
}

impl Drop for TlsRelay {
    fn drop(&mut self) {
        self.listening.abort();
        let _ = std::fs::remove_file(&self.certificate);
    }
}

impl TlsRelay {
    /// Passes on what comes to the server at this `HOST:PORT`.
    pub(crate) async fn start(server: String) -> Self {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let file = format!("endstop-tls-relay-{}.pem", uuid::Uuid::now_v7());
        let certificate = std::env::temp_dir().join(file);
        std::fs::write(&certificate, own.cert.pem()).expect("a file");
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|tls| {
                let chain = vec![own.cert.der().clone()];
                tls.with_no_client_auth().with_single_cert(chain, key.into())
            })
            .expect("a certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(acceptor.clone(), client, server.clone()));
            }
        });
        Self { port, certificate, listening: task.abort_handle() }
    }

    /// A URL of the server behind TLS.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// The file that makes a process trust the server.
    pub(crate) fn certificate(&self) -> &Path {
        &self.certificate
    }
}

async fn relay(acceptor: TlsAcceptor, client: TcpStream, server: String) {
    // A client that does not trust it leaves in the middle of the handshake.
    let Ok(mut client) = acceptor.accept(client).await else { return };
    let mut server = TcpStream::connect(server).await.expect("the server behind");
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}
