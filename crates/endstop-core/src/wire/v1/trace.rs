//! The trace: one JSON object per line, a [`Header`] first, then one [`Line`] for each event.
//!
//! ```json
//! {"endstop_trace":1,"run":"nightly-17","model":"claude-sonnet-4-5"}
//! {"at":0,"wall":1793534400000,"event":"run_begin"}
//! {"at":5,"wall":1793534400005,"event":"step_begin"}
//! ```
//!
//! A further header begins a further run. Unknown keys are ignored. Money is a decimal text of dollars or
//! `unpriced`; times are milliseconds.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::event::{Event, Source};
use crate::run::Directive;
use crate::signal::StopSignal;
use crate::units::{Cost, Millis, Money, WallTime};

/// The version that is written.
pub const VERSION: u32 = 1;

/// How the cost of a call without a price is written.
const UNPRICED: &str = "unpriced";

/// The first line of a run.
///
/// ```
/// use endstop_core::wire::v1::trace::{Header, VERSION};
///
/// let run = "nightly-17".into();
/// let header = Header { endstop_trace: VERSION, run, model: None, cost_is: None, prices: None };
/// assert_eq!(serde_json::to_string(&header)?, r#"{"endstop_trace":1,"run":"nightly-17"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header<'a> {
    /// [`VERSION`]. The name of this key distinguishes a trace from other files.
    pub endstop_trace: u32,
    /// The run's name; stable over replays.
    #[serde(borrow)]
    pub run: Cow<'a, str>,
    /// The model that the run uses, if it has one.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Cow<'a, str>>,
    /// The kind of the costs: `billed`, `computed`, `lower_bound` or `unknown`.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub cost_is: Option<Cow<'a, str>>,
    /// The price table that computed the costs, with its version: prices change.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Cow<'a, str>>,
}

/// One event.
///
/// ```
/// use endstop_core::units::Millis;
/// use endstop_core::wire::v1::trace::Line;
/// use endstop_core::{Event, EventKind};
///
/// let event = Event::new(Millis(5), EventKind::StepBegin);
/// let text = serde_json::to_string(&Line::from_event(&event))?;
/// assert_eq!(text, r#"{"at":5,"event":"step_begin"}"#);
/// assert_eq!(serde_json::from_str::<Line<'_>>(&text)?.as_event(), event);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line<'a> {
    /// Milliseconds since the run began; never decreases.
    pub at: u64,
    /// Milliseconds since 1970-01-01T00:00Z; absent where unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wall: u64,
    /// Whether a sub-agent did it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub descendant: bool,
    /// Whether it was refused: a policy that admits it has not seen it begin either.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refused: bool,
    /// Whether the tokens were counted or bounded, and not reported by the provider.
    #[serde(default, skip_serializing_if = "is_false")]
    pub estimate: bool,
    /// The part of the cost that no provider confirmed.
    #[serde(default, with = "cost", skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<Cost>,
    /// Why it is not confirmed: an HTTP status, or one word.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'a, str>>,
    /// The kind.
    #[serde(flatten, borrow)]
    pub kind: Kind<'a>,
}

