//! What a gateway is started with.

mod keys;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use endstop_price::PriceTable;
use endstop_runtime::RunEnvironment;
use endstop_runtime::store::RunId;
use http::Uri;
use thiserror::Error;

use crate::limits::RESPONSE_TIMEOUT;
pub use keys::{Key, UpstreamKeys};

/// What a gateway is started with.
#[derive(Debug)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where calls go.
    pub upstreams: Upstreams,
    /// The upstreams' own keys, for clients that send a key which the gateway has issued.
    pub upstream_keys: UpstreamKeys,
    /// The policy of every run.
    pub program: Arc<Program>,
    /// Which runs there are.
    pub runs: Runs,
    /// Observers, kill switch and shared budget of every run.
    pub around: RunEnvironment,
    /// How a stop is answered.
    pub stop_with: StopWith,
    /// Lets calls pass whose usage cannot be read, although money or tokens are limited.
    pub allow_unmetered: bool,
    /// How long a call is held while its run is paused.
    pub pause: PauseLimit,
    /// The output cap of calls that bring none, where money or tokens are limited.
    pub default_output: u64,
    /// The prices.
    pub prices: &'static PriceTable,
    /// Sizes, counts and times beyond which nothing is taken.
    pub bounds: Bounds,
    /// What the control interface (`/endstop/v1/`) asks for as a bearer token; there is none without.
    pub control_token: Option<Key>,
    /// The folder in which runs are kept, each in a file of its own (`<run>.jsonl`, an Endstop trace): a run that
    /// was forgotten, or whose gateway has died, goes on from its file when it is named again. One process a
    /// folder, as long as the gateway or one of its runs is in memory. Nothing survives the process without.
    ///
    /// What is about to be sent is written before it is sent, what a call came to before its client can ask again.
    /// That survives `kill -9`, and not a loss of power. A call that a crash cut is charged its worst case. Where a
    /// file cannot be written, its run stops; where one cannot be read, calls of its run are refused (500).
    ///
    /// With a shared budget in [`Config::around`] all files are read at the start, and the budget is charged with
    /// what they have spent: it has to be a new one.
    pub keep: Option<PathBuf>,
}

/// Which runs there are.
#[derive(Clone)]
pub enum Runs {
    /// One, whatever a request says: `endstop run`. A request's run path names sub-agents of it.
    One(RunId),
    /// Those that requests name.
    Many {
        /// What a request that names none is.
        unnamed: Unnamed,
        /// Keys that the gateway has issued, and the run of each. A client sends its key as its API key.
        keys: Vec<(Key, RunId)>,
    },
}

impl fmt::Debug for Runs {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(run) => f.debug_tuple("One").field(run).finish(),
            Self::Many { unnamed, keys } => {
                f.debug_struct("Many").field("unnamed", unnamed).field("keys", &keys.len()).finish()
            }
        }
    }
}

/// What becomes of a request that names no run, where there are many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unnamed {
    /// It is refused (400), with what to do.
    #[default]
    Refuse,
    /// All such requests are one run.
    Shared,
}

/// How a client is told that its run has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopWith {
    /// An answer of the interface's own that ends the client's loop; 402 where the request demands structure.
    #[default]
    Answer,
    /// Always 402.
    Error,
}

/// How long a call is held while its run is paused; then it is answered with a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseLimit(pub Duration);

impl Default for PauseLimit {
    /// Ten minutes: as long as the usual clients wait for an answer.
    fn default() -> Self {
        Self(Duration::from_secs(600))
    }
}

/// Sizes, counts and times beyond which nothing is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a request's head.
    pub head: usize,
    /// Bytes of a request's body.
    pub request: usize,
    /// Bytes of an answer that is read as a whole; a longer one passes and is charged as an estimate.
    pub answer: usize,
    /// Bytes of one event of a stream.
    pub event: usize,
    /// Connections of clients at the same time.
    pub connections: usize,
    /// Calls of one run in flight at the same time; more wait for nothing and get 503.
    pub calls: usize,
    /// Runs in memory. The longest idle one that has ended is forgotten first; one that has not ended is forgotten
    /// only where runs are kept ([`Config::keep`]), and new ones get 503 otherwise.
    pub runs: usize,
    /// Conversations of a run that are told apart at the same time.
    pub conversations: usize,
    /// How long an upstream may take from the request to the head of its answer; then the client gets 504, and the
    /// call is charged what it sent. What the answer takes after that is bounded by limits of the run alone.
    pub answer_within: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            head: 64 << 10,
            request: 64 << 20,
            answer: 64 << 20,
            event: 16 << 20,
            connections: 4_096,
            calls: 1_024,
            runs: 10_000,
            conversations: 256,
            answer_within: RESPONSE_TIMEOUT,
        }
    }
}

/// Where calls go. Only what stands here is ever connected to: nothing in a request chooses a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstreams {
    /// Chat completions, responses, and what no other rule takes. The base has its version path (`/v1`).
    pub openai: Uri,
    /// Messages. The base is without its version path.
    pub anthropic: Uri,
    /// generateContent. The base is without its version path.
    pub gemini: Uri,
}

/// Why an upstream cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpstreamsError {
    /// It is no address.
    #[error("`{text}` is no address of an upstream: {why}")]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}
