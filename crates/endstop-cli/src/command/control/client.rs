//! A client of the control API: over the unix socket of a process, or over an address with a token.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use nix::unistd::Uid;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::error::{CliError, causes};
use crate::input::read_variable;
use crate::limits::{MAX_CONTROL_BYTES, MAX_CONTROL_TIME, MAX_LEAVE_TIME, MAX_LIST_TIME};
use crate::live::{self, LiveProcess};
use crate::output;

/// A path that every control API answers without work.
const HEALTH_PATH: &str = "/endstop/health";

/// Where a gateway's control API is.
#[derive(Debug)]
enum GatewayLocation {
    Process(LiveProcess),
    Address { host: String, port: u16, token: ControlToken },
}

/// The token of a control API at an address.
#[derive(Debug)]
pub(super) struct ControlToken {
    value: String,
    /// The environment variable that it is from.
    variable: String,
}

/// A gateway with a control API.
#[derive(Debug)]
pub(in crate::command) struct Gateway(GatewayLocation);

/// Why a gateway does not do what a command asks.
#[derive(Debug)]
pub(in crate::command) enum AskError {
    /// There is no answer. The text names the gateway.
    NoAnswer(String),
    /// It answers that it does not. The text names no gateway.
    Refused {
        /// Its error.
        why: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

impl AskError {
    /// Its text, which says what it is about.
    pub(super) fn of(&self, what: &str) -> String {
        match self {
            Self::NoAnswer(why) => why.clone(),
            Self::Refused { why, .. } => format!("{what}: {why}"),
        }
    }
}

impl From<AskError> for CliError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::NoAnswer(why) => Self::new(why),
            AskError::Refused { why, hint } => Self { hint, ..Self::new(why) },
        }
    }
}

impl Gateway {
    pub(super) const fn local(process: LiveProcess) -> Self {
        Self(GatewayLocation::Process(process))
    }

    /// # Errors
    /// Returns an error if the address is not `http://HOST:PORT`.
    pub(super) fn remote(url: &str, token: ControlToken) -> Result<Self, CliError> {
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
        Ok(Self(GatewayLocation::Address { host, port, token }))
    }

    /// The process, if it is one of this machine.
    pub(super) const fn process(&self) -> Option<&LiveProcess> {
        match &self.0 {
            GatewayLocation::Process(process) => Some(process),
            GatewayLocation::Address { .. } => None,
        }
    }

    /// Its runs, without their reports.
    pub(super) fn list(&self) -> Result<Value, AskError> {
        self.ask("GET", "/endstop/v1/runs", String::new(), self.list_time())
    }

    /// One run with its report, for a list.
    pub(super) fn report(&self, run: &str) -> Result<Value, AskError> {
        self.ask("GET", &format!("/endstop/v1/runs/{run}"), String::new(), self.list_time())
    }

    /// One run with its report.
    pub(super) fn one(&self, run: &str) -> Result<Value, AskError> {
        self.get(&format!("/endstop/v1/runs/{run}"))
    }

    pub(in crate::command) fn get(&self, path: &str) -> Result<Value, AskError> {
        self.ask("GET", path, String::new(), MAX_CONTROL_TIME)
    }

    pub(in crate::command) fn post(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        self.ask("POST", path, text_of(body), MAX_CONTROL_TIME)
    }

    /// An answer of it as a value of a known form.
    ///
    /// # Errors
    /// Returns an error if it has another form.
    pub(in crate::command) fn read<T: DeserializeOwned>(
        &self,
        answer: Value,
    ) -> Result<T, CliError> {
        serde_json::from_value(answer).map_err(|error| {
            CliError::new(format!("cannot read the answer of {}: {error}", self.name()))
                .with_hint("the gateway may be of another version of Endstop")
        })
    }

    /// Sends a kill. A process that aborts calls and writes its logs has the time that it needs. The wait for a suspended one
    /// ends early: it obeys when it continues, because the request stays in its socket.
    pub(super) fn kill(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        self.finish(async {
            let asked = self.send("POST", path, text_of(body));
            tokio::select! {
                // The kill is sent before the question whether the process answers.
                biased;
                asked = tokio::time::timeout(MAX_CONTROL_TIME, asked) => {
                    asked.map_err(|_| no_answer(MAX_CONTROL_TIME))?
                }
                why = self.silence() => Err(why),
            }
        })
    }

    /// Sends a kill to a process that has not answered before, and does not wait for it.
    pub(super) fn leave_kill(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        self.ask("POST", path, text_of(body), MAX_LEAVE_TIME)
    }

