//! An HTTP gateway that stops LLM agents before they overspend or loop.
//!
//! Any agent program with a configurable base URL can run behind it. The gateway forwards model calls to their provider,
//! reserves the worst case of each call before sending it, and settles the actual cost afterwards. When a limit of the
//! run's policy trips, the agent gets a normal completion that ends its loop.
//!
//! ```
//! use std::sync::Arc;
//!
//! use endstop::core::Program;
//! use endstop::core::policy::Policy;
//! use endstop::core::probe::Probes;
//! use endstop::store::RunId;
//! use endstop_gateway::{Config, Gateway, Runs, Upstreams};
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::from_toml("[stop]\nbudget = \"cost >= $2\"\nsteps = \"steps >= 50\"")?;
//! let program = Arc::new(Program::new(&policy, &Probes::new())?);
//! let upstreams = Upstreams::from_environment(|name| std::env::var(name).ok())?;
//! let run = RunId::parse("nightly")?;
//!
//! let gateway = Gateway::start(Config::new(upstreams, program, Runs::One(run.clone()))).await?;
//! println!("OPENAI_BASE_URL=http://{}/v1", gateway.addr());
//! # assert_eq!(gateway.counts(&run).unwrap().upstream_calls, 0);
//! gateway.shut_down().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(start()).unwrap();
//! ```
//!
//! Start with [`Config`], [`Gateway`] and [`Runs`]. The command `endstop serve` is this crate with options.
//! `docs/semantics.md` defines limits, charges and stop responses.
//!
//! # How a call goes through it
//!
//! The gateway is a driver of the decision core: requests and responses become events, directives become HTTP. It decides
//! nothing by itself.
//!
//! 1. `server`: a connection, bounded, with checked framing.
//! 2. `route`: the run, the upstream and the API of a request.
//! 3. `call`: the phases parse, admit, send, relay and settle, each with a type that the next one consumes.
//! 4. `run`: the runs and their conversations, which calls wait for and are charged to.
//! 5. `control`: the control API for operators.

mod body;
mod call;
pub mod config;
mod control;
mod decode;
mod limits;
mod route;
mod run;
mod server;
mod stop;
mod upstream;
mod upstream_config;

mod gateway;

pub use config::{
    Bounds, Config, Key, PauseLimit, Runs, StopWith, Unnamed, UpstreamKeys, Upstreams,
    UpstreamsError,
};
pub use gateway::{Gateway, StartError};
pub use run::Counts;