/// The kinds of [`EventKind`](crate::EventKind) by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the meaning of each kind and field is that of `EventKind`")]
pub enum Kind<'a> {
    RunBegin {
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        agent: Option<Cow<'a, str>>,
        #[serde(default, skip_serializing_if = "is_zero_depth")]
        depth: u32,
    },
    UserMessage,
    StepBegin,
    AttemptBegin {
        #[serde(default, with = "cost", skip_serializing_if = "Option::is_none")]
        next_cost: Option<Cost>,
    },
    Reserve {
        #[serde(default)]
        input_tokens: u64,
        #[serde(default)]
        output_tokens: u64,
        #[serde(default, with = "cost", skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    Piece {
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    AttemptFailed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(default, with = "cost", skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    Reply {
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(default, with = "cost", skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        finish: Option<Cow<'a, str>>,
        #[serde(default)]
        tool_calls: u32,
    },
    ToolReserve {
        #[serde(borrow)]
        tool: Cow<'a, str>,
        #[serde(with = "money")]
        cost: Money,
        #[serde(default, with = "money", skip_serializing_if = "Money::is_zero")]
        held: Money,
    },
    ToolBegin {
        #[serde(borrow)]
        tool: Cow<'a, str>,
    },
    ToolCost {
        #[serde(borrow)]
        tool: Cow<'a, str>,
        #[serde(with = "money")]
        cost: Money,
    },
    ToolEnd {
        #[serde(borrow)]
        tool: Cow<'a, str>,
        #[serde(borrow, default)]
        arguments: Cow<'a, str>,
        #[serde(borrow, default)]
        result: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "is_false")]
        failed: bool,
    },
    ToolRefused {
        #[serde(borrow)]
        tool: Cow<'a, str>,
    },
    StepEnd,
    ChildBegin {
        depth: u32,
    },
    ChildEnd,
    HandOff {
        #[serde(borrow)]
        to: Cow<'a, str>,
    },
    Fact {
        #[serde(borrow)]
        name: Cow<'a, str>,
        value: u64,
    },
    Signal {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        by: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        why: Cow<'a, str>,
    },
    Cancel {
        #[serde(borrow, default)]
        message: Cow<'a, str>,
    },
    Kill {
        #[serde(borrow, default)]
        message: Cow<'a, str>,
    },
    StopRaised {
        signal: Cow<'a, StopSignal>,
    },
    ContinuationRequested {
        #[serde(borrow, default)]
        by: Cow<'a, str>,
    },
    Paused,
    Resumed,
    PauseRequested {
        #[serde(borrow, default)]
        by: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        why: Cow<'a, str>,
    },
    ResumeRequested {
        #[serde(borrow, default)]
        by: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        why: Cow<'a, str>,
    },
    Approved {
        #[serde(borrow)]
        rule: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        limit: Option<NewLimitOf<'a>>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        by: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        why: Cow<'a, str>,
    },
    Reopened {
        #[serde(borrow, default)]
        by: Cow<'a, str>,
        #[serde(borrow, default, skip_serializing_if = "is_blank")]
        why: Cow<'a, str>,
    },
    Tick,
    RunEnd {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        succeeded: Option<bool>,
    },
}

/// [`TokenUsage`](crate::units::TokenUsage) as it is written; absent classes are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of `TokenUsage`")]
pub struct Usage {
    pub input: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
    pub output: u64,
}

/// [`NewLimit`](crate::event::NewLimit) as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of `NewLimit`")]
pub struct NewLimitOf<'a> {
    #[serde(borrow)]
    pub gauge: Cow<'a, str>,
    pub limit: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero_depth(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

fn is_blank(text: &str) -> bool {
    text.is_empty()
}

mod money {
    use super::*;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    pub(super) fn serialize<S: Serializer>(money: &Money, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&money.to_decimal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Money, D::Error> {
        read(&String::deserialize(from)?)
    }

    pub(super) fn read<E: serde::de::Error>(text: &str) -> Result<Money, E> {
        text.parse::<Money>().map_err(|error| E::custom(format!("`{text}`: {error}")))
    }
}

mod cost {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        cost: &Option<Cost>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match cost {
            Some(Cost::Known(money)) => serializer.serialize_str(&money.to_decimal()),
            Some(Cost::Unpriced) => serializer.serialize_str(UNPRICED),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Cost>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        if text == UNPRICED {
            return Ok(Some(Cost::Unpriced));
        }
        money::read(&text).map(|money| Some(Cost::Known(money)))
    }
}

impl<'a> Line<'a> {
    /// Creates the line that records `event`.
    #[must_use]
    pub fn from_event(event: &Event<'a>) -> Self {
        Self {
            at: event.at.0,
            wall: event.wall.0,
            descendant: event.source == Source::Descendant,
            refused: false,
            estimate: false,
            unconfirmed: None,
            cause: None,
            kind: Kind::from_event(&event.kind),
        }
    }

    /// Like [`Line::from_event`], with the run's directive.
    #[must_use]
    pub fn answered(event: &Event<'a>, directive: Directive) -> Self {
        let refused = event.kind.is_intention() && !directive.admits();
        Self { refused, ..Self::from_event(event) }
    }

    /// Returns the event that the line says.
    #[must_use]
    pub fn as_event(&self) -> Event<'_> {
        Event {
            at: Millis(self.at),
            wall: WallTime(self.wall),
            source: if self.descendant { Source::Descendant } else { Source::Own },
            kind: self.kind.as_event(),
        }
    }
}

mod convert;
#[cfg(test)]
mod tests;
