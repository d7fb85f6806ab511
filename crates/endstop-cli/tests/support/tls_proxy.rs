//! A proxy on loopback. Each connection through it ends at a TLS server with a separate certificate, whatever host it is for.

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request as the server reads it.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The first line of what opened the connection at the proxy.
    pub(crate) tunnel: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The running proxy with its server.
pub(crate) struct TlsProxy {
    /// For `HTTPS_PROXY`.
    pub(crate) address: String,
    /// The certificate of the server, for `SSL_CERT_FILE`.
    pub(crate) pem: String,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl TlsProxy {
    /// Starts one whose server is `host`. It answers a request, by the first line of its head, with this JSON.
    pub(crate) fn start(host: &str, answer: fn(&str) -> &'static str) -> Self {
        let own = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![own.cert.der().clone()], key.into()).unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let arrivals: Arc<Mutex<Vec<Arrival>>> = Arc::default();
        let into = Arc::clone(&arrivals);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, into) = (Arc::clone(&config), Arc::clone(&into));
                std::thread::spawn(move || serve(stream.unwrap(), config, &into, answer));
            }
        });
        Self { address, pem: own.cert.pem(), arrivals }
    }

    /// The requests so far.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    arrivals: &Mutex<Vec<Arrival>>,
    answer: fn(&str) -> &'static str,
) {
    let Some(connect) = head(&mut stream) else { return };
    let tunnel = first_line(&connect).to_owned();
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let Some(head) = head(&mut stream) else { return };
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let text = answer(first_line(&head));
    arrivals.lock().unwrap().push(Arrival { tunnel, head, body });
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    )
    .unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}

fn first_line(head: &str) -> &str {
    head.lines().next().unwrap_or_default()
}

/// Up to the empty line. `None` if the connection ends before, such as one that was opened in advance.
fn head(stream: &mut impl Read) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or_default() == 0 {
            return None;
        }
        head.extend_from_slice(&byte);
    }
    String::from_utf8(head).ok()
}
