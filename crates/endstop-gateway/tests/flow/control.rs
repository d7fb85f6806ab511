//! Listeners of the control API, other than that of clients.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use endstop_gateway::{Bounds, Control, Gateway, StartError};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::fake::{Fake, json as answer};
use crate::kit::*;
use crate::runs::{TOKEN, ask};

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";
const RUNS: &str = "/endstop/v1/runs";

async fn answering() -> Fake {
    Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await
}

/// A request to the listener of clients.
async fn ask_as_client(gateway: &Gateway, line: &str) -> Got {
    let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n{TOKEN}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    receive(stream).await
}

#[tokio::test]
async fn the_listener_of_clients_has_no_control_api_and_tells_where_it_is() {
    let upstream = answering().await;
    for is_controlled in [false, true] {
        let mut config = config(POLICY, upstream.addr);
        if is_controlled {
            config.control = controlled();
        }
        let gateway = Gateway::start(config).await.unwrap();
        let hint = match gateway.control_addr() {
            Some(addr) => format!("it listens on http://{addr}"),
            None => "this gateway has none".to_owned(),
        };
        let kill = format!("POST {RUNS}/{RUN}/kill");
        for line in [&format!("GET {RUNS}"), &kill, "GET /endstop/v1/total", "GET /endstop/x"] {
            let got = ask_as_client(&gateway, line).await;
            assert_eq!((got.status, &got.json()["hint"]), (404, &json!(hint)), "{line}: {got:?}");
        }
        assert_eq!(ask_as_client(&gateway, "GET /endstop/health").await.status, 200);
        assert_eq!(gateway.counts(&id()).unwrap().refused, 0);
        assert_eq!(chat(&gateway, &Agent::new("Answer.").request()).await.words(), "Done.");
        if is_controlled {
            assert_eq!(ask(&gateway, "GET", RUNS, TOKEN, "").await.status, 200);
            assert_eq!(ask(&gateway, "GET", "/endstop/health", "", "").await.status, 200);
            // It forwards nothing.
            assert_eq!(ask(&gateway, "GET", "/v1/models", TOKEN, "").await.status, 404);
        }
    }
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn an_address_of_the_control_api_needs_a_token() {
    let upstream = answering().await;
    let mut config = config(POLICY, upstream.addr);
    config.control = Control { token: None, ..controlled() };
    let error = Gateway::start(config).await.unwrap_err();
    assert!(matches!(error, StartError::Control(_)), "{error}");
    assert!(error.to_string().ends_with("needs a token"), "{error}");
}

#[tokio::test]
async fn control_answers_while_clients_hold_every_connection() {
    let upstream = answering().await;
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    let gateway = Gateway::start(config).await.unwrap();
    assert_eq!(Bounds::default().connections, 4_096);
    let mut hanging = Vec::new();
    for _ in 0..4_200 {
        let mut stream = TcpStream::connect(gateway.addr()).await.unwrap();
        stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: local").await.unwrap();
        hanging.push(stream);
    }
    let mut client = send(gateway.addr(), "/v1/chat/completions", "", "{}").await;
    let list = ask(&gateway, "GET", RUNS, TOKEN, "").await;
    assert_eq!((list.status, &list.json()["runs"][0]["run"]), (200, &json!(RUN)));
    let killed = ask(&gateway, "POST", &format!("{RUNS}/{RUN}/kill"), TOKEN, "").await;
    assert_eq!((killed.status, &killed.json()["status"]), (200, &json!("stopped")));
    // All connections of clients are taken: this one was not even read.
    let nothing = client.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    client.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_command_whose_client_has_left_is_obeyed() {
    let upstream = answering().await;
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    let gateway = Gateway::start(config).await.unwrap();
    assert_eq!(chat(&gateway, &Agent::new("Answer.").request()).await.words(), "Done.");
    // The gateway runs on the thread of this test, so it sees the request and the end of the connection at the same time.
    let mut client = std::net::TcpStream::connect(gateway.control_addr().unwrap()).unwrap();
    let line = format!("POST {RUNS}/{RUN}/kill HTTP/1.1");
    let request = format!("{line}\r\nhost: localhost\r\n{TOKEN}content-length: 0\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    drop(client);
    let stopped = async {
        let path = format!("{RUNS}/{RUN}");
        while ask(&gateway, "GET", &path, TOKEN, "").await.json()["status"] != "stopped" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), stopped).await.unwrap();
}

#[tokio::test]
async fn a_web_page_of_another_site_is_refused_like_other_requests() {
    let upstream = answering().await;
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    let gateway = Gateway::start(config).await.unwrap();
    for path in [RUNS, "/endstop/health", "/endstop/v1/openapi.json"] {
        let headers = format!("{TOKEN}origin: https://site.example\r\n");
        let got = ask(&gateway, "GET", path, &headers, "").await;
        assert_eq!(got.status, 403, "{path}: {got:?}");
        assert!(got.json()["error"].is_string(), "{path}: {got:?}");
    }
}

#[cfg(unix)]
mod socket {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;

    use super::*;

    /// A directory that does not exist. The path of a socket has at most 107 bytes, so it is not below that of the tests.
    fn absent(name: &str) -> PathBuf {
        let name = format!("endstop-control-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    async fn start(upstream: SocketAddr, socket: &Path) -> Result<Gateway, StartError> {
        let mut config = config(POLICY, upstream);
        config.control = Control { socket: Some(socket.to_owned()), ..Control::default() };
        Gateway::start(config).await
    }

    async fn ask_socket(socket: &Path, line: &str) -> String {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nhost: endstop\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).await.unwrap();
        all
    }

    #[tokio::test]
    async fn only_its_user_can_open_the_socket_and_needs_no_token() {
        let upstream = answering().await;
        let directory = absent("own");
        let socket = directory.join("control.sock");
        let gateway = start(upstream.addr, &socket).await.unwrap();
        assert_eq!(gateway.control_socket(), Some(&*socket));
        assert_eq!((mode(&directory), mode(&socket)), (0o700, 0o600));
        let list = ask_socket(&socket, &format!("GET {RUNS}")).await;
        assert!(list.starts_with("HTTP/1.1 200") && list.contains(RUN), "{list}");
        let got = ask_as_client(&gateway, &format!("GET {RUNS}")).await;
        assert!(got.text().contains(&format!("unix:{}", socket.display())), "{got:?}");
        gateway.shut_down().await;
        assert!(!directory.exists());
    }

    #[tokio::test]
    async fn a_directory_that_others_can_open_is_refused() {
        let upstream = answering().await;
        let directory = absent("open");
        fs::create_dir(&directory).unwrap();
        for bits in [0o750, 0o701, 0o777] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(bits)).unwrap();
            let error = start(upstream.addr, &directory.join("control.sock")).await.unwrap_err();
            assert!(error.to_string().contains("mode 0700"), "{bits:o}: {error}");
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(&directory).unwrap();
    }

    #[tokio::test]
    async fn a_socket_in_use_and_other_files_stay_and_a_dead_socket_is_replaced() {
        let upstream = answering().await;
        let directory = absent("taken");
        let socket = directory.join("control.sock");
        let first = start(upstream.addr, &socket).await.unwrap();
        let error = start(upstream.addr, &socket).await.unwrap_err();
        assert!(error.to_string().contains("running process"), "{error}");
        assert!(ask_socket(&socket, "GET /endstop/health").await.starts_with("HTTP/1.1 200"));
        // Kept, as if by `kill -9`.
        fs::hard_link(&socket, directory.join("dead.sock")).unwrap();
        first.shut_down().await;
        let dead = directory.join("dead.sock");
        assert!(fs::metadata(&dead).unwrap().file_type().is_socket());
        let second = start(upstream.addr, &dead).await.unwrap();
        assert!(ask_socket(&dead, "GET /endstop/health").await.starts_with("HTTP/1.1 200"));
        drop(second);
        let file = directory.join("notes.txt");
        fs::write(&file, "notes").unwrap();
        start(upstream.addr, &file).await.unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "notes");
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_start_that_fails_leaves_no_listener_of_the_control_api_behind() {
    let upstream = answering().await;
    let free = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let mut config = config(POLICY, upstream.addr);
    config.control = Control { listen: Some(free), ..controlled() };
    // It is no directory, so there can be no socket in it.
    config.control.socket = Some("/dev/null/endstop/control.sock".into());
    let error = Gateway::start(config).await.unwrap_err();
    assert!(matches!(error, StartError::Control(_)), "{error}");
    assert!(tokio::net::TcpListener::bind(free).await.is_ok(), "the address is free again");
}

#[tokio::test]
async fn the_openapi_document_is_answered_without_a_token() {
    let upstream = answering().await;
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    let gateway = Gateway::start(config).await.unwrap();
    let path = "/endstop/v1/openapi.json";
    let got = ask(&gateway, "GET", path, "", "").await;
    assert_eq!((got.status, got.json()), (200, endstop_gateway::control_openapi()));
    assert_eq!(ask(&gateway, "POST", path, "", "").await.status, 405);
    let hidden = ask_as_client(&gateway, &format!("GET {path}")).await;
    assert_eq!(hidden.status, 404, "clients do not get it");
}
