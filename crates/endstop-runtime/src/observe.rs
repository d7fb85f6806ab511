//! Watching runs: the observers' trait, its observations, and the report at the end of a run.
//!
//! An [`Observer`] sees every event that a run's decision core processes, in that order, so that a recorded run gives
//! the same decisions when it is replayed. The events of a descendant are seen twice: as its own, and with
//! [`Source::Descendant`](endstop_core::event::Source::Descendant) by each of its ancestors.
//!
//! No observer reads a clock: what it prints or stores comes from the times of the events.

mod cost_uncertainty;
#[cfg(any(test, feature = "test-util"))]
#[expect(clippy::unwrap_used, reason = "a helper of tests: a wrong script is loud")]
#[doc(hidden)]
pub mod play;
mod refused_call;
mod remedy;
mod report;
mod text;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Run;
use endstop_core::event::Event;
use endstop_core::run::{Directive, Notice};
use endstop_core::units::{Cost, Money, TokenUsage, WallTime};
use endstop_core::wire::v1::trace::Line;

use crate::account::AccountRefused;
use crate::ledger::Budget;
use crate::model_error::ModelError;
use crate::store::RunId;
use crate::tool_call::{ToolCall, ToolOutcome};

pub(crate) use cost_uncertainty::Unconfirmed;
pub use cost_uncertainty::{CostUncertainty, UnconfirmedCause};
pub use refused_call::{Lack, LimitOwner, LimitRule, RefusedCall, Shortage};
pub use remedy::Remedy;
pub(crate) use remedy::{ALL_RUNS, OWNER_KEY};
pub use report::{REPORT_VERSION, Report, Reporter, Spend, SpendCertainty, SubAgent, Totals};
pub use text::{clean, clean_lines};

/// The fixed properties of a run.
///
/// ```
/// use endstop_runtime::{observe::RunInfo, store::RunId};
///
/// let info = RunInfo {
///     id: RunId::parse("nightly-17")?,
///     parent: None,
///     agent: "coder".to_owned(),
///     model: "claude-sonnet-4-5".to_owned(),
///     provider: "anthropic".to_owned(),
///     depth: 0,
///     is_resumed: false,
/// };
/// assert_eq!(info.id.as_str(), "nightly-17");
/// # Ok::<(), endstop_runtime::store::RunIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// The run.
    pub id: RunId,
    /// The run whose tool call began it.
    pub parent: Option<RunId>,
    /// The agent that began it (`gen_ai.agent.name`).
    pub agent: String,
    /// The model that it began with (`gen_ai.request.model`).
    pub model: String,
    /// The provider of that model (`gen_ai.provider.name`); empty where unknown.
    pub provider: String,
    /// Nesting depth; the root is 0.
    pub depth: u32,
    /// Whether it continues from a saved state.
    pub is_resumed: bool,
}

/// One event of a run, and what was decided.
///
/// See the example of [`Observer`].
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// The run that the event belongs to.
    pub info: &'a RunInfo,
    /// The event as the core took it in.
    pub event: &'a Event<'a>,
    /// The core's directive.
    pub directive: Directive,
    /// Details that the core ignores.
    pub detail: Detail<'a>,
    /// The core after the event.
    pub run: &'a Run,
    /// The run's node of the ledger; its amounts contain those of its descendants.
    pub budget: &'a Budget,
}

impl fmt::Debug for Observation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("run", &self.info.id)
            .field("event", &self.event)
            .field("directive", &self.directive)
            .field("detail", &self.detail)
            .finish_non_exhaustive()
    }
}

