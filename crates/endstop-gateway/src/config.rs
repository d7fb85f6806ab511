//! The configuration of a gateway.

mod control;
mod issued;
mod keys;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use endstop_price::PriceTable;
use endstop_runtime::RunEnvironment;
use endstop_runtime::cancel::{KillSwitch, MemoryKillSwitch};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::RunLog;
use http::Uri;
use thiserror::Error;

use crate::key_desk::KeyDesk;
use crate::limits::{
    ANSWER_BYTES, CLIENT_CONNECTIONS, CLIENT_RUNS, CONNECTIONS, CONVERSATIONS, DEFAULT_OUTPUT,
    DRAIN_TIMEOUT, EVENT_BYTES, HEAD_BYTES, PAUSE_LIMIT, REQUEST_BYTES, RESPONSE_TIMEOUT,
    RUN_CALLS, RUNS,
};
use crate::reachability::UpstreamObserver;
use crate::refused_call::RefusalObserver;
pub use control::Control;
pub use issued::{IssuedKey, IssuedKeys, KEY_PREFIX, KeyChange, KeyHash, KeySource, new_key};
pub(crate) use issued::{IssuedTo, KeyTable};
pub use keys::{Key, KeyRuns, UpstreamKeys};

/// The configuration of a gateway.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use endstop_core::Program;
/// use endstop_core::policy::Policy;
/// use endstop_core::probe::Probes;
/// use endstop_runtime::store::RunId;
/// use endstop_gateway::{Config, Runs, StopWith, Upstreams};
///
/// let policy = Policy::from_toml("[stop]\nbudget = \"cost >= $2\"")?;
/// let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// let upstreams = Upstreams::all("https://api.example.com/v1")?;
/// let mut config = Config::new(upstreams, program, Runs::One(RunId::parse("nightly")?));
/// config.stop_with = StopWith::Error;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Config {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The upstreams that calls are forwarded to.
    pub upstreams: Upstreams,
    /// The upstreams' own keys, for clients that send a key issued by the gateway.
    pub upstream_keys: UpstreamKeys,
    /// The policy of every run. Its [`Accounting`](endstop_core::policy::Accounting) lists what may be sent without a
    /// bound of its cost, and decides how calls end if their clients disconnect.
    pub program: Arc<Program>,
    /// The runs of the gateway.
    pub runs: Runs,
    /// Observers, kill switch and shared budget of every run.
    pub environment: RunEnvironment,
    /// The form of stop responses.
    pub stop_with: StopWith,
    /// The time that a call waits while its run is paused.
    pub pause: PauseLimit,
    /// The output cap of calls that have none, if money or tokens are limited.
    pub default_output: u64,
    /// Whether parallel calls take shares of the remaining budget, with lower output caps, instead of waiting for each
    /// other ([`CallPlan::takes_share`](endstop_runtime::CallPlan::takes_share)). A call is repeated once without a share
    /// if a share cuts its response off, unless that is streamed.
    pub fair_shares: bool,
    /// Percentages of the budget. When a run reaches one, its next request has one more line, after the last words of the
    /// user, that tells the model how much is left: once for each percentage. Nothing else in the request changes.
    pub tell_model: Vec<u64>,
    /// The price table.
    pub prices: &'static PriceTable,
    /// Limits on sizes, counts and times.
    pub bounds: Bounds,
    /// The listeners of the control API (`/endstop/v1/`). The address of clients never has it.
    pub control: Control,
    /// Issues, lists and changes the keys of [`Runs::Many`] for the control API. With `None` it has no keys.
    pub key_desk: Option<Arc<dyn KeyDesk>>,
    /// Receives a report of each refused call.
    pub refusals: Option<Arc<dyn RefusalObserver>>,
    /// Receives a report of each upstream that cannot be reached.
    pub upstream_observer: Option<Arc<dyn UpstreamObserver>>,
    /// Where runs are stored. With `None`, no run survives the process.
    ///
    /// A run that was evicted, or whose gateway has died, continues from its lines when it is named again. The gateway logs
    /// each call before sending it, and logs its cost before the client can send another. A call that a crash cut is charged its
    /// worst case. If the lines of a run cannot be written, it stops. If they cannot be read, its calls are refused (500).
    ///
    /// With a shared budget in [`Config::environment`] and a directory, the gateway reads all files at the start and charges the
    /// budget with their spend: it has to be a new budget.
    pub stored_runs: Option<StoredRuns>,
    /// Whether clients can use the gateway as their proxy for HTTPS (`CONNECT`). Only on a loopback address; on others it
    /// is off.
    pub tunnels: Tunnels,
    /// Hosts of model providers that are tunneled although [`Config::tunnels`] refuses the others: names, or patterns such as
    /// `*.openai.azure.com`. Calls there are counted as connections, and not limited.
    pub direct_hosts: Vec<String>,
}

