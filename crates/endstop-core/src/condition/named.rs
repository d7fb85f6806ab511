//! Named conditions: `max_steps(25)`, and the seeds' spellings `MaxIters(25)`. To add one, write one
//! function with its headings and one row.
//!
//! A named condition stays named in the tree and prints as written; equality and hashing use its
//! expansion.
//!
//! Every expansion can be written in the expression language. This is why `no_progress` is also a gauge and
//! `cancelled` a fact: `no_progress(3)` and `cancellation()` expand to them.

mod arguments;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::literal::{Literal, LiteralValue, seconds, wall_text};
use super::{CompareOp, Comparison, Condition, Fact, Gauge, GaugeId};
use crate::diagnostic::Diagnostic;
use crate::signal::StopReason;
use crate::units::{Millis, Money, MoneyError, WallTime};
pub(crate) use arguments::{ArgumentValue, Arguments};

/// A named condition: its spelling, its arguments as written, and what it means.
#[derive(Clone, Debug)]
pub struct Named {
    spelling: &'static str,
    arguments: Vec<(Option<String>, Literal)>,
    expansion: Box<Condition>,
}

impl Named {
    /// Returns the name as it was written.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.spelling
    }

    /// Returns the condition that it means.
    #[must_use]
    pub const fn expansion(&self) -> &Condition {
        &self.expansion
    }

    /// The first argument that is a text.
    fn text(&self) -> Option<&str> {
        self.arguments.iter().find_map(|(_, literal)| match &literal.value {
            LiteralValue::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the arguments as written: a name, if one was given, and the literal.
    pub fn arguments(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.arguments.iter().map(|(name, literal)| (name.as_deref(), literal.raw.as_str()))
    }
}

impl Condition {
    /// The model whose prices calls without a price have, as `max_usd` names it. Recursion is bounded by the depth that a
    /// condition may have.
    pub(crate) fn unpriced_model(&self) -> Option<&str> {
        match self {
            Self::Named(named) => {
                let is_money =
                    matches!(named.expansion(), Self::Compare(it) if it.gauge.id == GaugeId::Cost);
                named.text().filter(|_| is_money)
            }
            other => other.parts().into_iter().find_map(Self::unpriced_model),
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct NamedRow {
    /// The name, then the other spellings that are read.
    pub spellings: &'static [&'static str],
    /// The behavior that it stops, for people.
    pub stops: &'static str,
    /// An example of its use.
    pub example: &'static str,
    /// The reason it trips as.
    pub trips_as: StopReason,
    build: fn(&mut Arguments) -> Result<Condition, Diagnostic>,
}

macro_rules! named {
    ($([$($spelling:literal),+] $build:ident, $example:literal, $reason:ident, $stops:literal;)*) => {
        /// Every named condition.
        pub const NAMED: &[NamedRow] = &[$(NamedRow {
            spellings: &[$($spelling),+],
            stops: $stops,
            example: $example,
            trips_as: StopReason::$reason,
            build: read::$build,
        },)*];
    };
}

named! {
    ["max_steps", "MaxSteps", "MaxIters", "max_iters"] steps, "max_steps(25)",
        StepsLimitReached, "the run after this many steps";
    ["max_messages", "MaxMessages"] messages, "max_messages(50)",
        MessagesLimitReached, "the run after this many messages";
    ["max_tool_calls", "MaxToolCalls", "FirstN"] tool_calls, "max_tool_calls(5)",
        ToolCallsLimitReached, "the run after this many tool calls, of one tool with `tool=\"name\"`";
    ["max_tokens", "MaxTokens", "token_budget", "TokenBudget"] tokens, "max_tokens(50k)",
        TokenLimitReached, "the run after this many tokens, input and output";
    ["max_usd", "MaxUsd"] usd, "max_usd(2.00)",
        CostLimitReached, "the run at this much money; a bare number is dollars; `model=\"gpt-4o\"` prices calls without a price as that model";
    ["timeout", "Timeout", "MaxSeconds"] timeout, "timeout(60s)",
        TimeLimitReached, "the run after this much active time";
    ["deadline", "Deadline"] deadline, "deadline(\"2026-11-30T12:00Z\")",
        TimeLimitReached, "the run at this wall time";
    ["idle", "Idle"] idle, "idle(30s)",
        TimeLimitReached, "a run without an event for this time";
    ["text_mention", "TextMention"] text_mention, "text_mention(\"DONE\")",
        ConditionMet, "the run once the model says it";
    ["function_call", "FunctionCall"] function_call, "function_call(\"submit\")",
        ConditionMet, "the run once this tool has its result";
    ["handoff", "Handoff"] handoff, "handoff(\"human\")",
        HandedOff, "the run once the agent hands off to this one";
    ["finish_reason", "FinishReason"] finish_reason, "finish_reason(\"stop\")",
        FinishReasonReceived, "the run once the model finishes for one of these reasons";
    ["external_signal", "ExternalSignal"] external_signal, "external_signal(\"cancel\")",
        UserRequested, "the run once a person or program outside sets this signal";
    ["cancellation", "Cancellation"] cancellation, "cancellation()",
        UserRequested, "the run once a person cancels it";
    ["no_progress", "NoProgress"] no_progress, "no_progress(3)",
        NoProgress, "a run without new results for this many steps; also `patience=3`; without a number, the limits of detection.md";
    ["max_errors", "MaxErrors"] errors, "max_errors(3)",
        RetryLimitReached, "the run after this many failed model attempts and tool calls";
    ["max_retries", "MaxRetries"] retries, "max_retries(5)",
        RetryLimitReached, "the run after this many model requests beyond a step's first";
    ["max_depth", "MaxDepth"] depth, "max_depth(3)",
        StepsLimitReached, "a sub-agent deeper than this; the run itself continues";
}

/// The spelling and row of a name, if it is one.
pub(crate) fn find(name: &str) -> Option<(&'static str, &'static NamedRow)> {
    NAMED.iter().find_map(|row| {
        row.spellings.iter().find(|spelling| **spelling == name).map(|spelling| (*spelling, row))
    })
}

/// Every spelling.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMED.iter().flat_map(|row| row.spellings.iter().copied())
}

/// Builds the named condition called `name` from its arguments.
pub(crate) fn build(
    name: &str,
    mut arguments: Arguments,
    span: Range<usize>,
) -> Result<Named, Diagnostic> {
    let Some((spelling, row)) = find(name) else {
        return Err(Diagnostic::new(format!("`{name}` is not a named condition"), span));
    };
    let written = arguments.written();
    let expansion = (row.build)(&mut arguments).map_err(|error| match error.help {
        Some(_) => error,
        None => error.with_help(format!("write for example `{}`", row.example)),
    })?;
    arguments.finish()?;
    Ok(Named { spelling, arguments: written, expansion: Box::new(expansion) })
}

/// How each is read from its arguments.
mod read {
    use super::*;
    use crate::condition::gauge::Unit;

    type Built = Result<Condition, Diagnostic>;

    fn at_least(id: GaugeId, value: u64) -> Condition {
        Condition::Compare(Comparison { gauge: Gauge::of(id), op: CompareOp::Ge, value })
    }

    fn count(arguments: &mut Arguments, id: GaugeId) -> Built {
        let value = arguments.amount("n", id.row().unit)?;
        Ok(at_least(id, value))
    }

    pub(super) fn steps(arguments: &mut Arguments) -> Built {
        count(arguments, GaugeId::Steps)
    }

    pub(super) fn messages(arguments: &mut Arguments) -> Built {
        count(arguments, GaugeId::Messages)
    }

    pub(super) fn tool_calls(arguments: &mut Arguments) -> Built {
        let value = arguments.amount("n", Unit::Count)?;
        let argument = arguments.optional_text("tool")?;
        let gauge = Gauge { id: GaugeId::ToolCalls, own: false, argument };
        Ok(Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value }))
    }

    pub(super) fn tokens(arguments: &mut Arguments) -> Built {
        count(arguments, GaugeId::Tokens)
    }

    /// `model` names the price for calls without one ([`Condition::unpriced_model`]); it is no part of the expansion.
    pub(super) fn usd(arguments: &mut Arguments) -> Built {
        let money = arguments.dollars("usd")?;
        arguments.optional_text("model")?;
        Ok(at_least(GaugeId::Cost, money.picos()))
    }

    /// A bare number is seconds only in the seeds' spellings.
    pub(super) fn timeout(arguments: &mut Arguments) -> Built {
        let value = arguments.required("duration")?;
        Ok(at_least(GaugeId::Active, seconds(&value.literal, value.span)?))
    }

    pub(super) fn deadline(arguments: &mut Arguments) -> Built {
        let value = arguments.amount("time", Unit::WallTime)?;
        Ok(at_least(GaugeId::Now, value))
    }

    pub(super) fn idle(arguments: &mut Arguments) -> Built {
        let value = arguments.amount("duration", Unit::Duration)?;
        Ok(at_least(GaugeId::Idle, value))
    }

    pub(super) fn text_mention(arguments: &mut Arguments) -> Built {
        let text = arguments.non_empty_text("text")?;
        let from = arguments.optional_text("from")?;
        Ok(Condition::Fact(Fact::Said { text, from }))
    }

    pub(super) fn function_call(arguments: &mut Arguments) -> Built {
        Ok(Condition::Fact(Fact::Called(arguments.text("tool")?)))
    }

    pub(super) fn handoff(arguments: &mut Arguments) -> Built {
        Ok(Condition::Fact(Fact::HandedOff(arguments.text("to")?)))
    }

    pub(super) fn finish_reason(arguments: &mut Arguments) -> Built {
        Ok(Condition::Fact(Fact::Finished(arguments.texts("reason")?)))
    }

    pub(super) fn external_signal(arguments: &mut Arguments) -> Built {
        Ok(Condition::Fact(Fact::Signal(arguments.text("name")?)))
    }

    /// The seeds hand their token over by name; there is one cancellation a run, so the name is for the
    /// reader only.
    pub(super) fn cancellation(arguments: &mut Arguments) -> Built {
        let _token = arguments.take("token", true);
        Ok(Condition::Fact(Fact::Cancelled))
    }

    pub(super) fn no_progress(arguments: &mut Arguments) -> Built {
        if arguments.first_left().is_none() {
            return Ok(in_a_loop());
        }
        let value = arguments.amount("patience", Unit::Count)?;
        Ok(at_least(GaugeId::NoProgress, value))
    }

    pub(super) fn errors(arguments: &mut Arguments) -> Built {
        count(arguments, GaugeId::Errors)
    }

    pub(super) fn retries(arguments: &mut Arguments) -> Built {
        count(arguments, GaugeId::Retries)
    }

    pub(super) fn depth(arguments: &mut Arguments) -> Built {
        count(arguments, GaugeId::Depth)
    }
}

/// A named condition from Rust values, which its row reads like written ones. `meaning` is taken for values that the
/// row refuses, such as an empty text, so that the check of the policy reports the problem.
fn from_rust(name: &'static str, literals: Vec<Literal>, meaning: Condition) -> Condition {
    build(name, Arguments::from_literals(literals), 0..0).map_or(meaning, Condition::Named)
}

macro_rules! counted {
    ($($(#[$doc:meta])* $function:ident $gauge:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $function(n: u64) -> Condition {
            let comparison = Comparison { gauge: Gauge::of(GaugeId::$gauge), op: CompareOp::Ge, value: n };
            from_rust(stringify!($function), alloc::vec![Literal::count(n)], Condition::Compare(comparison))
        }
    )*};
}

counted! {
    /// Stops the run after `n` steps. Example: `max_steps(25)`. Trips as `steps_limit`.
    max_steps Steps;
    /// Stops the run after `n` messages. Example: `max_messages(50)`. Trips as `messages_limit`.
    max_messages Messages;
    /// Stops the run after `n` tool calls. Example: `max_tool_calls(5)`. Trips as `tool_calls_limit`.
    max_tool_calls ToolCalls;
    /// Stops the run after `n` tokens. Example: `max_tokens(50_000)`. Trips as `token_limit`.
    max_tokens Tokens;
    /// Stops a run without new results for `n` steps. Example: `no_progress(3)`. Trips as `no_progress`.
    no_progress NoProgress;
    /// Stops the run after `n` failed attempts and tool calls. Example: `max_errors(3)`. Trips as
    /// `retry_limit`.
    max_errors Errors;
    /// Stops the run after `n` retries. Example: `max_retries(5)`. Trips as `retry_limit`.
    max_retries Retries;
    /// Refuses sub-agents deeper than `n`. Example: `max_depth(3)`. Trips as `steps_limit`.
    max_depth Depth;
}

/// Stops the run at this many dollars. Example: `max_usd("2.00")?`. Trips as `cost_limit`.
///
/// # Errors
/// Returns an error if `dollars` is not a plain decimal amount of at most $9,000,000 and twelve decimals.
pub fn max_usd(dollars: &str) -> Result<Condition, MoneyError> {
    let money: Money = dollars.parse()?;
    let gauge = Gauge::of(GaugeId::Cost);
    let meaning = Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value: money.picos() });
    Ok(from_rust("max_usd", alloc::vec![Literal::money(money)], meaning))
}

