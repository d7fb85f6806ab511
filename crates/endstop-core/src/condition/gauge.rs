//! The gauge table: every number that a condition can compare. To add one, add a row here and its arm in
//! the meter.

use alloc::string::String;

use super::contract::Contract;
use crate::signal::StopReason;

/// The unit of a gauge's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A whole number of things.
    Count,
    /// Tokens.
    Tokens,
    /// Pico-dollars.
    Money,
    /// Milliseconds.
    Duration,
    /// Milliseconds since 1970.
    WallTime,
    /// Hundredths of a percent.
    Percent,
}

/// The moment at which a gauge is brought up to date for comparison (docs/semantics.md, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compared {
    /// A count: inside a step compared only when the next one would begin, between steps at any time.
    WhenOneMoreBegins,
    /// Tokens and money: when a model request would begin, of the run or of a descendant. In between, a condition sees
    /// the last compared value.
    WhenARequestBegins,
    /// At every checkpoint.
    Always,
    /// Only when a child would begin: it stops no run.
    WhenAChildBegins,
    /// Only when an attempt of the run itself would begin, or its call of a tool that declares a cost.
    WhenACallBegins,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct GaugeRow {
    /// The gauge.
    pub id: GaugeId,
    /// The name, as in conditions.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The moment of comparison.
    pub compared: Compared,
    /// The reason of a rule that rests on it.
    pub reason: StopReason,
    /// Whether it never falls: only such a gauge bounds a run.
    pub rises: bool,
    /// Whether it includes descendants, so that `own.` makes a difference.
    pub has_own: bool,
    /// Its argument: none, optional, or required.
    pub argument: Argument,
    /// Whether every driver reads the same.
    pub contract: Contract,
    /// Its meaning.
    pub meaning: &'static str,
}

/// Whether a gauge takes a name in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Never.
    None,
    /// `tool_calls` or `tool_calls("name")`.
    Optional,
    /// `fact("name")`.
    Required,
}

macro_rules! gauges {
    ($($id:ident $name:literal $unit:ident $compared:ident $reason:ident $rises:literal $own:literal
       $argument:ident $contract:ident $meaning:literal;)*) => {
        /// A gauge, by row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum GaugeId { $(#[doc = $meaning] $id,)* }

        /// Every gauge.
        pub const GAUGES: &[GaugeRow] = &[$(*GaugeId::$id.row(),)*];

        impl GaugeId {
            /// Returns the gauge's row.
            #[must_use]
            pub const fn row(self) -> &'static GaugeRow {
                match self { $(Self::$id => {
                    const ROW: GaugeRow = GaugeRow {
                        id: GaugeId::$id,
                        name: $name,
                        unit: Unit::$unit,
                        compared: Compared::$compared,
                        reason: StopReason::$reason,
                        rises: $rises,
                        has_own: $own,
                        argument: Argument::$argument,
                        contract: Contract::$contract,
                        meaning: $meaning,
                    };
                    &ROW
                })* }
            }
        }
    };
}

