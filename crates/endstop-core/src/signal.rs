//! Stop reasons, signals, collections of them, and the continuation that may override them
//! (docs/semantics.md, sections 3 and 4).

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use thiserror::Error;

macro_rules! stop_reasons {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $priority:literal, $forced:literal;)*) => {
        /// Why a run stopped. The declaration order is the total order of authority: lower wins.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StopReason { $($(#[$doc])* $name,)* }

        impl StopReason {
            /// Every reason, most authoritative first.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the stored and printed form, such as `steps_limit`.
            #[must_use]
            pub const fn value(self) -> &'static str {
                match self { $(Self::$name => $value,)* }
            }

            /// Returns the numeric priority; lower is more authoritative. Equal numbers are ordered as in this enum.
            #[must_use]
            pub const fn priority(self) -> u8 {
                match self { $(Self::$name => $priority,)* }
            }

            /// Returns whether the run was made to stop, rather than having reached an end.
            #[must_use]
            pub const fn is_forced(self) -> bool {
                match self { $(Self::$name => $forced,)* }
            }
        }
    };
}

stop_reasons! {
    /// An error that was not recovered ended the run.
    ErrorForbade = "error", 0, true;
    /// A tool, a hook or a parent asked to stop.
    StopRequested = "stop_requested", 1, true;
    /// A person cancelled.
    UserRequested = "user_requested", 2, true;
    /// The limit on steps, depth or sub-agents.
    StepsLimitReached = "steps_limit", 2, true;
    /// The limit of tool calls.
    ToolCallsLimitReached = "tool_calls_limit", 2, true;
    /// The limit of messages.
    MessagesLimitReached = "messages_limit", 2, true;
    /// The cost limit.
    CostLimitReached = "cost_limit", 3, true;
    /// The token limit.
    TokenLimitReached = "token_limit", 3, true;
    /// A timeout or a deadline.
    TimeLimitReached = "time_limit", 4, true;
    /// Too many attempts or errors.
    RetryLimitReached = "retry_limit", 5, true;
    /// The run was in a loop.
    NoProgress = "no_progress", 5, true;
    /// Another agent took over.
    HandedOff = "handed_off", 6, false;
    /// A condition that means "done" was met.
    ConditionMet = "condition_met", 6, false;
    /// The model's finish reason was one to stop at.
    FinishReasonReceived = "finish_reason", 6, false;
    /// The model ended naturally.
    Completed = "completed", 8, false;
    /// The reason is unknown.
    Unknown = "unknown", 9, true;
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.value())
    }
}

/// A stop reason that is none of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown stop reason `{found}`; known are {}", known_reasons())]
pub struct UnknownReason {
    /// The text that was found.
    pub found: String,
}

fn known_reasons() -> String {
    let names: Vec<&str> = StopReason::ALL.iter().map(|r| r.value()).collect();
    names.join(", ")
}

impl FromStr for StopReason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        let found = Self::ALL.iter().copied().find(|r| r.value() == text);
        found.ok_or_else(|| UnknownReason { found: text.to_string() })
    }
}

impl Serialize for StopReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.value())
    }
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The prefix of the source of a rule's signal, before the rule's id.
pub(crate) const POLICY_SOURCE: &str = "policy:";
/// The source of the signal that a driver raises for a response which a limit of the policy cut off.
pub const LIMIT_SOURCE: &str = "limit";
/// The [`StopSignal::source`] of a budget that refused what a run wanted to begin.
pub const BUDGET_SOURCE: &str = "budget";

/// Why a run should stop, with what the one who raised it wants to say.
///
/// As JSON it always has the four keys `reason`, `message`, `context`, `source`. The reader takes `[]` or
/// `{}` for an empty context, an empty `source` as none, a missing reason or `null` as `completed`, and ignores
/// unknown keys.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// use endstop_core::signal::{StopReason, StopSignal};
/// use endstop_core::units::Millis;
/// use endstop_core::{Directive, Event, EventKind, Run};
///
/// let signal = StopSignal::new(StopReason::StopRequested).with_message("the disk is full");
/// assert_eq!(signal.to_string(), "stop_requested: the disk is full");
///
/// # let mut run = Run::new(Arc::new(Program::new(&Policy::from(max_steps(9)), &Probes::new())?));
/// run.observe(&Event::new(Millis(0), EventKind::StopRaised { signal: &signal }));
/// let next = run.observe(&Event::new(Millis(1), EventKind::StepBegin));
/// assert_eq!((next, run.stop_reason()), (Directive::Stop, Some(StopReason::StopRequested)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopSignal {
    /// The reason.
    #[serde(default = "completed", deserialize_with = "null_as_completed")]
    pub reason: StopReason,
    /// Free text; may be empty.
    #[serde(default, deserialize_with = "null_as_default")]
    pub message: String,
    /// Named values that belong to the stop.
    #[serde(default, deserialize_with = "context_or_empty_list")]
    pub context: BTreeMap<String, Value>,
    /// The component that raised it.
    #[serde(default, deserialize_with = "empty_as_none")]
    pub source: Option<String>,
}

