//! Tunnels over real sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_runtime::store::RunId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::{Config, Runs, Upstreams};
use crate::gateway::Gateway;

const NET: Duration = Duration::from_secs(60);

/// A server that sends back what it gets; its address, and how many connections it has seen.
async fn echo() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    (addr, seen)
}

fn config(tunnels: Tunnels, upstream: &str) -> Config {
    let policy = Policy::from_toml("[stop]\na = \"steps >= 3\"").unwrap();
    let program = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    let upstreams = Upstreams::all(upstream).unwrap();
    let mut config = Config::new(upstreams, program, Runs::One(RunId::parse("t").unwrap()));
    config.tunnels = tunnels;
    config
}

async fn gateway(tunnels: Tunnels, upstream: &str) -> Gateway {
    Gateway::start(config(tunnels, upstream)).await.unwrap()
}

/// Sends a head, and returns the connection and the head of the answer.
async fn ask(gateway: &Gateway, head: &str) -> (TcpStream, String) {
    let password = gateway.tunnels.password.header();
    ask_as(gateway, head, &format!("Proxy-Authorization: {password}\r\n")).await
}

/// Sends a head with one more header.
async fn ask_as(gateway: &Gateway, head: &str, header: &str) -> (TcpStream, String) {
    let head = head.replacen("\r\n", &format!("\r\n{header}"), 1);
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(NET, stream.read_u8()).await.unwrap();
        answer.push(byte.unwrap_or_else(|error| panic!("{error}: {answer:?}")));
    }
    (stream, String::from_utf8(answer).unwrap())
}

async fn connect(gateway: &Gateway, target: &str) -> (TcpStream, String) {
    ask(gateway, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await
}

/// Everything until the end.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    tokio::time::timeout(NET, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    rest
}

const LOOPBACK: &str = "http://127.0.0.1:1/v1";

#[tokio::test]
async fn the_bytes_of_other_hosts_pass_unchanged_both_ways() {
    for mode in [Tunnels::Guarded, Tunnels::Intercepted] {
        pass_unchanged(mode).await;
    }
}

async fn pass_unchanged(mode: Tunnels) {
    let (addr, seen) = echo().await;
    let gateway = gateway(mode, LOOPBACK).await;
    let all: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    for target in [format!("127.0.0.1:{}", addr.port()), format!("localhost:{}", addr.port())] {
        let (stream, answer) = connect(&gateway, &target).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("content-length"), "{answer}");
        let (mut read, mut write) = stream.into_split();
        let sent = all.clone();
        tokio::spawn(async move {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut back = Vec::new();
        tokio::time::timeout(NET, read.read_to_end(&mut back)).await.unwrap().unwrap();
        assert!(back == all, "{} bytes came back", back.len());
    }
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    let report = gateway.tunnels().borrow().clone();
    assert_eq!((report.other, report.refused(), report.failed), (2, 0, 0));
}

#[tokio::test]
async fn a_client_of_http_1_0_without_host_gets_its_tunnel() {
    let (addr, _) = echo().await;
    let gateway = gateway(Tunnels::Guarded, LOOPBACK).await;
    let head = format!("CONNECT 127.0.0.1:{} HTTP/1.0\r\n\r\n", addr.port());
    let (mut stream, answer) = ask(&gateway, &head).await;
    assert!(answer.contains(" 200 "), "{answer}");
    stream.write_all(b"\x16\x03\x01").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, b"\x16\x03\x01");
}

#[tokio::test]
async fn model_hosts_are_refused_however_they_are_written_and_said() {
    let gateway = gateway(Tunnels::Guarded, "https://models.example/v1").await;
    let mut report = gateway.tunnels();
    for target in ["api.openai.com:443", "API.OPENAI.COM.:8443", "models.example:443"] {
        let (mut stream, answer) = connect(&gateway, target).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        let body = String::from_utf8(rest(&mut stream).await).unwrap();
        assert!(body.contains("Endstop refused this connection to"), "{body}");
    }
    tokio::time::timeout(NET, report.changed()).await.unwrap().unwrap();
    let report = report.borrow_and_update().clone();
    let openai = &report.model_hosts["api.openai.com"];
    assert_eq!((openai.provider, openai.refused, openai.tunnelled), ("OpenAI", 2, 0));
    assert_eq!(report.model_hosts["models.example"].refused, 1);
    assert!(report.first_refused.is_some() && report.many_refused_since().is_none());
}

