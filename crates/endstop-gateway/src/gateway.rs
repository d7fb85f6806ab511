//! The gateway as a whole: its start, its runs, its shutdown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use endstop_core::run::{Status, WindowReset};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::Money;
use endstop_runtime::RunHandle;
use endstop_runtime::account::AccountRefused;
use endstop_runtime::cancel::{
    CancelToken, KillSwitch, MemoryKillSwitch, Urgency, poll_kill_switch,
};
use endstop_runtime::store::RunId;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::body::Body;
use crate::call::{CallService, Drains};
use crate::config::{Config, StoredRuns, Tunnels};
use crate::control::{self, ControlError, ControlServers};
use crate::limits::{KILL_SWITCH_INTERVAL, SHUTDOWN_GRACE};
use crate::run::{Counts, Registry, RunKiller, RunOrigin};
use crate::server::PeerInfo;
use crate::tunnel::{InterceptedHost, TunnelReport, TunnelService};
use crate::upstream::HttpClient;
use crate::{origin, server};

/// Why a gateway does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The gateway cannot listen on the address.
    #[error("cannot listen on {addr}: {error}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
    /// The control API cannot listen.
    #[error("control API: {0}")]
    Control(#[from] ControlError),
    /// The certificates named by the environment cannot be used.
    #[error("{0}")]
    Certificates(String),
    /// The authority for intercepted connections cannot be made.
    #[error("no certificates for intercepted connections: {0}")]
    Authority(String),
    /// Runs cannot be stored: the problem with their directory, a file in it, or the log that gateways share.
    #[error("runs cannot be stored{}: {why}", of_directory(directory.as_deref()))]
    Store {
        /// The directory, unless gateways share a log.
        directory: Option<PathBuf>,
        /// The problem.
        why: String,
    },
}

fn of_directory(directory: Option<&Path>) -> String {
    directory.map_or_else(String::new, |directory| format!(" in `{}`", directory.display()))
}