/// Stops the run after this much active time, a [`Millis`] or a [`Duration`](core::time::Duration). Example:
/// `timeout(Millis::from_secs(60))`. Trips as `time_limit`.
#[must_use]
pub fn timeout(after: impl Into<Millis>) -> Condition {
    let after = after.into();
    let gauge = Gauge::of(GaugeId::Active);
    let meaning = Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value: after.0 });
    from_rust("timeout", alloc::vec![Literal::duration(after)], meaning)
}

/// Stops the run at this wall time. Example: `deadline("2026-11-30T12:00Z")`. Trips as `time_limit`.
#[must_use]
pub fn deadline(at: WallTime) -> Condition {
    let gauge = Gauge::of(GaugeId::Now);
    let meaning = Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value: at.0 });
    from_rust("deadline", alloc::vec![Literal::text(&wall_text(at))], meaning)
}

/// Stops a run without any event for this time, a [`Millis`] or a [`Duration`](core::time::Duration). Example:
/// `idle(30s)`. Trips as `time_limit`.
#[must_use]
pub fn idle(after: impl Into<Millis>) -> Condition {
    let after = after.into();
    let gauge = Gauge::of(GaugeId::Idle);
    let meaning = Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value: after.0 });
    from_rust("idle", alloc::vec![Literal::duration(after)], meaning)
}

