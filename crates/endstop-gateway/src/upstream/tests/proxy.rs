//! Calls through a proxy, which is real: it listens on loopback, and connects to what it likes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::fake::{Fake, whole};
use super::tls_upstream::{Secure, certified};
use super::*;

const NET: Duration = Duration::from_secs(20);
/// `me:a secret`, as a header has it and as an address has it.
const AUTHORIZATION: &str = "proxy-authorization: Basic bWU6YSBzZWNyZXQ=";
const USER: &str = "me:a%20secret@";

/// The reaction of a proxy to a client.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Connects all to the upstream.
    Pass,
    /// The same, for who has the password.
    Ask,
    Say(&'static str),
    Silent,
}

struct ProxyFake {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ProxyFake {
    async fn start(act: Act, upstream: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, tls) = (Arc::clone(&noted), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, act, upstream, &noted).await,
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            serve(stream, act, upstream, &noted).await;
                        }
                    }
                });
            }
        });
        Self { addr, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    act: Act,
    upstream: SocketAddr,
    noted: &Mutex<Vec<String>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    noted.lock().unwrap().push(head.clone());
    let refusal = match act {
        Act::Say(text) => Some(text),
        Act::Ask if !head.to_lowercase().contains(&AUTHORIZATION.to_lowercase()) => {
            Some("HTTP/1.1 407 Who Asks\r\nContent-Length: 0\r\n\r\n")
        }
        Act::Silent => std::future::pending().await,
        Act::Pass | Act::Ask => None,
    };
    if let Some(text) = refusal {
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let _ = stream.shutdown().await;
        return;
    }
    let mut onward = TcpStream::connect(upstream).await.unwrap();
    if head.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
    } else {
        onward.write_all(head.replacen("http://models.test", "", 1).as_bytes()).await.unwrap();
    }
    // A client that has gone is what some tests are about.
    let _ = copy_bidirectional(&mut stream, &mut onward).await;
}

/// A client with these variables.
fn client(authorities: &[&str], variables: &[(&str, String)]) -> HttpClient {
    let get = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    };
    let proxies = Proxies::from_environment(get);
    let connector = match authorities {
        [] => Connector::public(),
        some => Connector::trusting(some.concat().as_bytes()).unwrap(),
    };
    HttpClient { pools: Pools::new(connector, proxies) }
}

fn base(scheme: &str, upstream: SocketAddr) -> Uri {
    format!("{scheme}://models.test:{}/v1", upstream.port()).parse().unwrap()
}

async fn call(client: &HttpClient, base: &Uri) -> Result<String, UpstreamError> {
    let request = Request::post("/echo").body(Bytes::from_static(b"body")).unwrap();
    let sent = tokio::time::timeout(NET, client.send(base, request)).await.unwrap();
    let mut body: UpstreamBody = sent.map(Response::into_body)?;
    let mut all = Vec::new();
    while let Some(part) = tokio::time::timeout(NET, body.data()).await.unwrap() {
        all.extend(part?);
    }
    Ok(String::from_utf8(all).unwrap())
}