/// A gateway that listens. It ends when it is dropped; calls in flight are then aborted and settled.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, Status, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::store::RunId;
/// # use endstop_sim::{Script, Sim};
/// # use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use endstop_gateway::{Config, Gateway, Runs, Upstreams};
///
/// # async fn call(addr: std::net::SocketAddr) -> std::io::Result<String> {
/// #     let body = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}"#;
/// #     let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
/// #     let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
/// #     let mut client = tokio::net::TcpStream::connect(addr).await?;
/// #     client.write_all(request.as_bytes()).await?;
/// #     let mut response = String::new();
/// #     client.read_to_string(&mut response).await?;
/// #     Ok(response)
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let upstream = Sim::start(Script::Answer).await?;
/// # let upstreams = Upstreams::all(&format!("http://{}", upstream.addr()))?;
/// # let program = Arc::new(Program::new(&Policy::from(max_steps(1)), &Probes::new())?);
/// // `upstream` is a scripted model, and `program` stops at one step.
/// let id = RunId::parse("demo")?;
/// let gateway = Gateway::start(Config::new(upstreams, program, Runs::One(id.clone()))).await?;
/// for _ in 0..2 {
///     let response = call(gateway.addr()).await?;
///     assert!(response.starts_with("HTTP/1.1 200"), "{response}");
/// }
/// // The second call was answered with a stop response, which ends the client's loop.
/// assert_eq!((upstream.calls(), gateway.counts(&id).unwrap().stop_responses), (1, 1));
/// assert_eq!(gateway.run(&id).unwrap().status(), Status::Stopped);
/// gateway.shut_down().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    config: Arc<Config>,
    registry: Arc<Registry>,
    drains: Arc<Drains>,
    pub(crate) tunnels: Arc<TunnelService>,
    stop: CancelToken,
    server: JoinHandle<()>,
    control: ControlServers,
    watch: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts to listen.
    ///
    /// # Cancel safety
    /// Dropping the future closes the address. No call is served before it returns.
    ///
    /// # Errors
    /// Returns an error if it cannot listen on the address, `SSL_CERT_FILE` names no certificates, or the directory of
    /// stored runs cannot be used.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let addr = config.listen;
        let client = HttpClient::from_environment(|name| std::env::var(name).ok())
            .map_err(|error| StartError::Certificates(error.to_string()))?
            .answering_within(config.bounds.answer_within);
        let listener = tokio::net::TcpListener::bind(addr)
            .await
            .map_err(|error| StartError::Listen { addr, error })?;
        let addr = listener.local_addr().map_err(|error| StartError::Listen { addr, error })?;
        let bounds = config.bounds;
        let kill = config.environment.kill.clone();
        let of_control = MemoryKillSwitch::new();
        let config = config.with_kill_switch(of_control.clone());
        let registry = Registry::open(Arc::clone(&config)).await.map_err(|why| {
            let directory = match &config.stored_runs {
                Some(StoredRuns::Directory(directory)) => Some(directory.clone()),
                _ => None,
            };
            StartError::Store { directory, why: why.to_string() }
        })?;
        let registry = Arc::new(registry);
        registry.keep_shared();
        let is_local = addr.ip().is_loopback();
        let mode = if is_local { config.tunnels } else { Tunnels::Off };
        let stop = CancelToken::new();
        let tunnels = TunnelService::new(mode, client.clone(), &config, stop.clone());
        let tunnels = Arc::new(tunnels.map_err(|error| StartError::Authority(error.to_string()))?);
        let calls = CallService::new(Arc::clone(&config), client, Arc::clone(&registry));
        let drains = calls.drains();
        let control = ControlServers::start(&config.control, &registry, &of_control).await?;
        let service = Arc::new(Service {
            calls,
            control_hint: control.hint(is_local),
            tunnels: Arc::clone(&tunnels),
            is_local,
        });
        let handler = move |request, peer: PeerInfo| {
            let service = Arc::clone(&service);
            async move { service.answer(request, peer).await }
        };
        let server = tokio::spawn(server::serve(
            listener,
            bounds,
            mode != Tunnels::Off,
            handler,
            stop.clone(),
        ));
        let watch = kill.map(|kill| tokio::spawn(watch_kill(Arc::clone(&registry), kill)));
        Ok(Self { addr, config, registry, drains, tunnels, stop, server, control, watch })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address of the control API, if [`Control::listen`](crate::Control::listen) has one.
    #[must_use]
    pub const fn control_addr(&self) -> Option<SocketAddr> {
        self.control.addr()
    }

    /// Returns the unix socket of the control API, if [`Control::socket`](crate::Control::socket) has one.
    #[must_use]
    pub fn control_socket(&self) -> Option<&Path> {
        self.control.socket()
    }

    /// Stops runs together, from any thread.
    #[must_use]
    pub fn killer(&self) -> RunKiller {
        RunKiller::new(Arc::clone(&self.registry))
    }

    /// Returns its configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns a run in memory by its id. With [`Runs::One`](crate::Runs::One) the run exists from the start.
    #[must_use]
    pub fn run(&self, id: &RunId) -> Option<RunHandle> {
        self.registry.get(id).map(|entry| entry.handle().clone())
    }

    /// Returns the fields of the requests of a run that Endstop does not know, each once. They passed, and may have
    /// changed the price. Empty for an unknown run, and for one without a token or cost limit.
    #[must_use]
    pub fn unknown_fields(&self, id: &RunId) -> Vec<String> {
        self.registry.get(id).map(|entry| entry.unknown_fields().all()).unwrap_or_default()
    }

    /// Returns the used part of each window of the subscription that providers reported to a run, in hundredths of a
    /// percent, by the name of the window: `("5h", 4_200)`. None for an unknown run.
    #[must_use]
    pub fn quotas(&self, id: &RunId) -> Vec<(String, u64)> {
        self.registry.get(id).map(|entry| entry.quotas().all()).unwrap_or_default()
    }

    /// Returns the next reset of each window of the subscription, by the name of the window, if providers reported it to
    /// the run. None for an unknown run.
    #[must_use]
    pub fn quota_resets(&self, id: &RunId) -> Vec<WindowReset> {
        self.registry.get(id).map(|entry| entry.quotas().resets()).unwrap_or_default()
    }

    /// Returns the refusal of the budget over time whose reset calls of a run wait for now. `None` for an unknown run.
    #[must_use]
    pub fn awaited_budget(&self, id: &RunId) -> Option<AccountRefused> {
        self.registry.get(id)?.handle().awaited_account()
    }

    /// Returns the refusal of the budget over time that is in the way of a run: a call has waited for its reset, and none
    /// was admitted since. `None` for an unknown run.
    #[must_use]
    pub fn refusing_budget(&self, id: &RunId) -> Option<AccountRefused> {
        self.registry.get(id)?.account_waits().last()
    }

    /// Returns every run in memory, in order of their ids.
    #[must_use]
    pub fn runs(&self) -> Vec<RunHandle> {
        self.registry.all().iter().map(|entry| entry.handle().clone()).collect()
    }

    /// Begins a run before its first request, or reads a stored one to continue it. Returns `None` if there are too
    /// many runs, its lines cannot be read, or another gateway serves it.
    #[must_use]
    pub fn open(&self, id: &RunId) -> Option<RunHandle> {
        let entry = self.registry.get_or_begin(id, RunOrigin::default()).ok();
        entry.map(|entry| entry.handle().clone())
    }

    /// Returns the counts of a run's requests.
    #[must_use]
    pub fn counts(&self, id: &RunId) -> Option<Counts> {
        self.registry.get(id).map(|entry| entry.counts())
    }

    /// Returns what clients asked of the gateway as their proxy ([`Config::tunnels`]), and notifies of changes.
    #[must_use]
    pub fn tunnels(&self) -> watch::Receiver<TunnelReport> {
        self.tunnels.report()
    }

    /// Returns the address of the gateway as a proxy, for `HTTPS_PROXY`: with a user and a password, without which
    /// there is no tunnel (407). `None` without tunnels.
    #[must_use]
    pub fn proxy_address(&self) -> Option<String> {
        self.tunnels.address(self.addr)
    }

    /// Returns the certificate (PEM) of the authority for intercepted connections, which clients have to trust
    /// ([`Tunnels::Intercepted`]). Its key is in memory only, and ends with the gateway.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.tunnels.authority()
    }

    /// Approves every pause rule that is met; with a `limit`, until the cost of the run reaches it. Waiting calls continue.
    /// Returns whether a rule was approved.
    pub fn approve(&self, id: &RunId, limit: Option<Money>) -> bool {
        self.registry.get(id).is_some_and(|entry| entry.approve(limit, "", ""))
    }

    /// Pauses a run for someone outside: until [`Gateway::resume`] no call of it begins, calls in flight end as usual, and
    /// the clock `active` stands still. A call that comes waits for at most [`Config::pause`]. Returns `false` if there is no
    /// such run, or if it has stopped or is paused from outside already.
    pub fn pause(&self, id: &RunId, by: &str, why: &str) -> bool {
        self.registry.get(id).is_some_and(|entry| entry.pause(by, why))
    }

    /// Ends the pause of a run from outside, for someone with a reason, which may be empty. Waiting calls continue. Rules that pause the run are not affected. Returns `false`
    /// if there is no such run or no such pause.
    pub fn resume(&self, id: &RunId, by: &str, why: &str) -> bool {
        self.registry.get(id).is_some_and(|entry| entry.resume(by, why))
    }

    /// Sets the external signal `name` of a run, for `signal("name")` in its policy. `by` and `why` are for its trace, and may be
    /// empty. Returns whether the run exists.
    pub fn signal(&self, id: &RunId, name: &str, by: &str, why: &str) -> bool {
        let entry = self.registry.get(id);
        entry.is_some_and(|entry| {
            entry.signal(name, by, why);
            true
        })
    }

    /// Stops a run for a user: calls in flight finish, or are cut. Returns whether the run exists.
    pub fn cancel(&self, id: &RunId, message: &str, urgency: Urgency) -> bool {
        let entry = self.registry.get(id);
        entry.is_some_and(|entry| {
            entry.cancel(message, urgency);
            true
        })
    }

    /// Waits until a run has stopped or is paused, and returns its status. Returns immediately if it is so already. A
    /// run that ended naturally may continue, so this waits for it. Waits forever if there is no such run.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn stopped_or_paused(&self, id: &RunId) -> Status {
        match self.registry.get(id) {
            Some(entry) => entry.wait_for_stop_or_pause().await,
            None => std::future::pending().await,
        }
    }

    /// Stops listening, closes the tunnels, waits a few seconds for calls in flight, with or without their clients, cuts
    /// the rest, and reports the end of every run to observers.
    ///
    /// # Cancel safety
    /// Dropping the future has the effect of dropping the gateway: calls in flight are aborted and settled, and the
    /// ends that were not reported yet stay unreported.
    pub async fn shut_down(mut self) {
        let signal =
            || StopSignal::new(StopReason::StopRequested).with_message("the gateway is shut down");
        self.tunnels.close();
        self.stop.cancel(signal(), Urgency::Graceful);
        if tokio::time::timeout(SHUTDOWN_GRACE, &mut self.server).await.is_err() {
            self.stop.cancel(signal(), Urgency::Now);
            // Dropping a call settles it, which takes little time.
            let _ = tokio::time::timeout(SHUTDOWN_GRACE, &mut self.server).await;
        }
        self.tunnels.end().await;
        self.drains.end(SHUTDOWN_GRACE).await;
        self.registry.forget_moved();
        for entry in self.registry.all() {
            entry.report_end();
        }
        self.registry.rest_all();
        self.control.end().await;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.drains.close());
        self.tunnels.abort();
        self.server.abort();
        self.control.abort();
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

