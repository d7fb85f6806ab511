//! A client of the control API: over the unix socket of a process, or over an address with a token.

use std::io;
use std::path::Path;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use nix::unistd::Uid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::error::{CliError, causes};
use crate::limits::{MAX_CONTROL_BYTES, MAX_CONTROL_TIME};
use crate::live::LiveProcess;

/// Where a gateway's control API is.
#[derive(Debug)]
enum Place {
    Process(LiveProcess),
    Address { host: String, port: u16, token: String },
}

/// A gateway with a control API.
#[derive(Debug)]
pub(super) struct Gateway(Place);

impl Gateway {
    pub(super) const fn local(process: LiveProcess) -> Self {
        Self(Place::Process(process))
    }

    /// # Errors
    /// Returns an error if the address is not `http://HOST:PORT`.
    pub(super) fn remote(url: &str, token: &str) -> Result<Self, CliError> {
        let wrong = || {
            CliError::new(format!(
                "--server: `{url}` is not an address such as `http://127.0.0.1:8485`"
            ))
            .with_hint("for another machine, forward the port: ssh -L 8485:127.0.0.1:8485 HOST")
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
        let authority = authority.ok_or_else(wrong)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self(Place::Address { host, port, token: token.to_owned() }))
    }

    /// The process, if it is one of this machine.
    pub(super) const fn process(&self) -> Option<&LiveProcess> {
        match &self.0 {
            Place::Process(process) => Some(process),
            Place::Address { .. } => None,
        }
    }

    /// One run with its report.
    pub(super) fn one(&self, run: &str) -> Result<Value, CliError> {
        self.get(&format!("/endstop/v1/runs/{run}"))
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, CliError> {
        self.ask("GET", path, String::new())
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        let given = body.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let given: serde_json::Map<String, Value> =
            given.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.ask("POST", path, Value::Object(given).to_string())
    }

    fn ask(&self, method: &str, path: &str, body: String) -> Result<Value, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
        let asked = runtime.block_on(async {
            let asking = self.send(method, path, body);
            let asked = tokio::time::timeout(MAX_CONTROL_TIME, asking).await;
            asked.map_err(|_| format!("no answer within {}", MAX_CONTROL_TIME.as_secs()))?
        });
        let (is_success, answer) =
            asked.map_err(|error| CliError::new(format!("cannot ask {}: {error}", self.name())))?;
        if is_success {
            return Ok(answer);
        }
        let error = answer.get("error").and_then(Value::as_str);
        Err(CliError::new(error.unwrap_or("the control API refused").to_owned()))
    }

    pub(super) fn name(&self) -> String {
        match &self.0 {
            Place::Process(process) => format!("process {}", process.pid),
            Place::Address { host, port, .. } => format!("{host}:{port}"),
        }
    }

    async fn send(&self, method: &str, path: &str, body: String) -> Result<(bool, Value), String> {
        let request = Request::builder().method(method).uri(path);
        let failed = |error: io::Error| error.to_string();
        match &self.0 {
            Place::Process(process) => {
                let stream = own_socket(&process.socket).await.map_err(failed)?;
                exchange(stream, request.header(HOST, "endstop"), body).await
            }
            Place::Address { host, port, token } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                let request = request
                    .header(HOST, format!("{host}:{port}"))
                    .header(AUTHORIZATION, format!("Bearer {token}"));
                exchange(stream, request, body).await
            }
        }
    }
}

/// Connects to the socket of a process of this user.
async fn own_socket(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path).await?;
    let peer = stream.peer_cred()?.uid();
    if peer != Uid::effective().as_raw() {
        let text = format!("the socket is of another user (uid {peer})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(stream)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: hyper::http::request::Builder,
    body: String,
) -> Result<(bool, Value), String> {
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| causes(&error))?;
    tokio::spawn(connection);
    let request = request.body(Full::new(Bytes::from(body))).map_err(|error| causes(&error))?;
    let response = sender.send_request(request).await.map_err(|error| causes(&error))?;
    let is_success = response.status().is_success();
    let bytes = Limited::new(response.into_body(), MAX_CONTROL_BYTES).collect().await;
    let bytes = bytes.map_err(|error| error.to_string())?.to_bytes();
    let value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok((is_success, value))
}
