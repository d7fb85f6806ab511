//! The servers of the control API.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use endstop_core::signal::{StopReason, StopSignal};
use endstop_runtime::RunHandle;
use endstop_runtime::cancel::{CancelToken, MemoryKillSwitch, Urgency};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::task::JoinHandle;
use tokio::time::Instant;

#[cfg(unix)]
use super::listen::{self, SocketFile};
use super::{ControlError, ControlService, KILL_PATH, OutsideAnswers, RUNS_PATH, problem, reply};
use crate::body::Body;
use crate::config::{Bounds, Control, Key};
use crate::limits::{CONTROL_CONNECTIONS, CONTROL_GRACE, CONTROL_HEAD, SHUTDOWN_GRACE};
use crate::run::Registry;
use crate::server::{self, Accept, PeerInfo};

/// The control API of a run that a program drives itself, such as an agent loop. It ends when it is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunEnvironment, RunHandle, observe::RunInfo, store::RunId};
/// use endstop_gateway::{Control, Key, RunControl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let program = Arc::new(Program::new(&Policy::from(max_steps(9)), &Probes::new())?);
/// # let run = RunHandle::root(info, program, RunEnvironment::default());
/// let listen = Some("127.0.0.1:0".parse()?);
/// let control = Control { listen, token: Some(Key::new("secret")), ..Control::default() };
/// let control = RunControl::start(control, run).await?;
/// assert!(control.addr().is_some());
/// control.end().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RunControl(ControlServers);

impl RunControl {
    /// Starts to listen.
    ///
    /// # Cancel safety
    /// Dropping the future closes the address and the socket.
    ///
    /// # Errors
    /// Returns an error if it cannot listen, or an address has no token.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(control: Control, run: RunHandle) -> Result<Self, ControlError> {
        let registry = Arc::new(Registry::of_driven_alone(run));
        ControlServers::start(&control, &registry, &MemoryKillSwitch::new()).await.map(Self)
    }

    /// Returns the unix socket, if there is one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.0.socket()
    }

    /// Returns the address, if there is one.
    #[must_use]
    pub const fn addr(&self) -> Option<SocketAddr> {
        self.0.addr()
    }

    /// Stops listening. Clients that wait for a change of the run get its last state.
    ///
    /// # Cancel safety
    /// Dropping the future aborts requests in flight.
    pub async fn end(mut self) {
        self.0.end().await;
    }
}

impl Drop for ControlServers {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Whether a command stops or holds runs, whatever other commands come before or after it.
pub(super) fn tightens(path: &str) -> bool {
    let of_run =
        path.strip_prefix(RUNS_PATH).and_then(|rest| rest.trim_matches('/').split_once('/'));
    path == KILL_PATH || matches!(of_run, Some((_, "kill" | "cancel" | "pause")))
}

/// The answer to a command that ended without one.
fn failed() -> Response<Body> {
    reply(StatusCode::INTERNAL_SERVER_ERROR, &problem("the command failed"))
}

/// The servers of the control API. They continue until calls in flight have ended, so that a shutdown can be followed.
#[derive(Debug)]
pub(crate) struct ControlServers {
    addr: Option<SocketAddr>,
    #[cfg(unix)]
    socket: Option<SocketFile>,
    servers: Vec<JoinHandle<()>>,
    stop: CancelToken,
}

impl ControlServers {
    pub(crate) async fn start(
        config: &Control,
        registry: &Arc<Registry>,
        kill: &MemoryKillSwitch,
    ) -> Result<Self, ControlError> {
        let mut all = Self {
            addr: None,
            #[cfg(unix)]
            socket: None,
            servers: Vec::new(),
            stop: CancelToken::new(),
        };
        // Nothing is served before both are bound: a start that fails leaves nothing behind.
        let tcp = match config.listen {
            Some(addr) => Some(ControlServers::bind(addr, config.token.clone()).await?),
            None => None,
        };
        #[cfg(unix)]
        let unix = config.socket.as_ref().map(|path| listen::bind(path)).transpose()?;
        let outside = OutsideAnswers::of(config);
        if let Some((listener, addr, token)) = tcp {
            all.addr = Some(addr);
            let is_local = addr.ip().is_loopback();
            let registry = Arc::clone(registry);
            let service = ControlService {
                registry,
                kill: kill.clone(),
                token: Some(token),
                is_local,
                stop: all.stop.clone(),
                outside: outside.clone(),
            };
            all.serve(listener, service);
        }
        #[cfg(unix)]
        if let Some((listener, file)) = unix {
            all.socket = Some(file);
            let registry = Arc::clone(registry);
            let service = ControlService {
                registry,
                kill: kill.clone(),
                token: None,
                is_local: false,
                stop: all.stop.clone(),
                outside,
            };
            all.serve(listener, service);
        }
        Ok(all)
    }

