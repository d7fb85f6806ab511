//! Facts: observations about a step, or signals from outside.
//!
//! Until a step ends, a fact about it is true or unknown, never false. `signal` and `cancelled` are not
//! about a step: they are false until they are set, and stay set.

use alloc::string::String;
use alloc::vec::Vec;

use super::contract::Contract;
use crate::signal::StopReason;

/// A fact.
///
/// See the example of [`Temporal`](super::Temporal).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// `called("tool")`: a call of the tool has its result.
    Called(String),
    /// `tool_failed("tool")`: a call of the tool failed.
    ToolFailed(String),
    /// `said("text")`: the model response contains it, streamed pieces joined.
    Said {
        /// The text, matched exactly.
        text: String,
        /// Only words of this agent.
        from: Option<String>,
    },
    /// `matches(/regex/)`: the model response matches it, streamed pieces joined.
    Matches(String),
    /// `finished("stop", "length")`: the finish reason is one of these, raw or normalized, in any case.
    Finished(Vec<String>),
    /// `handed_off("agent")`: the agent handed over to it.
    HandedOff(String),
    /// `signal("name")`: a person or program outside set it.
    Signal(String),
    /// `cancelled`: a person or the kill switch cancelled the run.
    Cancelled,
    /// `no_tool_calls`: the step dispatched no tool call. Unknown until the step closes.
    NoToolCalls,
    /// `errored`: a model attempt or a tool call of the step failed.
    Errored,
    /// `near_duplicate`: this response is nearly one of the last eight.
    NearDuplicate,
}

/// One row of the table of facts.
#[derive(Clone, Copy, Debug)]
pub struct FactRow {
    /// The name, as in conditions.
    pub name: &'static str,
    /// The arguments, as shown in help; empty if it takes none.
    pub arguments: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Whether every driver reads the same.
    pub contract: Contract,
}

macro_rules! row {
    ($name:literal, $arguments:literal, $contract:ident, $meaning:literal) => {
        FactRow {
            name: $name,
            arguments: $arguments,
            meaning: $meaning,
            contract: Contract::$contract,
        }
    };
}

/// Every fact, for the reader's suggestions and the reference.
pub const FACTS: &[FactRow] = &[
    row!("called", "\"tool\"", Same, "a call of the tool has its result"),
    row!("tool_failed", "\"tool\"", MarkedFailures, "a call of the tool failed in this step"),
    row!(
        "said",
        "\"text\", from=\"agent\"",
        Same,
        "the model response contains the text; pieces are joined"
    ),
    row!("matches", "/regex/", Same, "the model response matches the pattern (linear time)"),
    row!(
        "finished",
        "\"stop\", \"length\"",
        Same,
        "the finish reason is one of these, raw or normalized"
    ),
    row!("handed_off", "\"agent\"", ToolNames, "the agent handed over to this one"),
    row!("signal", "\"name\"", Outside, "a person or program outside set the signal; it stays set"),
    row!("cancelled", "", Outside, "a person or the kill switch cancelled the run"),
    row!("no_tool_calls", "", Same, "the step dispatched no tool call; known at its end"),
    row!("errored", "", MarkedFailures, "a model attempt or a tool call of the step failed"),
    row!(
        "near_duplicate",
        "",
        Same,
        "the model response is nearly equal to one of the last eight; short agreement excepted"
    ),
];

impl Fact {
    /// Returns the name as written, without arguments.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Called(_) => "called",
            Self::ToolFailed(_) => "tool_failed",
            Self::Said { .. } => "said",
            Self::Matches(_) => "matches",
            Self::Finished(_) => "finished",
            Self::HandedOff(_) => "handed_off",
            Self::Signal(_) => "signal",
            Self::Cancelled => "cancelled",
            Self::NoToolCalls => "no_tool_calls",
            Self::Errored => "errored",
            Self::NearDuplicate => "near_duplicate",
        }
    }

    /// Whether it is about this finish reason of a provider, given raw and normalized.
    pub(crate) fn is_finished_by(&self, raw: &str, normalized: &str) -> bool {
        let is = |reason: &String| {
            reason.eq_ignore_ascii_case(raw) || reason.eq_ignore_ascii_case(normalized)
        };
        matches!(self, Self::Finished(reasons) if reasons.iter().any(is))
    }

    /// Returns the reason of a rule that rests on this fact.
    #[must_use]
    pub const fn reason(&self) -> StopReason {
        match self {
            Self::Finished(_) => StopReason::FinishReasonReceived,
            Self::HandedOff(_) => StopReason::HandedOff,
            Self::Signal(_) | Self::Cancelled => StopReason::UserRequested,
            Self::NoToolCalls | Self::NearDuplicate => StopReason::NoProgress,
            Self::Called(_)
            | Self::ToolFailed(_)
            | Self::Said { .. }
            | Self::Matches(_)
            | Self::Errored => StopReason::ConditionMet,
        }
    }

    /// Returns whether the fact is about the step (unknown until it is true or the step ends), rather than set
    /// from outside for the rest of the run.
    #[must_use]
    pub const fn is_of_step(&self) -> bool {
        !matches!(self, Self::Signal(_) | Self::Cancelled)
    }
}

impl Fact {
    /// Whether the fact is about one attempt of the step, so that the next attempt forgets it.
    pub(crate) const fn is_of_attempt(&self) -> bool {
        matches!(
            self,
            Self::Said { .. } | Self::Matches(_) | Self::Finished(_) | Self::NearDuplicate
        )
    }
}

impl From<Fact> for super::Condition {
    fn from(fact: Fact) -> Self {
        Self::Fact(fact)
    }
}

/// Returns the normalized finish reason: `stop`, `length`, `tool_calls`, `content_filter`, or the raw one in lower
/// case. Sources: the API references of OpenAI, Anthropic, Gemini and Bedrock.
#[must_use]
pub fn normalized_finish(raw: &str) -> String {
    let lower = raw.to_ascii_lowercase();
    let known = match lower.as_str() {
        "stop" | "end_turn" | "stop_sequence" | "completed" | "complete" | "eos" => "stop",
        "length" | "max_tokens" | "max_output_tokens" | "model_context_window_exceeded" => "length",
        "tool_calls" | "tool_use" | "function_call" => "tool_calls",
        "content_filter"
        | "safety"
        | "refusal"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "content_filtered"
        | "guardrail_intervened" => "content_filter",
        other => other,
    };
    String::from(known)
}