/// Details that the decision core ignores.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Detail<'a> {
    /// Nothing more.
    #[default]
    None,
    /// With `RunBegin`.
    Begin {
        /// How many messages the conversation has.
        messages: usize,
        /// How many tools the model may call.
        tools: usize,
    },
    /// With `AttemptBegin`.
    Request {
        /// The model that is asked.
        model: &'a str,
        /// Its provider.
        provider: &'a str,
        /// The output cap that is sent.
        max_output_tokens: Option<u64>,
        /// The tokens that the input is at most.
        input_bound: u64,
    },
    /// With `Reply`.
    Reply {
        /// The text of the model response.
        text: &'a str,
        /// The calls that it asks for.
        tool_calls: &'a [ToolCall],
        /// Whether usage was counted here because the provider reported none.
        is_estimate: bool,
        /// The part of the cost that no provider confirmed.
        unconfirmed: Money,
        /// Output tokens that were reasoning.
        reasoning_tokens: Option<u64>,
        /// From the request to the first piece.
        first_piece_after: Option<Duration>,
        /// From the request to the end.
        took: Duration,
    },
    /// With `AttemptFailed`.
    Failure {
        /// Why.
        error: &'a ModelError,
        /// Whether the charge is an estimate.
        is_estimate: bool,
        /// The part of the cost that no provider confirmed.
        unconfirmed: Money,
        /// From the request to the failure.
        took: Duration,
    },
    /// With `ToolBegin`, `ToolEnd` and `ToolRefused`.
    Tool {
        /// The call.
        call: &'a ToolCall,
        /// The outcome; `None` while it begins.
        outcome: Option<ToolOutcome>,
        /// How long it ran.
        took: Duration,
    },
    /// With `ToolCost`.
    ToolCost {
        /// The part of the cost that the tool did not report: its call failed, and the declared cost is charged.
        unconfirmed: Money,
    },
    /// With `ChildBegin` and `ChildEnd`.
    Child {
        /// The sub-agent's name.
        agent: &'a str,
    },
    /// With `StepEnd`.
    Step {
        /// From the step's beginning to its end, model and tools included.
        took: Duration,
    },
    /// A hook, a tool or the loop failed; with `StopRaised`.
    Error {
        /// The message.
        message: &'a str,
    },
}

impl Detail<'_> {
    /// Returns whether settled tokens were counted here and not reported by the provider.
    #[must_use]
    pub const fn is_estimate(&self) -> bool {
        matches!(
            self,
            Self::Reply { is_estimate: true, .. } | Self::Failure { is_estimate: true, .. }
        )
    }

    /// Returns the part of a settled cost that no provider and no tool confirmed.
    #[must_use]
    pub const fn unconfirmed(&self) -> Money {
        match self {
            Self::Reply { unconfirmed, .. }
            | Self::Failure { unconfirmed, .. }
            | Self::ToolCost { unconfirmed } => *unconfirmed,
            _ => Money::ZERO,
        }
    }
}

impl<'a> Observation<'a> {
    /// Returns the line of a trace that says it.
    #[must_use]
    pub fn line(&self) -> Line<'a> {
        let estimate = self.detail.is_estimate();
        let unconfirmed = Unconfirmed::of(&self.detail);
        let cause = unconfirmed.map(|it| it.cause.to_string().into());
        let unconfirmed = unconfirmed.map(|it| Cost::Known(it.amount));
        Line { estimate, unconfirmed, cause, ..Line::answered(self.event, self.directive) }
    }
}

/// A model request or a tool call with a cost, once it is settled.
///
/// Passed to [`Observer::settled`].
#[derive(Clone, Copy, Debug)]
pub struct SettledCall<'a> {
    /// The outermost run of the tree.
    pub root: &'a RunInfo,
    /// When it was settled.
    pub wall: WallTime,
    /// The model or the tool.
    pub spender: Spender<'a>,
    /// The tokens that are charged. `None` for a tool, and for a request that failed without a charge.
    pub usage: Option<TokenUsage>,
    /// The cost, as the ledger counts it: a call without a price costs what the policies say, or nothing.
    pub cost: Money,
    /// Whether it has a price.
    pub is_priced: bool,
    /// The part of the cost that no provider and no tool confirmed.
    pub unconfirmed: Money,
    /// Whether the tokens are an estimate or a bound.
    pub is_estimate: bool,
    /// Whether the run that made it has ended, so that this call was its last.
    pub is_run_over: bool,
    /// The names of the budgets over time that it is charged to.
    pub budgets: &'a [String],
    /// The name of the client's key ([`RunHandle::set_key`](crate::RunHandle::set_key)).
    pub key: Option<&'a str>,
    /// Its number among the charged calls of the outermost run, from 1, in the order of their events, as a log of the run has them.
    /// `None` if it is free, or the calls before it are not known.
    pub number: Option<u64>,
}