impl Config {
    /// Creates a configuration with defaults: a free port of the loopback address, the embedded prices, the clients'
    /// own keys, no control API, and no stored runs.
    #[must_use]
    pub fn new(upstreams: Upstreams, program: Arc<Program>, runs: Runs) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            upstreams,
            upstream_keys: UpstreamKeys::default(),
            program,
            runs,
            environment: RunEnvironment::default(),
            stop_with: StopWith::default(),
            pause: PauseLimit::default(),
            default_output: DEFAULT_OUTPUT,
            fair_shares: true,
            tell_model: Vec::new(),
            prices: PriceTable::embedded(),
            bounds: Bounds::default(),
            control: Control::default(),
            key_desk: None,
            refusals: None,
            upstream_observer: None,
            stored_runs: None,
            tunnels: Tunnels::Off,
            direct_hosts: Vec::new(),
        }
    }

    /// The same with one more kill switch for every run.
    pub(crate) fn with_kill_switch(mut self, of_control: MemoryKillSwitch) -> Arc<Self> {
        let given = self.environment.kill.take();
        self.environment.kill = Some(Arc::new(EitherSwitch { given, of_control }));
        Arc::new(self)
    }
}

/// The kill switch of the configuration, and that of the control API.
#[derive(Debug)]
struct EitherSwitch {
    given: Option<Arc<dyn KillSwitch>>,
    of_control: MemoryKillSwitch,
}

impl KillSwitch for EitherSwitch {
    fn on(&self) -> Option<String> {
        self.of_control.on().or_else(|| self.given.as_ref()?.on())
    }
}

/// The runs of a gateway.
///
/// ```
/// use endstop_gateway::{Key, Runs, Unnamed};
///
/// // Each client has a key of its own, and with it a run, or all runs of some names.
/// let keys = vec![
///     (Key::new("client-key-1"), "alice".parse()?),
///     (Key::new("client-key-2"), "bob-*".parse()?),
/// ];
/// let runs = Runs::Many { unnamed: Unnamed::Refuse, keys: keys.into() };
/// assert!(!format!("{runs:?}").contains("client-key-1"));
/// # Ok::<(), endstop_runtime::store::RunIdError>(())
/// ```
#[derive(Clone)]
pub enum Runs {
    /// One run, whatever a request says: `endstop run`. The run path of a request names its sub-agents.
    One(RunId),
    /// The runs that requests name.
    Many {
        /// The treatment of requests that name no run.
        unnamed: Unnamed,
        /// Keys issued by the gateway, each with its runs. A client sends its key as its API key. A run of several keys
        /// belongs to those that say most of its name.
        keys: IssuedKeys,
    },
}

impl Runs {
    /// The issued keys as they are now. None, if there is one run.
    pub(crate) async fn look_at_keys(&self) -> Arc<KeyTable> {
        match self {
            Self::One(_) => Arc::default(),
            Self::Many { keys, .. } => keys.look().await,
        }
    }

    /// The issued keys as they were at the last look. None, if there is one run.
    pub(crate) fn known_keys(&self) -> Arc<KeyTable> {
        match self {
            Self::One(_) => Arc::default(),
            Self::Many { keys, .. } => keys.known(),
        }
    }
}