    /// Ends, with the reason, if the process is suspended, or does not answer and the system does not say more.
    async fn silence(&self) -> String {
        let GatewayLocation::Process(process) = &self.0 else {
            return std::future::pending().await;
        };
        let mut is_noted = false;
        loop {
            let asked = self.send("GET", HEALTH_PATH, String::new());
            if tokio::time::timeout(MAX_LIST_TIME, asked).await.is_ok() {
                tokio::time::sleep(MAX_LIST_TIME).await;
                continue;
            }
            match live::is_suspended(process) {
                Some(true) => return "it is suspended, and obeys when it continues".to_owned(),
                None => return no_answer(MAX_LIST_TIME),
                Some(false) if is_noted => {}
                Some(false) => {
                    let pid = process.pid;
                    output::note(&format!("waiting for process {pid}, which does not answer"));
                    is_noted = true;
                }
            }
        }
    }

    /// How long a list waits for it: the only one is worth more than one of several.
    const fn list_time(&self) -> Duration {
        match &self.0 {
            GatewayLocation::Process(_) => MAX_LIST_TIME,
            GatewayLocation::Address { .. } => MAX_CONTROL_TIME,
        }
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: String,
        limit: Duration,
    ) -> Result<Value, AskError> {
        self.finish(async {
            let asked = tokio::time::timeout(limit, self.send(method, path, body)).await;
            asked.map_err(|_| no_answer(limit))?
        })
    }

    /// Waits for an answer: its status, and its value.
    fn finish(
        &self,
        asked: impl Future<Output = Result<(StatusCode, Value), String>>,
    ) -> Result<Value, AskError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| AskError::NoAnswer(format!("cannot start: {error}")))?;
        let asked = runtime.block_on(asked);
        let (status, answer) = asked
            .map_err(|error| AskError::NoAnswer(format!("cannot ask {}: {error}", self.name())))?;
        if status.is_success() {
            return Ok(answer);
        }
        if status == StatusCode::UNAUTHORIZED
            && let GatewayLocation::Address { token, .. } = &self.0
        {
            return Err(token.not_taken());
        }
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        let why = text("error").unwrap_or_else(|| "the control API refused".to_owned());
        let is_earlier = why == "no such path";
        let earlier =
            || is_earlier.then(|| "update the gateway: it is an earlier version".to_owned());
        Err(AskError::Refused { why, hint: text("hint").or_else(earlier) })
    }

    pub(in crate::command) fn name(&self) -> String {
        match &self.0 {
            GatewayLocation::Process(process) => format!("process {}", process.pid),
            GatewayLocation::Address { host, port, .. } => format!("{host}:{port}"),
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Value), String> {
        let request = Request::builder().method(method).uri(path);
        let failed = |error: io::Error| error.to_string();
        match &self.0 {
            GatewayLocation::Process(process) => {
                let stream = own_socket(&process.socket).await.map_err(failed)?;
                exchange(stream, request.header(HOST, "endstop"), body).await
            }
            GatewayLocation::Address { host, port, token } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                let request = request
                    .header(HOST, format!("{host}:{port}"))
                    .header(AUTHORIZATION, format!("Bearer {}", token.value));
                exchange(stream, request, body).await
            }
        }
    }
}

impl ControlToken {
    /// The token in an environment variable.
    ///
    /// # Errors
    /// Returns an error if the variable is empty or not set.
    pub(super) fn of(variable: &str) -> Result<Self, CliError> {
        Ok(Self { value: read_variable(variable)?, variable: variable.to_owned() })
    }

    /// The error for a gateway that has another token.
    fn not_taken(&self) -> AskError {
        let why = format!(
            "the gateway does not take the token of environment variable `{}`",
            self.variable
        );
        let hint = "the gateway's own token is in the variable that `endstop serve --control-token-env` names";
        AskError::Refused { why, hint: Some(hint.to_owned()) }
    }
}

fn no_answer(within: Duration) -> String {
    format!("no answer within {} s", within.as_secs())
}

/// A text as a part of a path or of a query.
pub(in crate::command) fn escaped(text: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// The members of a body that have a value.
fn text_of(body: &Value) -> String {
    let given = body.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let given: serde_json::Map<String, Value> =
        given.map(|(key, value)| (key.clone(), value.clone())).collect();
    Value::Object(given).to_string()
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
) -> Result<(StatusCode, Value), String> {
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| causes(&error))?;
    tokio::spawn(connection);
    let request = request.body(Full::new(Bytes::from(body))).map_err(|error| causes(&error))?;
    let response = sender.send_request(request).await.map_err(|error| causes(&error))?;
    let status = response.status();
    let bytes = Limited::new(response.into_body(), MAX_CONTROL_BYTES).collect().await;
    let bytes = bytes.map_err(|error| error.to_string())?.to_bytes();
    let value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok((status, value))
}