#[tokio::test]
async fn calls_over_tls_go_through_a_tunnel() {
    for (protocol, says) in [("h2", "HTTP/2.0 POST https://"), ("http/1.1", "HTTP/1.1 POST /v1/")] {
        let upstream = Secure::start(protocol).await;
        let proxy = ProxyFake::start(Act::Pass, upstream.addr, None).await;
        let address = format!("http://{}", proxy.addr);
        let client = client(&[&upstream.authority], &[("HTTPS_PROXY", address)]);
        let base = base("https", upstream.addr);
        for _ in 0..3 {
            let answer = call(&client, &base).await.unwrap();
            assert!(answer.starts_with(says), "{answer}");
        }
        let asked = proxy.asked();
        assert_eq!((asked.len(), upstream.connections()), (1, 1), "{protocol}");
        let target = format!("models.test:{}", upstream.addr.port());
        assert!(asked[0].starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")), "{asked:?}");
        assert!(asked[0].contains(&format!("host: {target}\r\n")), "{asked:?}");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_share_a_tunnel() {
    let upstream = Secure::start("h2").await;
    let proxy = ProxyFake::start(Act::Pass, upstream.addr, None).await;
    let client = client(&[&upstream.authority], &[("ALL_PROXY", proxy.addr.to_string())]);
    let base = base("https", upstream.addr);
    let answers = join_all((0..20).map(|_| call(&client, &base))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!((proxy.asked().len(), upstream.connections()), (1, 1));
}

#[tokio::test]
async fn a_proxy_may_speak_tls_itself() {
    let upstream = Secure::start("h2").await;
    let (config, authority) = certified("http/1.1");
    let tls = Some(TlsAcceptor::from(Arc::new(config)));
    let proxy = ProxyFake::start(Act::Ask, upstream.addr, tls).await;
    let address = format!("https://{USER}localhost:{}", proxy.addr.port());
    let client = client(&[&upstream.authority, &authority], &[("https_proxy", address)]);
    let answer = call(&client, &base("https", upstream.addr)).await.unwrap();
    assert!(answer.starts_with("HTTP/2.0 POST"), "{answer}");
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn the_password_goes_to_the_proxy_and_nowhere_else() {
    let upstream = Secure::start("h2").await;
    let proxy = ProxyFake::start(Act::Ask, upstream.addr, None).await;
    let address = format!("http://{USER}{}", proxy.addr);
    let client = client(&[&upstream.authority], &[("HTTPS_PROXY", address)]);
    call(&client, &base("https", upstream.addr)).await.unwrap();
    let shown = format!("{client:?} {:?}", client.pools.proxies());
    for secret in ["secret", "bWU6"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_proxy_is_told_and_the_call_was_not_made() {
    let plain = "https_proxy";
    for (act, user, says) in [
        (Act::Ask, "", "407 Proxy Authentication Required; it asks for https_proxy=http://USER"),
        (Act::Ask, "me:other@", "407 Proxy Authentication Required; it does not take the user"),
        (Act::Say("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"), USER, "answers 403 Forbidden"),
        (Act::Say("HTTP/1.1 502 Bad\r\n\r\n"), "", "answers 502 Bad Gateway"),
        (Act::Say("220 mail.example ESMTP\r\n"), "", "breaks off"),
        (Act::Say(""), "", "breaks off"),
        (Act::Say("HTTP/1.1 200 OK\r\n\r\nhello"), "", "speaks out of turn"),
    ] {
        let upstream = Secure::start("h2").await;
        let proxy = ProxyFake::start(act, upstream.addr, None).await;
        let address = format!("http://{user}{}", proxy.addr);
        let client = client(&[&upstream.authority], &[(plain, address)]);
        let error = call(&client, &base("https", upstream.addr)).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, UpstreamError::Connect { .. }), "{act:?}: {text}");
        let named = format!("the proxy {} of {plain}", proxy.addr);
        assert!(text.contains(says) && text.contains(&named), "{act:?}: {text}");
        assert!(!text.contains("secret") && !text.contains("other"), "{text}");
        assert_eq!((upstream.connections(), proxy.asked().len()), (0, 1), "{act:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_told() {
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let address = format!("http://{USER}{gone}");
    let client = client(&[], &[("HTTPS_PROXY", address.clone()), ("HTTP_PROXY", address)]);
    for scheme in ["http", "https"] {
        let error = call(&client, &base(scheme, gone)).await.unwrap_err().to_string();
        assert!(error.contains(&format!("the proxy {gone} of HTTP")), "{error}");
        assert!(error.contains("refused") && !error.contains("secret"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_says_nothing_is_not_waited_for() {
    let upstream = Secure::start("h2").await;
    let proxy = ProxyFake::start(Act::Silent, upstream.addr, None).await;
    let client = client(&[], &[("HTTPS_PROXY", format!("http://{}", proxy.addr))]);
    let request = Request::post("/echo").body(Bytes::new()).unwrap();
    let error = client.send(&base("https", upstream.addr), request).await.unwrap_err();
    assert!(error.to_string().contains("timed out"), "{error}");
    assert!(!error.may_have_arrived());
}

/// A proxy that never sends anything, not even for TLS; it signals when its client has closed.
async fn mute() -> (SocketAddr, tokio::sync::oneshot::Receiver<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (tell, closed) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while matches!(stream.read(&mut [0; 64]).await, Ok(read) if read > 0) {}
        tell.send(()).unwrap();
    });
    (addr, closed)
}

#[tokio::test(start_paused = true)]
async fn the_time_to_connect_is_told_from_the_time_to_answer() {
    let upstream = SocketAddr::from(([127, 0, 0, 1], 1));
    for scheme in ["http", "https"] {
        let (addr, _closed) = mute().await;
        let client = client(&[], &[("ALL_PROXY", format!("https://{addr}"))])
            .answering_within(Duration::from_secs(1));
        let request = Request::post("/echo").body(Bytes::new()).unwrap();
        let error = client.send(&base(scheme, upstream), request).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Connect { .. }), "{scheme}: {error}");
        assert!(error.to_string().ends_with("timed out"), "{scheme}: {error}");
        assert!(!error.may_have_arrived());
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_gives_up_its_connection_in_the_making() {
    let upstream = SocketAddr::from(([127, 0, 0, 1], 1));
    for scheme in ["http", "https"] {
        let (addr, closed) = mute().await;
        let client = client(&[], &[("ALL_PROXY", format!("https://{addr}"))]);
        let base = base(scheme, upstream);
        tokio::select! {
            answer = call(&client, &base) => panic!("{answer:?}"),
            () = super::fake::all_that_is_on_its_way() => {}
        }
        tokio::time::timeout(NET, closed).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_what_an_upstream_without_tls_has() {
    let upstream = Fake::start(vec![vec![whole("one")], vec![whole("two")]]).await;
    let proxy = ProxyFake::start(Act::Ask, upstream.addr, None).await;
    let base = base("http", upstream.addr);
    let address = format!("http://{USER}{}", proxy.addr);
    let good = client(&[], &[("HTTP_PROXY", address)]);
    assert_eq!(call(&good, &base).await.unwrap(), "one");
    assert_eq!(call(&good, &base).await.unwrap(), "two");
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1, "one connection is kept");
    let target = format!("models.test:{}", upstream.addr.port());
    assert!(asked[0].starts_with(&format!("POST http://{target}/v1/echo HTTP/1.1\r\n")));
    assert!(asked[0].contains(AUTHORIZATION) && asked[0].contains(&format!("host: {target}\r\n")));

    let without = client(&[], &[("HTTP_PROXY", format!("http://{}", proxy.addr))]);
    let error = call(&without, &base).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("it asks for HTTP_PROXY"), "{error}");
    assert_eq!(upstream.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_fails_its_calls_and_no_others() {
    let upstream = Fake::start(vec![vec![whole("near")]]).await;
    for value in ["socks4://me:secret@127.0.0.1:1", "::", "ftp://proxy"] {
        let client = client(&[], &[("ALL_PROXY", value.to_owned())]);
        let error = call(&client, &base("https", upstream.addr)).await.unwrap_err().to_string();
        assert!(error.contains("the proxy of ALL_PROXY cannot be used"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(call(&client, &upstream.base()).await.unwrap(), "near", "loopback is direct");
    }
}

#[test]
fn which_proxy_is_on_the_way_is_said_by_the_environment() {
    let all = [
        ("HTTPS_PROXY", "http://upper:1"),
        ("https_proxy", "http://lower:1"),
        ("http_proxy", "plain:2"),
        ("HTTP_PROXY", ""),
        ("ALL_PROXY", "http://rest"),
        ("NO_PROXY", "corp.test, *.star.test,10.0.0.0/8"),
    ];
    let get =
        |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
    let shown = |get: &dyn Fn(&str) -> Option<String>, base: &str| {
        let proxies = Proxies::from_environment(get);
        let named = proxies.on_the_way_to(&base.parse().unwrap())?;
        Some(named.unwrap().name())
    };
    for (base, expected) in [
        ("https://api.test/v1", Some("the proxy upper:1 of HTTPS_PROXY")),
        ("http://api.test/v1", Some("the proxy plain:2 of http_proxy")),
        ("https://corp.test", None),
        ("https://in.corp.test", None),
        ("https://notcorp.test", Some("the proxy upper:1 of HTTPS_PROXY")),
        ("https://in.star.test", None),
        ("http://10.1.2.3:80", None),
        ("http://11.1.2.3:80", Some("the proxy plain:2 of http_proxy")),
        ("http://localhost:1", None),
        ("http://127.9.9.9:1", None),
        ("http://[::1]:1", None),
        ("http://0.0.0.0:1", None),
    ] {
        assert_eq!(shown(&get, base).as_deref(), expected, "{base}");
    }
    let rest = |name: &str| (name == "all_proxy").then(|| "https://rest".to_owned());
    let name = shown(&rest, "http://api.test").unwrap();
    assert_eq!(name, "the proxy rest:443 of all_proxy");
    let star = |name: &str| match name {
        "no_proxy" => Some("*".to_owned()),
        _ => rest(name),
    };
    assert_eq!(shown(&star, "https://api.test"), None);
    // There the variable holds what the header `Proxy` of a request says.
    let cgi = |name: &str| match name {
        "REQUEST_METHOD" => Some("GET".to_owned()),
        "HTTP_PROXY" => Some("http://evil:1".to_owned()),
        "http_proxy" => Some("http://good:1".to_owned()),
        _ => None,
    };
    assert_eq!(shown(&cgi, "http://api.test").unwrap(), "the proxy good:1 of http_proxy");
}