gauges! {
    Steps "steps" Count WhenOneMoreBegins StepsLimitReached true true None Same
        "model calls, each with the tool calls that it requests";
    Attempts "attempts" Count WhenOneMoreBegins RetryLimitReached true true None Same
        "dispatched model requests, retries included";
    Retries "retries" Count WhenOneMoreBegins RetryLimitReached true true None Same
        "model requests beyond a step's first";
    ToolCalls "tool_calls" Count WhenOneMoreBegins ToolCallsLimitReached true true Optional Same
        "tool calls dispatched; those of one tool if it is named";
    ToolErrors "tool_errors" Count WhenOneMoreBegins RetryLimitReached true true None MarkedFailures
        "failed tool calls";
    Errors "errors" Count WhenOneMoreBegins RetryLimitReached true true None MarkedFailures
        "failed model attempts and failed tool calls";
    Messages "messages" Count WhenOneMoreBegins MessagesLimitReached true true None Same
        "messages added since the run began: user messages, model responses and tool results, but not system prompts";
    Tokens "tokens" Tokens WhenARequestBegins TokenLimitReached true true None WorstCase
        "all tokens, input and output";
    InputTokens "input_tokens" Tokens WhenARequestBegins TokenLimitReached true true None WorstCase
        "input tokens, cached ones included";
    OutputTokens "output_tokens" Tokens WhenARequestBegins TokenLimitReached true true None WorstCase
        "output tokens, reasoning included";
    CachedTokens "cached_tokens" Tokens WhenARequestBegins TokenLimitReached true true None Same
        "input tokens read from a cache";
    ContextTokens "context_tokens" Tokens WhenARequestBegins TokenLimitReached false false None Same
        "the last request's input";
    Cost "cost" Money WhenARequestBegins CostLimitReached true true None WorstCase
        "settled cost";
    NextCost "next_cost" Money WhenACallBegins CostLimitReached false false None Reservation
        "the worst case of the model call, or of the tool call, about to be made";
    Elapsed "elapsed" Duration Always TimeLimitReached true false None Clock
        "time since the run began, pauses included";
    Active "active" Duration Always TimeLimitReached true false None Clock
        "time since the run began, without pauses";
    Idle "idle" Duration Always TimeLimitReached false false None Clock
        "time since the last model piece, tool result, user or child event";
    Now "now" WallTime Always TimeLimitReached true false None Clock
        "wall time";
    Depth "depth" Count WhenAChildBegins StepsLimitReached false false None NamedSubAgents
        "nesting depth, the root is 0; refuses a deeper child, stops no run";
    Subagents "subagents" Count WhenOneMoreBegins StepsLimitReached true true None NamedSubAgents
        "sub-agents started";
    Handoffs "handoffs" Count WhenOneMoreBegins HandedOff true true None ToolNames
        "handoffs";
    Repeats "repeats" Count Always NoProgress false false None Same
        "equal (tool, arguments, result) in a row beyond the first; a user message starts over";
    Cycles "cycles" Count Always NoProgress false false None Same
        "repetitions of a period of 2 to 4 tool results; a user message starts over";
    NoProgress "no_progress" Count Always NoProgress false false None Same
        "steps in a row without a new tool result or a user message";
    Stale "stale" Count Always NoProgress false false None Same
        "percent of the steps with results, since the last user message, that got only results seen before; a step with only failures counts half; 0 if there are fewer than three such steps, if one of the last three steps with results is not such a step, or if the run has seen one text only and its last such steps only repeat one call";
    Quota "quota" Percent Always CostLimitReached false false Required Plan
        "used percent of a window of the subscription, such as \"5h\" or \"7d\", as the provider reports it";
    Fact "fact" Count Always ConditionMet false false Required Program
        "a number that the user's program reports";
    Probe "probe" Count Always ConditionMet false false Required Program
        "a registered measurement";
}

/// Returns the name of the [fact](crate::event::EventKind::Fact) that the gauge `quota("window")` reads, in hundredths
/// of a percent.
///
/// ```
/// assert_eq!(endstop_core::condition::gauge::quota_fact("5h"), "quota(5h)");
/// ```
#[must_use]
pub fn quota_fact(window: &str) -> String {
    alloc::format!("quota({window})")
}

/// Returns the name of the fact with the time at which a window resets, in milliseconds since 1970-01-01T00:00Z: a
/// driver that knows it reports it before [`quota_fact`].
///
/// ```
/// assert_eq!(endstop_core::condition::gauge::reset_fact("5h"), "quota_reset(5h)");
/// ```
#[must_use]
pub fn reset_fact(window: &str) -> String {
    alloc::format!("quota_reset({window})")
}

/// A gauge as a condition names it.
///
/// See the example of [`Comparison`](super::Comparison).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gauge {
    /// The row.
    pub id: GaugeId,
    /// Only the run's own share, without descendants.
    pub own: bool,
    /// The tool, fact or probe.
    pub argument: Option<String>,
}

impl Gauge {
    /// Creates the gauge without argument, descendants included.
    #[must_use]
    pub const fn of(id: GaugeId) -> Self {
        Self { id, own: false, argument: None }
    }

    /// Returns the gauge's row.
    #[must_use]
    pub const fn row(&self) -> &'static GaugeRow {
        self.id.row()
    }

    /// Returns whether a limit on it is one of the built-in numeric limits, which do not stand against a step
    /// that ended naturally (docs/semantics.md, section 2).
    #[must_use]
    pub const fn is_numeric_limit(&self) -> bool {
        !matches!(self.id, GaugeId::Fact | GaugeId::Probe)
    }
}
