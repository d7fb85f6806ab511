//! Intercepted connections, over real sockets: with a client that trusts the authority, and with one that does not.

use std::time::Duration;

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_runtime::store::RunId;
use endstop_sim::{Script, Sim};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::config::{Config, Runs, Tunnels, Upstreams};
use crate::gateway::Gateway;

const NET: Duration = Duration::from_secs(60);
const CHAT: &str = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}"#;

async fn gateway(sim: &Sim) -> Gateway {
    let policy = Policy::from_toml("[stop]\na = \"steps >= 2\"").unwrap();
    let program = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    let upstreams = Upstreams::scripted(&format!("http://{}", sim.addr())).unwrap();
    let mut config = Config::new(upstreams, program, Runs::One(RunId::parse("t").unwrap()));
    config.tunnels = Tunnels::Intercepted;
    Gateway::start(config).await.unwrap()
}

/// A connection through the gateway, with these roots.
async fn connect(
    gateway: &Gateway,
    host: &str,
    pem: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_at(gateway, host, 443, pem).await
}

async fn connect_at(
    gateway: &Gateway,
    host: &str,
    port: u16,
    pem: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let password = gateway.tunnels.password.header();
    let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nProxy-Authorization: {password}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(tokio::time::timeout(NET, stream.read_u8()).await.unwrap().unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(stream)
}

async fn ask(stream: &mut TlsStream<TcpStream>, head: &str, body: &str) -> String {
    let length = body.len();
    let request = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(NET, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn the_page_names_every_path_that_is_free() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.md");
    let page = std::fs::read_to_string(page).unwrap();
    let row = |begin: &str| page.lines().find(|line| line.starts_with(begin)).unwrap();
    let (read, written) = (row("| GET, HEAD and OPTIONS |"), row("| all others, such as POST |"));
    for (row, paths) in [(read, &FREE_TO_READ[..]), (written, &FREE_TO_WRITE[..])] {
        for (host, prefix) in paths {
            assert!(row.contains(&format!("`{host}{prefix}`")), "{host}{prefix}: {row}");
        }
    }
}

#[tokio::test]
async fn calls_to_a_provider_are_counted_and_stopped() {
    let sim = Sim::start(Script::Answer).await.unwrap();
    let gateway = gateway(&sim).await;
    let pem = gateway.authority().unwrap().to_owned();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: api.openai.com\r\n";
    for _ in 0..3 {
        let mut stream = connect(&gateway, "api.openai.com", &pem).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let answer = ask(&mut stream, head, CHAT).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(sim.calls(), 2);
    let report = gateway.tunnels().borrow().clone();
    assert_eq!((report.intercepted(), report.untrusted(), report.refused()), (3, 0, 0));
    gateway.shut_down().await;
}

#[tokio::test]
async fn a_request_for_another_host_in_the_connection_is_misdirected() {
    let sim = Sim::start(Script::Answer).await.unwrap();
    let gateway = gateway(&sim).await;
    let pem = gateway.authority().unwrap().to_owned();
    for (head, status) in [
        ("POST /v1/chat/completions HTTP/1.1\r\nhost: api.groq.com\r\n", "421"),
        // Two names in one request are refused as none.
        (
            "POST https://api.groq.com/v1/chat/completions HTTP/1.1\r\nhost: api.openai.com\r\n",
            "400",
        ),
    ] {
        let mut stream = connect(&gateway, "api.openai.com", &pem).await.unwrap();
        let answer = ask(&mut stream, head, CHAT).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
    }
    assert_eq!(sim.calls(), 0);
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_reported() {
    let sim = Sim::start(Script::Answer).await.unwrap();
    let (gateway, other) = (gateway(&sim).await, gateway(&sim).await);
    let mut report = gateway.tunnels();
    let pem = other.authority().unwrap().to_owned();
    assert!(connect(&gateway, "api.openai.com", &pem).await.is_err());
    let seen = tokio::time::timeout(NET, report.wait_for(|report| report.untrusted() == 1)).await;
    assert!(seen.unwrap().unwrap().last_refused.len() == 1);
    // A client that checks the certificate after the handshake, and closes.
    let pem = gateway.authority().unwrap().to_owned();
    let mut stream = connect(&gateway, "api.anthropic.com", &pem).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    let seen = tokio::time::timeout(NET, report.wait_for(|report| report.untrusted() == 2)).await;
    assert_eq!(seen.unwrap().unwrap().intercepted(), 0);
}

#[tokio::test]
async fn a_client_sees_the_certificate_of_another_host_unchanged() {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = own.signing_key.serialize_der();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
        stream.write_all(b"its own words").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let sim = Sim::start(Script::Answer).await.unwrap();
    let gateway = gateway(&sim).await;
    let mut stream = connect_at(&gateway, "localhost", port, &own.cert.pem()).await.unwrap();
    let seen = stream.get_ref().1.peer_certificates().unwrap();
    assert_eq!(seen, [own.cert.der().clone()]);
    let mut words = String::new();
    tokio::time::timeout(NET, stream.read_to_string(&mut words)).await.unwrap().unwrap();
    assert_eq!(words, "its own words");
    let report = gateway.tunnels().borrow().clone();
    assert_eq!((report.intercepted(), report.other), (0, 1));
}
