//! The agent loop: a driver of the decision core. It sends model calls, runs tools and stops for the right reason.
//!
//! ```
//! use endstop::agent::AgentLoop;
//! use endstop::core::condition::named::max_steps;
//! use endstop::model::{ScriptedModel, ScriptedResponse};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two."));
//! let agent = AgentLoop::builder("answerer").model(model).stop_when(max_steps(5)).build()?;
//! let state = agent.run("What is the answer?").await?;
//! assert_eq!(state.final_response(), Some("Forty-two."));
//! # Ok(())
//! # }
//! ```
//!
//! The loop decides nothing: the core ([`endstop_core::Run`]) decides whether a step, a request, a tool call or a
//! sub-agent begins, and the loop obeys its directives.

mod agent_run;
mod builder;
mod context;
mod hooks;
mod journal;
mod node;
mod resume;
mod retry;
mod source;
pub mod state;
mod subagent;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::{Program, Run};
use futures_util::Stream;
use thiserror::Error;

pub use agent_run::{Approval, ApprovalRequest, Approver};
pub use builder::{
    AgentBuilder, BuildError, DEFAULT_KILL_INTERVAL, DEFAULT_PARALLEL_TOOLS, DEFAULT_POLICY,
};
pub use endstop_runtime::{
    DEFAULT_MAX_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS, RunHandle, WRAP_UP_OUTPUT_TOKENS,
};
pub use hooks::{Hook, HookContext, HookResult, Trigger};
pub use retry::{BreakerDecision, CircuitBreaker, RetryPolicy};
pub use source::CancellationSource;
pub use state::{AgentState, ExecutionState, Step, ToolExecution};

use crate::model::Model;
use crate::observe::Observer;
use crate::tool::ToolSet;
use agent_run::{AgentRun, Flow};
use endstop_runtime::Pricing;
use endstop_runtime::account::RunAccounts;
use endstop_runtime::cancel::{CancelToken, KillSwitch};
use endstop_runtime::clock::WallClock;
use endstop_runtime::ledger::Budget;
use endstop_runtime::store::{RunId, Store, StoreError};
use endstop_runtime::trace::TraceLineError;
use hooks::Hooks;

/// An agent: a model, tools, a policy. Cheap to clone; one agent runs any number of runs side by side.
///
/// ```
/// use endstop::agent::{AgentLoop, AgentState};
/// use endstop::core::condition::named::max_steps;
/// use endstop::core::signal::StopReason;
/// use endstop::model::{ScriptedModel, ScriptedResponse};
/// use endstop::tool::{FunctionTool, ToolContext};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Search {
///     query: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // This model searches for ever.
/// let reply = ScriptedResponse::call("search", json!({ "query": "the answer" }));
/// let search = |_: Search, _: ToolContext| async { Ok("nothing found") };
/// let agent = AgentLoop::builder("searcher")
///     .model(ScriptedModel::new("scripted").reply(reply).repeat_last())
///     .tool(FunctionTool::new("search", "Searches the web.", search))
///     .stop_when(max_steps(3))
///     .build()?;
/// let state = agent.execute(AgentState::with_prompt("What is the answer?")).await?;
/// assert_eq!((state.step_count(), state.stop_reason()), (3, Some(StopReason::StepsLimitReached)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AgentLoop(Arc<Inner>);

/// The parts of an agent: its settings, and what is made of them once.
struct Inner {
    settings: AgentSettings,
    model: Arc<dyn Model>,
    pricing: Pricing,
    retry_pricing: Option<Pricing>,
    fixed_tokens: u64,
    tools: ToolSet,
    handoffs: BTreeMap<String, AgentLoop>,
    program: Arc<Program>,
}

/// The settings of a builder that its agent has as they are.
struct AgentSettings {
    name: String,
    instructions: String,
    retry_model: Option<Arc<dyn Model>>,
    hooks: Hooks,
    sources: Vec<Arc<dyn CancellationSource>>,
    kill: Option<Arc<dyn KillSwitch>>,
    kill_interval: Duration,
    token: Option<CancelToken>,
    budget: Option<Budget>,
    accounts: Option<RunAccounts>,
    observers: Vec<Arc<dyn Observer>>,
    store: Option<Arc<dyn Store>>,
    retry: RetryPolicy,
    breaker: Option<CircuitBreaker>,
    approver: Option<Arc<dyn Approver>>,
    parallel_tools: usize,
    max_output_tokens: Option<u64>,
    tells_model: bool,
    fair_shares: bool,
    wall: Option<WallClock>,
}

impl Deref for Inner {
    type Target = AgentSettings;

    fn deref(&self) -> &AgentSettings {
        &self.settings
    }
}