impl fmt::Debug for Runs {
    /// Does not show the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(run) => f.debug_tuple("One").field(run).finish(),
            Self::Many { unnamed, keys } => {
                f.debug_struct("Many").field("unnamed", unnamed).field("keys", keys).finish()
            }
        }
    }
}

/// The treatment of a request that names no run, if there are many.
///
/// See the example of [`Runs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unnamed {
    /// It is refused (400) with a hint.
    #[default]
    Refuse,
    /// All such requests belong to one run.
    Shared,
}

/// Whether the gateway is also a proxy for HTTPS that its clients name in `HTTPS_PROXY`, so that no model call
/// bypasses it unnoticed ([`Gateway::tunnels`](crate::Gateway::tunnels)).
///
/// Hosts of model providers are a list; the hosts of [`Upstreams`] count as such too. The gateway reaches other hosts through
/// the proxy that its environment names, if any.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Program, policy::Policy, probe::Probes};
/// # use endstop_runtime::store::RunId;
/// use endstop_gateway::{Config, Runs, Tunnels, Upstreams};
///
/// # let program = Arc::new(Program::new(&Policy::from_toml("[stop]\na = \"steps >= 3\"")?, &Probes::new())?);
/// # let upstreams = Upstreams::all("https://api.example.com/v1")?;
/// let mut config = Config::new(upstreams, program, Runs::One(RunId::parse("nightly")?));
/// assert_eq!(config.tunnels, Tunnels::Off);
/// config.tunnels = Tunnels::Guarded;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnels {
    /// There are none: `CONNECT` is answered with 400.
    #[default]
    Off,
    /// Connections to hosts of model providers are refused (403); all others are tunneled.
    Guarded,
    /// All are tunneled. Those to model providers are counted.
    All,
    /// Connections to hosts of model providers are answered by the gateway itself, with certificates of an authority that is
    /// made for it ([`Gateway::authority`](crate::Gateway::authority)); the requests in them are read, limited, and sent to
    /// the host that the client named, or to the scripted model if that is the upstream. All other hosts are tunneled.
    Intercepted,
}

/// Where the runs of a gateway are stored.
///
/// ```
/// use std::path::PathBuf;
/// use endstop_gateway::StoredRuns;
///
/// assert!(matches!(StoredRuns::from(PathBuf::from("kept")), StoredRuns::Directory(_)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoredRuns {
    /// In a directory, each in a separate file (`<run>.jsonl`, an Endstop trace). It survives `kill -9`, but not a loss of
    /// power. One process uses a directory at a time, as long as the gateway or one of its runs is in memory.
    Directory(PathBuf),
    /// In a log, which other gateways may share: then each serves any call of any run. A call waits while another gateway has
    /// calls of its run in flight, as long as calls wait for a paused run ([`Config::pause`]).
    Log(Arc<dyn RunLog>),
}

impl From<PathBuf> for StoredRuns {
    fn from(directory: PathBuf) -> Self {
        Self::Directory(directory)
    }
}

/// The form of stop responses.
///
/// See the example of [`Config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopWith {
    /// A normal completion that ends the client's loop; 402 if the request demands structured output.
    #[default]
    Answer,
    /// Always 402.
    Error,
}

/// The time that a call waits while its run is paused; then it gets a stop response.
///
/// ```
/// use std::time::Duration;
/// use endstop_gateway::PauseLimit;
///
/// assert_eq!(PauseLimit::default(), PauseLimit(Duration::from_secs(600)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseLimit(pub Duration);

impl Default for PauseLimit {
    /// Ten minutes: as long as the usual clients wait for a response.
    fn default() -> Self {
        Self(PAUSE_LIMIT)
    }
}

