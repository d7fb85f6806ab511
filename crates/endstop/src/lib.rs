//! An agent loop that stops: models, tools and sub-agents under one policy and one budget.
//!
//! An agent that loops spends money until a person notices, and an iteration cap does not count what its sub-agents
//! spend. Here every model call is reserved at its worst case before it is sent, for the run and all its ancestors. A
//! run therefore ends at its limit, and says why it ended.
//!
//! ```
//! use endstop::agent::AgentLoop;
//! use endstop::core::condition::named::{max_steps, max_usd};
//! use endstop::model::{ScriptedModel, ScriptedResponse};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A scripted model needs no key and no network. It is priced like the model that it names.
//! let model = ScriptedModel::new("claude-sonnet-4-5").reply(ScriptedResponse::text("Take an umbrella."));
//! let agent = AgentLoop::builder("forecaster")
//!     .model(model)
//!     .stop_when(max_steps(25) | max_usd("2.00")?)
//!     .build()?;
//! let state = agent.run("What do I need in Oslo?").await?;
//! assert_eq!(state.final_response(), Some("Take an umbrella."));
//! println!("{}", state.explain());
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`AgentLoop`](agent::AgentLoop), [`AgentState`](agent::AgentState) and
//! [`FunctionTool`](tool::FunctionTool). [`core`] holds policies and conditions, [`ledger`] budgets that runs share, and
//! [`cancel`] the ways to stop a run from outside.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `models`: model providers over HTTP ([`model`]).
//! - `otel`: an observer that writes OpenTelemetry GenAI spans and metrics ([`observe`]).
//! - `redis`: budgets that processes on many machines share, in Redis 7 or Valkey.
//! - `sqlite`: a store of runs in one SQLite file ([`store`]).
//! - `transcripts`: readers of transcripts, and a model that answers from one.
//! - `replay`: policies over transcripts. It implies `transcripts`.
//!
//! # Where next
//!
//! The repository has a guide (`docs/agents.md`), the meaning of every number and decision (`docs/semantics.md`), the
//! policy language (`docs/conditions.md`) and examples (`examples/`). To limit programs that you cannot change, use
//! the command `endstop run` of `endstop-cli`. The minimum Rust version is 1.95.

pub mod agent;
mod limits;
pub mod message;
pub mod model;
pub mod observe;
pub mod tool;

pub use endstop_core as core;
pub use endstop_price as price;
#[cfg(feature = "replay")]
pub use endstop_replay as replay;
pub use endstop_runtime as runtime;
pub use endstop_runtime::{account, cancel, clock, ledger, store};
#[cfg(feature = "transcripts")]
pub use endstop_transcript as transcript;

/// The types that most programs use.
///
/// ```
/// use endstop::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new("claude-sonnet-4-5").reply(ScriptedResponse::text("Forty-two."));
/// let agent = AgentLoop::builder("answerer").model(model).stop_when(max_steps(5)).build()?;
/// let state = agent.run("What is the answer?").await?;
/// assert!(!state.was_force_stopped());
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    pub use endstop_core::condition::Condition;
    pub use endstop_core::condition::named::{
        cancellation, external_signal, max_messages, max_steps, max_tokens, max_tool_calls,
        max_usd, no_progress, timeout,
    };
    pub use endstop_core::policy::Policy;
    pub use endstop_core::run::Status;
    pub use endstop_core::signal::{AgentStop, StopReason, StopSignal};
    pub use endstop_core::units::{Millis, Money};
    pub use endstop_runtime::cancel::{CancelToken, InMemoryCancellationSource};
    pub use endstop_runtime::ledger::Budget;

    pub use crate::agent::{AgentLoop, AgentState, CancellationSource, Hook, HookContext, Trigger};
    pub use crate::message::Message;
    pub use crate::model::{Model, ScriptedModel, ScriptedResponse};
    pub use crate::tool::{FunctionTool, Tool, ToolContext, ToolError, ToolOutput};
}

/// Runs the Rust examples of the guide to the agent loop.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust-agent.md")]
pub struct AgentGuideDoctests;

/// Runs the Rust examples of the guide to the decision core.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust-core.md")]
pub struct CoreGuideDoctests;

/// Runs the Rust examples of the page on agents.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
pub struct AgentsDoctests;