macro_rules! texted {
    ($($(#[$doc:meta])* $function:ident $fact:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $function(text: &str) -> Condition {
            let fact: fn(String) -> Fact = $fact;
            from_rust(stringify!($function), alloc::vec![Literal::text(text)], Condition::Fact(fact(String::from(text))))
        }
    )*};
}

texted! {
    /// Stops the run once the model says this. Example: `text_mention("DONE")`. Trips as `condition_met`.
    text_mention |text| Fact::Said { text, from: None };
    /// Stops the run once this tool has its result. Example: `function_call("submit")`. Trips as
    /// `condition_met`.
    function_call Fact::Called;
    /// Stops the run once the agent hands off to this one. Example: `handoff("human")`. Trips as
    /// `handed_off`.
    handoff Fact::HandedOff;
    /// Stops the run once the model finishes for this reason. Example: `finish_reason("stop")`. Trips as
    /// `finish_reason`.
    finish_reason |text| Fact::Finished(alloc::vec![text]);
    /// Stops the run once this signal is set from outside. Example: `external_signal("cancel")`. Trips as
    /// `user_requested`.
    external_signal Fact::Signal;
}

/// Stops a run that is in a loop, by limits that were measured: `no_progress()` without a number. Its expansion and
/// its error rates are in `docs/detection.md`. Trips as `no_progress`.
#[must_use]
pub fn no_progress_measured() -> Condition {
    from_rust("no_progress", Vec::new(), in_a_loop())
}

