//! Calls through a proxy that speaks SOCKS 5.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use super::fake::Fake;
use super::*;

const NET: Duration = Duration::from_secs(20);

/// A proxy that connects all to `upstream`; its address, and the names that clients requested. With `login` it
/// requires that.
async fn proxy(
    upstream: SocketAddr,
    login: Option<&'static str>,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let noted = Arc::clone(&noted);
            tokio::spawn(async move {
                if let Some(name) = greet(&mut stream, login).await {
                    noted.lock().unwrap().push(name);
                    let mut onward = TcpStream::connect(upstream).await.unwrap();
                    let _ = copy_bidirectional(&mut stream, &mut onward).await;
                }
            });
        }
    });
    (addr, asked)
}

async fn text(stream: &mut TcpStream) -> String {
    let mut text = vec![0; usize::from(stream.read_u8().await.unwrap())];
    stream.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// The handshake; the host and port that the client wants.
async fn greet(stream: &mut TcpStream, login: Option<&str>) -> Option<String> {
    assert_eq!(stream.read_u8().await.unwrap(), 5);
    let mut methods = vec![0; usize::from(stream.read_u8().await.unwrap())];
    stream.read_exact(&mut methods).await.unwrap();
    let method = if login.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        stream.write_all(&[5, 0xff]).await.unwrap();
        return None;
    }
    stream.write_all(&[5, method]).await.unwrap();
    if let Some(login) = login {
        assert_eq!(stream.read_u8().await.unwrap(), 1);
        let said = format!("{}:{}", text(stream).await, text(stream).await);
        stream.write_all(&[1, u8::from(said != login)]).await.unwrap();
        if said != login {
            return None;
        }
    }
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head, [5, 1, 0, 3], "a connection to a name");
    let name = format!("{}:{}", text(stream).await, stream.read_u16().await.unwrap());
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    Some(name)
}

fn client(variable: &'static str, address: String) -> HttpClient {
    let get = move |name: &str| (name == variable).then(|| address.clone());
    HttpClient { pools: Pools::new(Connector::public(), Proxies::from_environment(get)) }
}

#[tokio::test]
async fn tunnels_and_calls_go_through_it_and_it_looks_up_the_names() {
    for (scheme, user, login) in
        [("socks5", "", None), ("socks5h", "me:a%20secret@", Some("me:a secret"))]
    {
        let upstream = Fake::start(vec![vec![whole("one")], vec![whole("two")]]).await;
        let address = upstream.base().authority().unwrap().as_str().parse().unwrap();
        let (proxy, asked) = proxy(address, login).await;
        let client = client("ALL_PROXY", format!("{scheme}://{user}{proxy}"));
        let base: Uri = "http://models.test:8080/v1".parse().unwrap();
        let request = Request::post("/echo").body(Bytes::new()).unwrap();
        let answer = tokio::time::timeout(NET, client.send(&base, request)).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let mut tunnel = client.tunnel("other.test", 443).await.unwrap();
        tunnel.write_all(b"GET / HTTP/1.1\r\nhost: other.test\r\n\r\n").await.unwrap();
        let mut begin = [0; 12];
        tokio::time::timeout(NET, tunnel.read_exact(&mut begin)).await.unwrap().unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        assert_eq!(*asked.lock().unwrap(), ["models.test:8080", "other.test:443"]);
    }
}

#[tokio::test]
async fn its_refusal_is_told_without_the_password() {
    let (proxy, _) = proxy(SocketAddr::from(([127, 0, 0, 1], 1)), Some("me:other")).await;
    for user in ["", "me:secret@"] {
        let client = client("ALL_PROXY", format!("socks5://{user}{proxy}"));
        let error = client.tunnel("other.test", 443).await.err().unwrap().to_string();
        assert!(error.contains(&format!("the proxy {proxy} of ALL_PROXY")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
