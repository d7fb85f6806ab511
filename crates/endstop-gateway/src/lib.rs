//! An HTTP gateway that stops any agent program at its limits.
//!
//! Most agents cannot be changed to count what they spend. But they all reach their model over HTTP, and all of them
//! read a base URL. The gateway is that URL: it reserves the worst case of every model call before it forwards the call,
//! settles the actual cost, and answers with a stop response once a limit is reached.
//!
//! ```
//! # use std::sync::Arc;
//! # use endstop_core::{Policy, Program, probe::Probes};
//! # use endstop_runtime::store::RunId;
//! # use endstop_sim::{Script, Sim};
//! use endstop_gateway::{Config, Gateway, Runs, Upstreams};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = Sim::start(Script::LoopFor(9)).await?; // A scripted model; a provider's address works as well.
//! let policy = Policy::from_toml("[stop]\nsteps = \"steps >= 3\"").map_err(|error| error.message)?;
//! let upstreams = Upstreams::all(&format!("http://{}", upstream.addr()))?;
//! let program = Arc::new(Program::new(&policy, &Probes::new())?);
//! let config = Config::new(upstreams, program, Runs::One(RunId::parse("demo")?));
//! let gateway = Gateway::start(config).await?;
//! println!("OPENAI_BASE_URL=http://{}/v1", gateway.addr());
//! gateway.shut_down().await;
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`Gateway`], [`Config`] and [`Runs`].
//!
//! # How it works
//!
//! The gateway is a driver of the decision core: requests and responses become events, directives become HTTP, and
//! nothing is decided here. A call passes these stages:
//!
//! 1. `server`: a connection, bounded, its framing checked.
//! 2. `route`: the run, upstream and API of a request. Nothing in a request names a host.
//! 3. `call`: parsed by [`endstop_llm`], admitted by its run (`run`), sent (`upstream`), relayed and settled. A response is
//!    forwarded while it arrives, and is settled before its client can send the next request. With [`Config::stored_runs`],
//!    a call is logged before it is sent.
//! 4. `call::respond`: the response of a stopped run.
//!
//! The control API has its own listeners and connections ([`Control`]), so that it answers whatever clients do. Its
//! requests go from `server` to `control`. Requests for a tunnel ([`Tunnels`]) go from `server` to `tunnel`.
//!
//! # Where next
//!
//! `endstop run` and `endstop serve` are this crate as commands (`docs/run.md` of the repository). `docs/semantics.md`
//! defines each number and decision. The minimum Rust version is 1.95.

mod body;
mod call;
mod client;
pub mod config;
mod control;
pub mod control_source;
mod decode;
mod key_desk;
mod limits;
mod origin;
mod reachability;
mod refused_call;
mod route;
mod run;
mod secret;
mod server;
mod tunnel;
mod upstream;
mod upstream_config;
mod webhook;

mod gateway;

pub use config::{
    Bounds, Config, Control, IssuedKey, IssuedKeys, KEY_PREFIX, Key, KeyChange, KeyHash, KeyRuns,
    KeySource, PauseLimit, Runs, StopWith, StoredRuns, Tunnels, Unnamed, UpstreamKeys, Upstreams,
    UpstreamsError, new_key,
};
pub use control::{ControlError, RunControl, control_openapi};
pub use control_source::ControlSource;
pub use gateway::{Gateway, StartError};
pub use key_desk::{
    KeyChangeRecord, KeyDesk, KeyList, KeyReason, KeyRecord, KeySettings, NewKey, RunsOfKey,
    ShownKey,
};
pub use reachability::{UnreachableUpstream, UpstreamObserver};
pub use refused_call::{RefusalObserver, RefusedCall};
pub use run::{Counts, RunGroup, RunKiller};
pub use tunnel::{DirectConnections, TunnelReport, model_hosts, model_provider};
pub use webhook::{NotQueued, WEBHOOK_SIGNATURE, Webhook, WebhookError, WebhookTask};