#[tokio::test]
async fn without_the_password_of_this_gateway_there_is_no_tunnel() {
    let (addr, seen) = echo().await;
    let (own, other) =
        (gateway(Tunnels::All, LOOPBACK).await, gateway(Tunnels::All, LOOPBACK).await);
    let head = format!("CONNECT {addr} HTTP/1.1\r\n\r\n");
    let wrong = format!("Proxy-Authorization: {}\r\n", other.tunnels.password.header());
    for header in ["", "Proxy-Authorization: Basic ZW5kc3RvcDo=\r\n", &wrong] {
        let (mut stream, answer) = ask_as(&own, &head, header).await;
        assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
        assert!(answer.contains("proxy-authenticate: Basic realm="), "{answer}");
        let body = String::from_utf8(rest(&mut stream).await).unwrap();
        assert!(body.contains("the user and password of HTTPS_PROXY"), "{body}");
    }
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    let report = own.tunnels().borrow().clone();
    assert_eq!((report.without_password, report.other), (3, 0));
    assert!(own.proxy_address().unwrap().ends_with(&format!("@{}", own.addr())));
    assert_eq!(gateway(Tunnels::Off, LOOPBACK).await.proxy_address(), None);
}

#[tokio::test]
async fn hosts_that_may_be_reached_directly_are_tunnelled_and_counted_and_others_refused() {
    let (addr, _) = echo().await;
    let mut config = config(Tunnels::Guarded, "https://models.localhost/v1");
    config.direct_hosts = vec!["Models.localhost".to_owned()];
    let gateway = Gateway::start(config).await.unwrap();
    let (_, answer) = connect(&gateway, &format!("models.localhost:{}", addr.port())).await;
    assert!(!answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let (_, answer) = connect(&gateway, "api.openai.com:443").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn nothing_is_read_behind_a_refused_connect() {
    let gateway = gateway(Tunnels::Guarded, LOOPBACK).await;
    let smuggled = "GET /endstop/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let head = format!("CONNECT api.openai.com:443 HTTP/1.1\r\n\r\n{smuggled}");
    let (mut stream, answer) = ask(&gateway, &head).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let mut all = Vec::new();
    // Unread bytes may reset the connection.
    let _ = tokio::time::timeout(NET, stream.read_to_end(&mut all)).await.unwrap();
    assert!(!String::from_utf8_lossy(&all).contains("HTTP/1.1"), "{all:?}");
}

#[tokio::test]
async fn there_are_no_tunnels_unless_they_are_asked_for() {
    let (addr, seen) = echo().await;
    let gateway = gateway(Tunnels::Off, LOOPBACK).await;
    let (_, answer) = connect(&gateway, &addr.to_string()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_no_target_or_of_a_web_page_is_refused_and_an_absent_server_is_said() {
    let (addr, seen) = echo().await;
    let gateway = gateway(Tunnels::Guarded, LOOPBACK).await;
    let (_, answer) = ask(&gateway, "CONNECT localhost HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let page = format!("CONNECT {addr} HTTP/1.1\r\nOrigin: https://page.example\r\n\r\n");
    let (_, answer) = ask(&gateway, &page).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let (mut stream, answer) = connect(&gateway, &closed.to_string()).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let body = String::from_utf8(rest(&mut stream).await).unwrap();
    assert!(body.contains("cannot connect to 127.0.0.1: "), "{body}");
    assert_eq!(gateway.tunnels().borrow().failed, 1);
}

#[tokio::test]
async fn plain_http_for_another_host_is_refused_with_the_reason() {
    let gateway = gateway(Tunnels::Guarded, LOOPBACK).await;
    let head =
        "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n";
    let (mut stream, answer) = ask(&gateway, head).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let body = String::from_utf8(rest(&mut stream).await).unwrap();
    assert!(body.contains("the request is for the host `other.example`"), "{body}");
}

#[tokio::test]
async fn more_tunnels_than_the_bound_are_refused_and_the_end_of_the_gateway_closes_all() {
    let (addr, _) = echo().await;
    let gateway = gateway(Tunnels::Guarded, LOOPBACK).await;
    let target = addr.to_string();
    let mut open = Vec::new();
    for _ in 0..MAX_TUNNELS {
        let (stream, answer) = connect(&gateway, &target).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        open.push(stream);
    }
    let (_, answer) = connect(&gateway, &target).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    gateway.shut_down().await;
    for mut stream in open {
        let mut byte = [0];
        let read = tokio::time::timeout(NET, stream.read(&mut byte)).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}
