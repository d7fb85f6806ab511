//! Events: everything that a driver tells a [`Run`](crate::Run).
//!
//! An event borrows its text, so a reader can pass slices of the file it reads. The core keeps none of
//! that text beyond a matcher's state and fixed-size digests.
//!
//! Some events announce an *intention* ([`EventKind::is_intention`]): a step, an attempt, a tool call or a
//! child that is about to begin. They are checkpoints: the run decides before it counts them, and what it
//! refuses has not begun. This keeps a recorded run self-contained: the log alone reproduces every
//! decision.

use alloc::format;
use alloc::string::{String, ToString as _};

use crate::signal::{StopReason, StopSignal};
use crate::units::{Cost, Millis, Money, TokenUsage, WallTime};

/// Something that happened, or is about to begin, in a run.
///
/// ```
/// use endstop_core::event::Source;
/// use endstop_core::units::Millis;
/// use endstop_core::{Event, EventKind};
///
/// let begin = Event::new(Millis(1_500), EventKind::ToolBegin { tool: "shell" });
/// assert!(begin.kind.is_intention(), "the run may refuse it");
///
/// // The same of a sub-agent: it counts for the run, but is no fact about its step.
/// let begin = Event { source: Source::Descendant, ..begin };
/// assert_eq!(begin.at, Millis(1_500));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'a> {
    /// Monotonic offset from the start of the run. Never decreases within a run; a smaller value is
    /// read as the largest one seen.
    pub at: Millis,
    /// Wall time, for `now` and `deadline` only.
    pub wall: WallTime,
    /// Whether the run itself or one of its descendants did it.
    pub source: Source,
    /// The kind.
    pub kind: EventKind<'a>,
}

impl<'a> Event<'a> {
    /// Creates an event of the run itself, without wall time.
    #[must_use]
    pub const fn new(at: Millis, kind: EventKind<'a>) -> Self {
        Self { at, wall: WallTime(0), source: Source::Own, kind }
    }
}

/// The origin of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// The run itself.
    #[default]
    Own,
    /// A sub-agent at any depth. Its counts, tokens and money are the run's; its facts, streaks,
    /// repeats and context are not.
    Descendant,
}