/// Answers all requests of clients.
#[derive(Debug)]
struct Service {
    calls: CallService,
    /// Where the control API is.
    control_hint: String,
    tunnels: Arc<TunnelService>,
    /// Whether it listens on loopback, where web pages of any site could reach it through the user's browser.
    is_local: bool,
}

impl Service {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: PeerInfo) -> Response<Body> {
        if request.method() == Method::CONNECT {
            // The server passes it on only if there are tunnels.
            let service = Arc::clone(&self);
            let handler = |host: Arc<InterceptedHost>| {
                move |request, peer| {
                    let (service, host) = (Arc::clone(&service), Arc::clone(&host));
                    async move { service.answer_intercepted(request, peer, host).await }
                }
            };
            return Box::pin(self.tunnels.answer(request, peer, handler)).await;
        }
        if self.is_local
            && let Err(foreign) = origin::check(request.uri(), request.headers())
        {
            return self.calls.tell_foreign(control::refuse(&foreign), &peer);
        }
        if control::owns(request.uri().path()) {
            return control::answer_client(request.uri().path(), &self.control_hint);
        }
        self.calls.answer(request, peer, None).await
    }

    /// Answers a request in an intercepted connection.
    async fn answer_intercepted(
        &self,
        request: Request<Incoming>,
        peer: PeerInfo,
        host: Arc<InterceptedHost>,
    ) -> Response<Body> {
        if !host.is_named_by(request.uri(), request.headers()) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
            return response;
        }
        self.calls.answer(request, peer, Some(host)).await
    }
}

/// Aborts calls in flight when the kill switch turns on. Calls that begin check it themselves.
async fn watch_kill(registry: Arc<Registry>, kill: Arc<dyn KillSwitch>) {
    poll_kill_switch(kill, KILL_SWITCH_INTERVAL, |signal| {
        registry.kill_all(&signal);
    })
    .await;
}