/// Stops the run once a person cancels it. Example: `cancellation()`. Trips as `user_requested`.
#[must_use]
pub fn cancellation() -> Condition {
    from_rust("cancellation", Vec::new(), Condition::Fact(Fact::Cancelled))
}

// The limits of `no_progress()`: next to no recorded run that succeeded would have been stopped at them.
// `cargo xtask detection` measures them, `docs/detection.md` has the table.

/// Steps of a hundred that got only what was already seen.
const STALE: u64 = 30;
/// The ninth equal result in a row: recorded runs of small models got out of eight.
const REPEATS: u64 = 8;
/// The fourth round: no recorded success has a second.
const CYCLES: u64 = 3;
/// Steps in a row with nothing new, responses without results among them. Runs went on to succeed after nine
/// responses that could not be carried out.
const PATIENCE: u64 = 12;

/// The expansion of `no_progress()`.
fn in_a_loop() -> Condition {
    let at_least = |id, value| {
        Condition::Compare(Comparison { gauge: Gauge::of(id), op: CompareOp::Ge, value })
    };
    at_least(GaugeId::Stale, STALE)
        | at_least(GaugeId::Repeats, REPEATS)
        | at_least(GaugeId::Cycles, CYCLES)
        | at_least(GaugeId::NoProgress, PATIENCE)
}