/// The part of a run that spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spender<'a> {
    /// A model.
    Model {
        /// The model that answered, or that was asked.
        model: &'a str,
        /// Its provider; empty if unknown.
        provider: &'a str,
    },
    /// A tool.
    Tool {
        /// Its name; empty if unknown.
        tool: &'a str,
    },
}

/// Shows something to each observer. One that fails must not end what it watches.
pub(crate) fn tell_each(observers: &[Arc<dyn Observer>], tell: impl Fn(&dyn Observer)) {
    for observer in observers {
        let _ = catch_unwind(AssertUnwindSafe(|| tell(&**observer)));
    }
}

/// Calls [`Observer::settled`] of all observers. The caller holds no lock of a run.
pub(crate) fn tell_settled(
    observers: &[Arc<dyn Observer>],
    info: &RunInfo,
    call: &SettledCall<'_>,
) {
    tell_each(observers, |observer| observer.settled(info, call));
}

/// Calls [`Observer::continues_from`] of all observers.
pub(crate) fn tell_continues(
    observers: &[Arc<dyn Observer>],
    info: &RunInfo,
    charged: u64,
    until: WallTime,
) {
    tell_each(observers, |observer| observer.continues_from(info, charged, until));
}

/// Watches runs. Shared by all runs of a tree.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # use endstop_core::EventKind;
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::observe::{Detail, Observation, Observer};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Default)]
/// struct Steps(AtomicU64);
///
/// impl Observer for Steps {
///     fn observe(&self, seen: &Observation<'_>) {
///         if matches!(seen.event.kind, EventKind::StepBegin) && seen.directive.admits() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let steps = Arc::new(Steps::default());
/// let environment = RunEnvironment { observers: vec![steps.clone()], ..RunEnvironment::default() };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// run.try_begin(&EventKind::StepBegin, Detail::None);
/// assert_eq!(steps.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Send + Sync {
    /// Records one event. Called in order for each run, while the run waits: it must not block for long and must not
    /// call back into the run. A panic is caught and ends nothing.
    fn observe(&self, observation: &Observation<'_>);

    /// A call is settled: once for each attempt, failed ones included, and for each tool call with a cost. Only the run
    /// that made it reports it, so that the costs of all calls add up to the cost of their outermost run. It is called after
    /// the event, without the locks of the run, and before the driver continues with the response.
    ///
    /// Also called for calls in flight that a dead process left behind, once their run continues.
    fn settled(&self, info: &RunInfo, call: &SettledCall<'_>) {
        let _ = (info, call);
    }

    /// An outermost run continues from a log in which a dead process left calls in flight. The log has `charged` settled calls
    /// of the run and its descendants, without those that used no tokens and cost nothing, and its last event was at `until`.
    /// Calls with a higher [number](SettledCall::number) were settled, and are not in the log: they count as in flight. Called before
    /// those are reported as settled.
    fn continues_from(&self, info: &RunInfo, charged: u64, until: WallTime) {
        let _ = (info, charged, until);
    }

    /// A warn rule began to hold. Called after the event that brought it.
    fn warned(&self, info: &RunInfo, notice: &Notice, run: &Run) {
        let _ = (info, notice, run);
    }

    /// The first call of a root run and its descendants begins to wait for the reset of this budget over time. Others can wait
    /// for other budgets. `None`: none of them waits for any budget now, because they were admitted, gave up, were stopped or wait
    /// for something else. Like
    /// [`Observer::observe`], it must not block for long and must not call back into the run.
    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        let _ = (info, refused);
    }

    /// The run is over or paused and its state is final: `run` gives status, trip record and totals. It is a copy, so
    /// the run does not wait for this call and may be called back.
    fn run_ended(&self, info: &RunInfo, run: &Run, budget: &Budget) {
        let _ = (info, run, budget);
    }
}