const fn completed() -> StopReason {
    StopReason::Completed
}

fn null_as_completed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StopReason, D::Error> {
    Ok(Option::<StopReason>::deserialize(deserializer)?.unwrap_or_else(completed))
}

fn null_as_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

fn empty_as_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

fn context_or_empty_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(BTreeMap::new()),
        Value::Array(items) if items.is_empty() => Ok(BTreeMap::new()),
        Value::Object(map) => Ok(map.into_iter().collect()),
        _ => Err(serde::de::Error::custom("context is an object, or `[]` when empty")),
    }
}

impl StopSignal {
    /// Creates a signal without message, context or source.
    #[must_use]
    pub const fn new(reason: StopReason) -> Self {
        Self { reason, message: String::new(), context: BTreeMap::new(), source: None }
    }

    /// Creates the signal of a person who cancels the run.
    pub fn user_requested(message: impl Into<String>) -> Self {
        Self::new(StopReason::UserRequested).with_message(message)
    }

    /// How authoritative it is; lower wins. An error comes first, then the cancellation of a person or the kill switch,
    /// then the order of [`StopReason`] (docs/semantics.md, section 4).
    pub(crate) fn rank(&self) -> (u8, StopReason) {
        let first = match self.reason {
            StopReason::ErrorForbade => 0,
            _ if self.is_cancellation() => 1,
            _ => 2,
        };
        (first, self.reason)
    }

    /// Returns whether it is the cancellation of a person or the kill switch, and not that of a rule with this reason.
    #[must_use]
    pub fn is_cancellation(&self) -> bool {
        let source = self.source.as_deref();
        self.reason == StopReason::UserRequested
            && !source.is_some_and(|source| source.starts_with(POLICY_SOURCE))
    }

    /// Sets the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds a context entry.
    #[must_use]
    pub fn with_context(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.context.insert(key.into(), value.into());
        self
    }

    /// Sets the source; an empty one counts as none.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into()).filter(|text| !text.is_empty());
        self
    }
}

impl fmt::Display for StopSignal {
    /// `value`, or `value: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            return f.write_str(self.reason.value());
        }
        write!(f, "{}: {}", self.reason, self.message)
    }
}

// A tool may stop its loop with a signal alone, by `?`.
impl core::error::Error for StopSignal {}

/// A stop that a tool, or anything else that runs inside a step, throws with `?`.
///
/// It may carry a separate signal; [`AgentStop::into_signal`] merges the two.
///
/// ```
/// use endstop_core::signal::{AgentStop, StopReason, StopSignal};
///
/// fn delete() -> Result<(), AgentStop> {
///     Err(StopSignal::new(StopReason::StopRequested).with_message("not without a person"))?
/// }
///
/// let signal = delete().unwrap_err().into_signal("delete");
/// assert_eq!(signal.source.as_deref(), Some("delete"));
/// assert_eq!(signal.message, "not without a person");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentStop {
    /// The signal to raise.
    pub signal: Option<StopSignal>,
    /// The exception's own message.
    pub message: Option<String>,
    /// The exception's own context; wins over the signal's.
    pub context: BTreeMap<String, Value>,
    /// The exception's own source; wins over the signal's.
    pub source: Option<String>,
}

impl fmt::Display for AgentStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.as_deref().unwrap_or("the agent was asked to stop"))
    }
}

impl core::error::Error for AgentStop {}

impl AgentStop {
    /// Returns the signal to raise for a stop that `tool` returned.
    ///
    /// Reason: the signal's, or `stop_requested`. Message: the first present of the signal's, the exception's and the
    /// reason's value. Context: the union; the exception's entries win. Source: the first present of the exception's,
    /// the signal's and the tool's name.
    #[must_use]
    pub fn into_signal(self, tool: &str) -> StopSignal {
        let carried = self.signal.unwrap_or_else(|| StopSignal::new(StopReason::StopRequested));
        let non_empty = |text: &String| !text.is_empty();
        let message = Some(carried.message)
            .filter(non_empty)
            .or(self.message.filter(non_empty))
            .unwrap_or_else(|| carried.reason.value().to_string());
        let mut context = carried.context;
        context.extend(self.context);
        let source = self.source.filter(non_empty).or(carried.source);
        let source = source.or_else(|| Some(tool.to_string()).filter(non_empty));
        StopSignal { reason: carried.reason, message, context, source }
    }
}