/// The kinds of events. Names and order follow the life of a step.
///
/// See the example of [`Event`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The run is about to begin. A checkpoint.
    RunBegin {
        /// The agent that runs first, for `said(.., from = ..)`.
        agent: Option<&'a str>,
        /// Nesting depth; the root is 0.
        depth: u32,
    },
    /// A user's message was added to the conversation. Repeats, cycles, `no_progress` and `stale` start over.
    UserMessage,
    /// A step is about to begin: one model call and the tool calls that it asks for. A checkpoint.
    StepBegin,
    /// A model request is about to be sent; the second and later ones of a step are retries. A checkpoint.
    AttemptBegin {
        /// The worst case of the call, if the driver knows it: the gauge `next_cost`, which reads the cost of
        /// [`EventKind::ToolReserve`] too. It covers the run's own calls only:
        /// a rule of a parent sees the money of its sub-agents as [`EventKind::Reserve`] against `cost`.
        next_cost: Option<Cost>,
    },
    /// The most that a model request may spend, including the holds of the requests in flight of the run and its
    /// descendants: announced before [`EventKind::AttemptBegin`]. A checkpoint that counts nothing. Stop rules see
    /// settled amounts plus this: a limit admits exactly itself, and a request that would exceed it is refused. The
    /// own share grows only if the event is the run's own.
    ///
    /// Announced by the run itself between steps, it is what the next ordinary step and the wrap-up after it
    /// may spend. Then it refuses nothing; the next own step begins as the wrap-up if that would no longer
    /// fit afterwards (docs/semantics.md, section 10).
    Reserve {
        /// Input tokens, cached ones included.
        input_tokens: u64,
        /// Output tokens.
        output_tokens: u64,
        /// Money. If it is unknown, `on_unpriced` of the policy decides: its rates, if it has some, are taken for all
        /// these tokens.
        cost: Option<Cost>,
    },
    /// A piece of the model response's text, streamed or complete. Reasoning is not part of it. A checkpoint.
    Piece {
        /// The text; any split is allowed, also inside a character's bytes as the caller sees fit to join.
        text: &'a str,
    },
    /// A model request failed. Its usage is settled. Its text is dropped.
    AttemptFailed {
        /// Tokens that were charged; `None` where failing costs nothing.
        usage: Option<TokenUsage>,
        /// Money that was charged; `None` where failing costs nothing.
        cost: Option<Cost>,
    },
    /// A model request succeeded. Its usage is settled. A checkpoint. A run whose own responses arrive without
    /// [`EventKind::StepBegin`] is stopped, see [`Run::observe`](crate::Run::observe).
    Reply {
        /// The model that answered.
        model: Option<&'a str>,
        /// Tokens; `None` if the source does not report them: unknown, not zero.
        usage: Option<TokenUsage>,
        /// Money; `None` if the source knows nothing of it (then `cost` is unknown, as if unpriced).
        cost: Option<Cost>,
        /// The provider's finish reason, raw.
        finish: Option<&'a str>,
        /// How many tool calls the response asks for, malformed ones included.
        tool_calls: u32,
    },
    /// A call of a tool that declares a cost is about to be dispatched: announced before [`EventKind::ToolBegin`]. A
    /// checkpoint that counts nothing. Money is compared, tokens are not: they are the model's. Stop rules see
    /// settled amounts plus both of these, as for [`EventKind::Reserve`].
    ToolReserve {
        /// The tool's name.
        tool: &'a str,
        /// The most that the call can cost.
        cost: Money,
        /// The holds of other calls in flight, of the run and its descendants.
        held: Money,
    },
    /// A tool call is about to be dispatched. A checkpoint.
    ToolBegin {
        /// The tool's name.
        tool: &'a str,
    },
    /// A dispatched tool call has cost money. The cost is settled, and compared before the next call that can cost
    /// something. At most one for each call, before its [`EventKind::ToolEnd`].
    ToolCost {
        /// The tool's name.
        tool: &'a str,
        /// The cost.
        cost: Money,
    },
    /// A dispatched tool call has its result. A checkpoint.
    ToolEnd {
        /// The tool's name.
        tool: &'a str,
        /// The arguments as the model gave them (JSON text or free text).
        arguments: &'a str,
        /// The result as the model will see it.
        result: &'a str,
        /// Whether the call failed.
        failed: bool,
    },
    /// A tool call that the model asked for was not dispatched and got a typed result instead (a limit, a
    /// guard, malformed arguments).
    ToolRefused {
        /// The tool's name.
        tool: &'a str,
    },
    /// The step is over: every call it asked for is answered. The natural end of the run if the response
    /// asked for no tool. A checkpoint.
    StepEnd,
    /// A sub-agent is about to begin. A checkpoint.
    ChildBegin {
        /// The depth the child will run at.
        depth: u32,
    },
    /// A sub-agent ended.
    ChildEnd,
    /// The agent handed over to another one. A checkpoint.
    HandOff {
        /// The agent that continues.
        to: &'a str,
    },
    /// A number that the user's program reports: the gauge `fact("name")`. A checkpoint.
    Fact {
        /// The fact's name.
        name: &'a str,
        /// Its new value.
        value: u64,
    },
    /// A person or program outside set the named signal: the condition `signal("name")`. It stays set.
    /// A checkpoint.
    Signal {
        /// The signal's name.
        name: &'a str,
        /// Who sets it. Empty if that is not known.
        by: &'a str,
        /// Why; may be empty.
        why: &'a str,
    },
    /// A person cancelled the run. Latches as `user_requested`; cannot be overridden. A checkpoint.
    Cancel {
        /// The person's message, if any.
        message: &'a str,
    },
    /// The kill switch was turned on. Latches; cannot be overridden. A checkpoint.
    Kill {
        /// Why, if known.
        message: &'a str,
    },
    /// A tool, a hook, a parent or the driver raised a stop signal. Latches until it is overridden. A
    /// checkpoint.
    StopRaised {
        /// The complete signal.
        signal: &'a StopSignal,
    },
    /// A hook or a person asks to continue despite the current signals.
    ContinuationRequested {
        /// Who asks; kept in the override history.
        by: &'a str,
    },
    /// The live process waits for an approval, or until a pause from outside ends: `active` stands still until
    /// [`EventKind::Resumed`].
    Paused,
    /// The live process no longer waits.
    Resumed,
    /// A person or program outside paused the run: `active` stands still, and until [`EventKind::ResumeRequested`] no
    /// step and no model request begins ([`Directive::Pause`](crate::Directive::Pause)). Tool calls are left to the driver,
    /// because some drivers learn of them when they run already. The work in flight ends as usual. A second request changes
    /// nothing.
    PauseRequested {
        /// Who asks.
        by: &'a str,
        /// Why, if that is known.
        why: &'a str,
    },
    /// The pause that was requested from outside is over. Rules that pause are not affected.
    ResumeRequested {
        /// Who asks.
        by: &'a str,
        /// Why; may be empty.
        why: &'a str,
    },
    /// A person approved a run that a pause rule has paused, or raised a limit ([`Run::raised`](crate::Run::raised)).
    Approved {
        /// The rule.
        rule: &'a str,
        /// The new limit of the rule's leaves of one gauge; `None` disarms the rule for this run.
        limit: Option<NewLimit<'a>>,
        /// Who approves; kept in the override history. Empty if that is not known.
        by: &'a str,
        /// Why; may be empty.
        why: &'a str,
    },
    /// A person lets a run continue that had been stopped: cancellations are removed, and rules are evaluated again,
    /// possibly under a changed policy. If no signal remains, the run continues with its counters; if its last step had ended
    /// naturally, it ends naturally. Otherwise it stays stopped.
    Reopened {
        /// Who asks; kept in the override history.
        by: &'a str,
        /// Why; may be empty.
        why: &'a str,
    },
    /// A timer fired. A checkpoint.
    Tick,
    /// The run is over for another reason than a rule.
    RunEnd {
        /// Whether it succeeded, if known.
        succeeded: Option<bool>,
    },
}