impl fmt::Debug for AgentLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// Why a run cannot start or resume. The way a run *ends* is never an error: see [`AgentState`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The saved decision core cannot be restored under this agent's policy.
    #[error("the run `{run}` cannot continue: {error}")]
    Restore {
        /// The run.
        run: RunId,
        /// Why.
        error: endstop_core::run::RestoreError,
    },
    /// A line of the stored trace cannot be read, so what the run has spent is not known.
    #[error("the run `{run}` cannot continue: line {line} of its trace is damaged: {error}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The line, from one.
        line: u64,
        /// The problem with it.
        error: TraceLineError,
    },
    /// The state has events, and the store has no trace: so what the run has spent since it was saved is not known.
    #[error(
        "the run `{run}` cannot continue: its trace is missing, which had at least {events} events"
    )]
    NoTrace {
        /// The run.
        run: RunId,
        /// Events that the state has.
        events: u64,
    },
    /// The saved state cannot be read.
    #[error(transparent)]
    State(#[from] state::StateError),
    /// The store does not give or take the run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such run.
    #[error("no stored run `{0}`")]
    NoRun(RunId),
    /// The store knows more of the run than the saved state: the run continued after that, or its process died.
    #[error(
        "the store has more of the run `{run}` than the state, which ends at its event {events}: load the \
         run from the store, or resume it"
    )]
    Outdated {
        /// The run.
        run: RunId,
        /// Events that the state has.
        events: u64,
    },
    /// The agent has no store.
    #[error("the agent `{0}` has no store to resume from")]
    NoStore(String),
}

impl AgentLoop {
    /// Begins to build an agent. Its name is what hand-offs and sub-agents go by.
    pub fn builder(name: impl Into<String>) -> AgentBuilder {
        AgentBuilder::new(name.into())
    }

    /// Returns the agent's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the compiled policy.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.0.program
    }

    /// Runs a new run to completion. It begins with the user's prompt.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`AgentLoop::execute`].
    ///
    /// # Cancel safety
    ///
    /// Like [`AgentLoop::execute`].
    pub async fn run(&self, prompt: impl Into<String>) -> Result<AgentState, ExecuteError> {
        self.execute(AgentState::with_prompt(prompt)).await
    }

    /// Runs until the run ends or pauses, and returns its state. A saved state continues, with all counters and
    /// clocks.
    ///
    /// A state that ended on its own and has a new user's message begins a new run, which continues its conversation
    /// and names it as `previous`: counters and limits begin again, a shared budget continues. A state that was stopped
    /// is given back as it is; [`AgentState::warnings`] says so if it has a new message. It continues with its counters if
    /// the limit that stopped it was raised since, or after [`AgentState::reopened`].
    ///
    /// # Errors
    ///
    /// Returns an error if the run cannot start or resume; with a store, also if the state is older than the run in the
    /// store. A limit, a cancellation or a failed model is an outcome, not an error.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time: tool calls, retries and time limits need one. The same applies to the other ways
    /// to run or resume.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts calls in flight; a shared budget is charged in full for their possible cost. To get
    /// a state back, cancel by a token or a source instead.
    pub async fn execute(&self, state: AgentState) -> Result<AgentState, ExecuteError> {
        let run = agent_run::root(self, state, None).await?;
        Ok(Iteration::new(run).into_last_state().await)
    }

    /// Runs step by step.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`AgentLoop::execute`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no step begins before [`Iteration::next`].
    pub async fn iterate(&self, state: AgentState) -> Result<Iteration, ExecuteError> {
        let run = agent_run::root(self, state, None).await?;
        Ok(Iteration::new(run))
    }

    /// Resumes a run of the agent's store: after a pause, or after the process died. Calls that the dead process had
    /// started and not settled are charged in full.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`AgentLoop::execute`]. Also if there is no such run, or another process drives it.
    ///
    /// # Cancel safety
    ///
    /// Like [`AgentLoop::execute`]; the store keeps the run, which can be resumed again.
    pub async fn resume(&self, id: &RunId) -> Result<AgentState, ExecuteError> {
        let (state, lock) = resume::load(self, id).await?;
        let run = agent_run::root(self, state, Some(lock)).await?;
        Ok(Iteration::new(run).into_last_state().await)
    }

    /// Returns whether a run that limits had stopped continues if its state is executed: this agent's policy has other
    /// limits, and none of them stops it now.
    ///
    /// # Errors
    ///
    /// Returns an error if the saved decision core cannot be restored under this agent's policy.
    pub fn has_raised_limits_of(&self, state: &AgentState) -> Result<bool, ExecuteError> {
        let Some(core) = state.execution.core.clone() else { return Ok(false) };
        let run = Run::from_state(Arc::clone(self.program()), *core)
            .map_err(|error| ExecuteError::Restore { run: state.id.clone(), error })?;
        Ok(run.was_stopped_by_other_rules())
    }

    /// Returns the state of a run of the agent's store, brought up to what its trace says, without running it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`AgentLoop::resume`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the trace is read again the next time.
    pub async fn load(&self, id: &RunId) -> Result<AgentState, ExecuteError> {
        resume::load(self, id).await.map(|(state, _)| state)
    }
}