/// Limits on sizes, counts and times.
///
/// ```
/// use endstop_gateway::Bounds;
///
/// // For a gateway with little memory.
/// let bounds = Bounds { request: 4 << 20, answer: 4 << 20, runs: 100, ..Bounds::default() };
/// assert!(bounds.request < Bounds::default().request);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a request's head.
    pub head: usize,
    /// Bytes of a request's body.
    pub request: usize,
    /// Bytes of a response that is read as a whole; a longer one passes and is charged as an estimate.
    pub answer: usize,
    /// Bytes of one event of a stream.
    pub event: usize,
    /// Connections of clients at the same time.
    pub connections: usize,
    /// Connections of one client: of a key that the gateway has issued, or else of an address (of a /64 network in IPv6). More
    /// with a key get 429; more from an address are closed at once. Loopback addresses have no such bound: all clients on this machine
    /// share them, and all clients of a proxy on it.
    pub connections_per_client: usize,
    /// Calls of one run in flight at the same time; more get 503 at once.
    pub calls: usize,
    /// Runs in memory. The longest idle one that has ended is evicted first. One that has not ended is evicted only
    /// if runs are stored ([`Config::stored_runs`]); otherwise new ones get 503.
    pub runs: usize,
    /// Runs in memory that one client has begun; further ones get 429. A client is the same as for
    /// [`Bounds::connections_per_client`].
    pub runs_per_client: usize,
    /// Conversations of a run at the same time.
    pub conversations: usize,
    /// The longest time from the request to the head of an upstream's response. Then the client gets 504, and the call
    /// is charged the most that is possible. After that, only limits of the run bound the response.
    pub answer_within: Duration,
    /// The time that a call continues without its client; see [`OnClientGone`](endstop_core::policy::OnClientGone). Then it is cut
    /// and charged the most that is possible.
    pub drain_within: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            head: HEAD_BYTES,
            request: REQUEST_BYTES,
            answer: ANSWER_BYTES,
            event: EVENT_BYTES,
            connections: CONNECTIONS,
            connections_per_client: CLIENT_CONNECTIONS,
            calls: RUN_CALLS,
            runs: RUNS,
            runs_per_client: CLIENT_RUNS,
            conversations: CONVERSATIONS,
            answer_within: RESPONSE_TIMEOUT,
            drain_within: DRAIN_TIMEOUT,
        }
    }
}

/// The upstreams that calls are forwarded to. The gateway connects to no other host, whatever a request says.
///
/// ```
/// use endstop_gateway::Upstreams;
///
/// let upstreams = Upstreams::all("http://127.0.0.1:4000/v1/")?;
/// assert_eq!(upstreams.openai, "http://127.0.0.1:4000/v1");
/// assert_eq!(upstreams.anthropic, "http://127.0.0.1:4000/");
/// assert!(upstreams.refuse_loop("127.0.0.1:4000".parse()?).is_err());
/// assert!(Upstreams::all("ftp://models").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstreams {
    /// Chat completions, responses, and requests that no other rule matches. The base has its version path (`/v1`).
    pub openai: Uri,
    /// Messages. The base has no version path.
    pub anthropic: Uri,
    /// generateContent. The base has no version path.
    pub gemini: Uri,
    /// The Endstop among them, if one is: the stops that it reports are believed. See
    /// [`with_endstop`](Self::with_endstop).
    pub endstop: Option<Uri>,
    /// Whether they are the scripted model of `endstop-sim`, whose tokens are counted like those of OpenAI. See
    /// [`scripted`](Self::scripted).
    pub is_scripted: bool,
}

impl Upstreams {
    /// No upstream: for what never sends a call.
    pub(crate) fn none() -> Self {
        let nowhere = || Uri::from_static("http://localhost:1");
        Self {
            openai: nowhere(),
            anthropic: nowhere(),
            gemini: nowhere(),
            endstop: None,
            is_scripted: false,
        }
    }
}

/// Why an upstream cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpstreamsError {
    /// It is no valid address.
    #[error("`{text}` is not an address of an upstream: {why}")]
    Address {
        /// The given text, without secrets.
        text: String,
        /// The problem.
        why: String,
    },
}