impl From<StopSignal> for AgentStop {
    fn from(signal: StopSignal) -> Self {
        Self { signal: Some(signal), ..Self::default() }
    }
}

/// Stop signals in order of arrival.
///
/// ```
/// use endstop_core::signal::{StopReason, StopSignal, StopSignals};
///
/// let mut signals = StopSignals::default();
/// signals.push(StopSignal::new(StopReason::TimeLimitReached));
/// signals.push(StopSignal::new(StopReason::CostLimitReached));
/// assert_eq!(signals.first().map(|signal| signal.reason), Some(StopReason::TimeLimitReached));
/// assert_eq!(signals.highest().map(|signal| signal.reason), Some(StopReason::CostLimitReached));
/// assert_eq!(signals.to_string(), "time_limit | cost_limit");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StopSignals(Vec<StopSignal>);

impl StopSignals {
    /// Adds one.
    pub fn push(&mut self, signal: StopSignal) {
        self.0.push(signal);
    }

    /// Returns whether there is at least one.
    #[must_use]
    pub const fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the first that arrived.
    #[must_use]
    pub fn first(&self) -> Option<&StopSignal> {
        self.0.first()
    }

    /// Returns the most authoritative one; among equals the first that arrived.
    #[must_use]
    pub fn highest(&self) -> Option<&StopSignal> {
        self.0.iter().min_by_key(|signal| signal.reason)
    }

    /// Returns the one that decides why a run ended: an error, then the cancellation of a person or the kill switch,
    /// then the most authoritative one; among equals the first that arrived.
    #[must_use]
    pub fn primary(&self) -> Option<&StopSignal> {
        self.0.iter().min_by_key(|signal| signal.rank())
    }

    /// Returns all signals, in order of arrival.
    pub fn iter(&self) -> core::slice::Iter<'_, StopSignal> {
        self.0.iter()
    }

    /// Keeps those for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&StopSignal) -> bool) {
        self.0.retain(keep);
    }
}

impl FromIterator<StopSignal> for StopSignals {
    fn from_iter<I: IntoIterator<Item = StopSignal>>(signals: I) -> Self {
        Self(signals.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a StopSignals {
    type Item = &'a StopSignal;
    type IntoIter = core::slice::Iter<'a, StopSignal>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for StopSignals {
    /// The signals joined by ` | `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, signal) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{signal}")?;
        }
        Ok(())
    }
}

/// The current signals, and whether a hook or a person requested a continuation despite them.
///
/// ```
/// use endstop_core::signal::{ExecutionContinuation, StopReason, StopSignal};
///
/// let mut continuation = ExecutionContinuation::default();
/// assert_eq!(continuation.explain(), "No Stop Signals; Continuation Requested: No");
/// continuation.stop_signals.push(StopSignal::new(StopReason::StepsLimitReached));
/// assert_eq!(continuation.explain(), "Stop Signals: steps_limit; Continuation Requested: No");
/// assert!(continuation.should_stop());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutionContinuation {
    /// The current signals.
    #[serde(default)]
    pub stop_signals: StopSignals,
    /// Whether a continuation is requested.
    #[serde(default)]
    pub is_continuation_requested: bool,
}

impl ExecutionContinuation {
    /// Returns whether the run stops here: signals stand, and no continuation is requested.
    #[must_use]
    pub const fn should_stop(&self) -> bool {
        self.stop_signals.has_any() && !self.is_continuation_requested
    }

    /// Returns `Stop Signals: <signals>; Continuation Requested: Yes|No`, or
    /// `No Stop Signals; Continuation Requested: No`.
    #[must_use]
    pub fn explain(&self) -> String {
        let requested = if self.is_continuation_requested { "Yes" } else { "No" };
        if self.stop_signals.has_any() {
            alloc::format!(
                "Stop Signals: {}; Continuation Requested: {requested}",
                self.stop_signals
            )
        } else {
            alloc::format!("No Stop Signals; Continuation Requested: {requested}")
        }
    }
}

#[cfg(test)]
mod tests;