/// A run that is taken step by step.
///
/// ```
/// use endstop::agent::{AgentLoop, AgentState};
/// # use endstop::core::condition::named::max_steps;
/// # use endstop::model::{ScriptedModel, ScriptedResponse};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two."));
/// # let agent = AgentLoop::builder("answerer").model(model).stop_when(max_steps(5)).build()?;
/// let mut steps = agent.iterate(AgentState::with_prompt("What is the answer?")).await?;
/// let mut saved = Vec::new();
/// while let Some(state) = steps.next().await {
///     saved.push(state.to_json());
/// }
/// assert_eq!(steps.into_state().final_response(), Some("Forty-two."));
/// assert!(!saved.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Iteration {
    run: AgentRun,
    phase: IterationPhase,
    /// Of the kill switch and whatever else may end the run.
    watch: Option<agent_run::Watch>,
}

impl fmt::Debug for Iteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iteration").field("run", &self.run.state().id).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IterationPhase {
    Begin,
    Steps,
    Over,
}

impl Iteration {
    fn new(run: AgentRun) -> Self {
        let watch = agent_run::Watch::of(&run);
        Self { run, phase: IterationPhase::Begin, watch }
    }

    async fn into_last_state(mut self) -> AgentState {
        while self.advance().await {}
        self.into_state()
    }

    /// Takes the next step and gives the state after it, which can be saved; `None` once the run has ended
    /// or paused and its last state was given. O(state of the policy) beyond the step.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe. A future that is dropped in the middle of a step cuts the calls in flight and leaves the step
    /// open, so the run must not be driven further: cancel by a token or a source instead.
    pub async fn next(&mut self) -> Option<&AgentState> {
        if !self.advance().await {
            return None;
        }
        self.run.snapshot();
        Some(self.run.state())
    }

    /// Like [`Iteration::next`], without the state. Returns `false` once there is nothing more to do.
    ///
    /// # Cancel safety
    ///
    /// Like [`Iteration::next`].
    pub async fn advance(&mut self) -> bool {
        if let Some(watch) = &mut self.watch {
            watch.follow(&self.run);
        }
        let mut flow = match self.phase {
            IterationPhase::Over => return false,
            IterationPhase::Begin => self.run.begin().await,
            IterationPhase::Steps => self.run.flow(),
        };
        let is_first =
            std::mem::replace(&mut self.phase, IterationPhase::Steps) == IterationPhase::Begin;
        if flow == Flow::On {
            flow = self.run.step().await;
        } else if flow == Flow::Pause && is_first {
            flow = self.run.resolve_pause().await;
        }
        if flow == Flow::Pause {
            flow = self.run.resolve_pause().await;
        }
        if flow == Flow::Stop {
            flow = self.run.on_stop().await;
        }
        if flow == Flow::On {
            self.run.save_after_step().await;
        } else {
            self.run.end().await;
            self.phase = IterationPhase::Over;
        }
        true
    }

    /// Returns the live run, for other tasks: to pause and resume it ([`RunHandle::pause`], [`RunHandle::resume`]), to
    /// set a signal ([`RunHandle::signal`]), to inspect it. A pause covers sub-agents; a stored run keeps it if the
    /// process ends, and is resumed by the next [`AgentLoop::resume`] or [`AgentLoop::execute`].
    ///
    /// ```
    /// # use endstop::agent::{AgentLoop, AgentState};
    /// # use endstop::core::condition::named::max_steps;
    /// # use endstop::model::{ScriptedModel, ScriptedResponse};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two."));
    /// # let agent = AgentLoop::builder("answerer").model(model).stop_when(max_steps(5)).build()?;
    /// let mut steps = agent.iterate(AgentState::with_prompt("What is the answer?")).await?;
    /// let run = steps.handle();
    /// assert!(run.pause("ann", "lunch"));
    /// let later = tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_millis(10)).await;
    ///     run.resume("ann", "back")
    /// });
    /// while steps.advance().await {}
    /// assert!(later.await?);
    /// assert_eq!(steps.into_state().final_response(), Some("Forty-two."));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn handle(&self) -> RunHandle {
        self.run.run().clone()
    }

    /// Returns the state as it is.
    #[must_use]
    pub fn state(&mut self) -> &AgentState {
        self.run.snapshot();
        self.run.state()
    }

    /// Returns the state as it is, of a run that is not driven further.
    #[must_use]
    pub fn into_state(mut self) -> AgentState {
        self.run.snapshot();
        self.run.take_state()
    }

    /// Returns the states after each step as a stream. Each is a copy: O(messages).
    pub fn into_stream(self) -> impl Stream<Item = AgentState> + Send {
        futures_util::stream::unfold(self, |mut iteration| async move {
            let state = iteration.next().await?.clone();
            Some((state, iteration))
        })
    }
}