    async fn bind(
        addr: SocketAddr,
        token: Option<Key>,
    ) -> Result<(tokio::net::TcpListener, SocketAddr, Key), ControlError> {
        let token = token.ok_or(ControlError::NoToken(addr))?;
        let failed = |error| ControlError::Listen { at: addr.to_string(), error };
        let listener = tokio::net::TcpListener::bind(addr).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok((listener, addr, token))
    }

    fn serve(&mut self, listener: impl Accept + Sync + 'static, service: ControlService) {
        let bounds =
            Bounds { connections: CONTROL_CONNECTIONS, head: CONTROL_HEAD, ..Bounds::default() };
        let service = Arc::new(service);
        let handler = move |request: Request<Incoming>, _: PeerInfo| {
            let service = Arc::clone(&service);
            let is_obeyed = request.method() == Method::POST && tightens(request.uri().path());
            let answer = async move { service.answer(request).await };
            // A command that tightens is obeyed once it has arrived, even if its client has left: this process may have been
            // suspended. Another command may be sent again by a client without an answer, and must not count twice.
            let (command, question) = match is_obeyed {
                true => (Some(tokio::spawn(answer)), None),
                false => (None, Some(answer)),
            };
            async move {
                match (command, question) {
                    (Some(command), _) => command.await.unwrap_or_else(|_| failed()),
                    (None, Some(question)) => question.await,
                    (None, None) => failed(),
                }
            }
        };
        let server = server::serve(listener, bounds, false, handler, self.stop.clone());
        self.servers.push(tokio::spawn(server));
    }

    pub(crate) const fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    pub(crate) fn socket(&self) -> Option<&Path> {
        #[cfg(unix)]
        return self.socket.as_ref().map(SocketFile::path);
        #[cfg(not(unix))]
        return None;
    }

    /// Returns the hint for a client where the control API is, if it is on this machine.
    pub(crate) fn hint(&self, is_local: bool) -> String {
        let socket = self.socket().map(|path| format!("unix:{}", path.display()));
        let addr = self.addr.map(|addr| format!("http://{addr}"));
        let all: Vec<String> = socket.into_iter().chain(addr).collect();
        if all.is_empty() {
            return "this gateway has none".to_owned();
        }
        if !is_local {
            return "it listens elsewhere; the gateway printed where when it started".to_owned();
        }
        format!("it listens on {}", all.join(" and "))
    }

    /// The socket is removed first: a gateway that starts now may take its path.
    fn remove_socket(&mut self) {
        #[cfg(unix)]
        drop(self.socket.take());
    }

    pub(crate) async fn end(&mut self) {
        self.remove_socket();
        let signal = || StopSignal::new(StopReason::StopRequested);
        // Clients that wait for a change of a run get the last one.
        self.stop.cancel(signal(), Urgency::Graceful);
        let until = Instant::now() + CONTROL_GRACE;
        for server in &mut self.servers {
            if tokio::time::timeout_at(until, &mut *server).await.is_err() {
                self.stop.cancel(signal(), Urgency::Now);
                let _ = tokio::time::timeout(SHUTDOWN_GRACE, server).await;
            }
        }
    }

    pub(crate) fn abort(&mut self) {
        self.remove_socket();
        self.servers.iter().for_each(JoinHandle::abort);
    }
}