/// A new limit given with an approval.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::probe::Probes;
/// # use endstop_core::units::Millis;
/// use endstop_core::event::NewLimit;
/// use endstop_core::{Directive, Event, EventKind, Policy, Program, Run};
///
/// let policy = Policy::from_toml("unbounded = true\n[pause]\nlong = \"steps >= 1\"")?;
/// let mut run = Run::new(Arc::new(Program::new(&policy, &Probes::new())?));
/// let mut observe = |kind| run.observe(&Event::new(Millis(0), kind));
/// assert_eq!(observe(EventKind::StepBegin), Directive::Proceed);
/// assert_eq!(observe(EventKind::StepBegin), Directive::Pause);
///
/// let limit = Some(NewLimit { gauge: "steps", limit: 2 });
/// observe(EventKind::Approved { rule: "long", limit, by: "", why: "" });
/// assert_eq!(observe(EventKind::StepBegin), Directive::Proceed);
/// assert_eq!(observe(EventKind::StepBegin), Directive::Pause);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLimit<'a> {
    /// The gauge by name, such as `cost`.
    pub gauge: &'a str,
    /// The new limit in the gauge's unit: counts, tokens, pico-dollars or milliseconds.
    pub limit: u64,
}

impl NewLimit<'_> {
    /// Creates a new limit on `cost`.
    #[must_use]
    pub const fn cost(limit: Money) -> Self {
        Self { gauge: "cost", limit: limit.picos() }
    }
}

impl EventKind<'_> {
    /// Returns whether the event announces something that a run may still refuse.
    #[must_use]
    pub const fn is_intention(&self) -> bool {
        matches!(
            self,
            Self::RunBegin { .. }
                | Self::StepBegin
                | Self::AttemptBegin { .. }
                | Self::Reserve { .. }
                | Self::ToolReserve { .. }
                | Self::ToolBegin { .. }
                | Self::ChildBegin { .. }
        )
    }

    /// Returns the announced act for people, such as `step 4`; empty for an event that announces nothing. `steps` is the
    /// number of steps that have begun.
    ///
    /// ```
    /// use endstop_core::EventKind;
    ///
    /// assert_eq!(EventKind::StepBegin.intention_text(3), "step 4");
    /// ```
    #[must_use]
    pub fn intention_text(&self, steps: u64) -> String {
        match self {
            Self::RunBegin { .. } => "the run".to_string(),
            Self::StepBegin => format!("step {}", steps.saturating_add(1)),
            Self::AttemptBegin { .. } | Self::Reserve { .. } => {
                format!("a model request of step {steps}")
            }
            Self::ToolReserve { tool, .. } | Self::ToolBegin { tool } => {
                format!("a call of `{tool}` in step {steps}")
            }
            Self::ChildBegin { depth } => format!("a sub-agent at depth {depth}"),
            _ => String::new(),
        }
    }

    /// Whether it cancels the run: a person, the kill switch, or a signal that says so.
    pub(crate) fn is_cancellation(&self) -> bool {
        match self {
            Self::Cancel { .. } | Self::Kill { .. } => true,
            Self::StopRaised { signal } => signal.reason == StopReason::UserRequested,
            _ => false,
        }
    }

    /// Whether a model request would begin: tokens and money are compared then (docs/semantics.md, section 2).
    #[must_use]
    pub(crate) const fn begins_request(&self) -> bool {
        matches!(self, Self::StepBegin | Self::AttemptBegin { .. } | Self::Reserve { .. })
    }
}
