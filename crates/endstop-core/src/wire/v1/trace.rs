//! Endstop's own trace: a JSON object a line, so that a crash loses at most the last one.
//!
//! A header begins a run: `{"endstop_trace":1,"run":"r1","model":"gpt-5","succeeded":true}`. Then one line
//! an event: `{"at":12,"wall":1763509492000,"event":"reply","cost":"0.0042",...}`. `at` is milliseconds
//! since the run began, `wall` milliseconds since 1970, `from` is `descendant` for a sub-agent's events.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::event::{Cap, Event, EventKind, Source};
use crate::signal::StopSignal;
use crate::units::{Cost, Millis, TokenUsage, WallTime};

/// The version that is written.
pub const VERSION: u32 = 1;

/// The line that begins a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader<'a> {
    /// [`VERSION`]; the key tells a trace from other JSON lines.
    pub endstop_trace: u32,
    /// The run's id.
    #[serde(borrow)]
    pub run: Cow<'a, str>,
    /// The model, if one is used throughout.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Cow<'a, str>>,
    /// Whether the run succeeded, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
}

/// Tokens by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokensJson {
    /// Uncached input.
    pub input: u64,
    /// Read from a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Written to a cache for five minutes.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// Written to a cache for an hour.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
    /// Output.
    pub output: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A line of one event. Which fields mean something depends on `event`; others are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceLine<'a> {
    /// Milliseconds since the run began.
    pub at: u64,
    /// Milliseconds since 1970; 0 where not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub wall: u64,
    /// `descendant` for a sub-agent's event.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub from: Option<Cow<'a, str>>,
    /// The kind, such as `step_begin`.
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    /// The agent that runs, hands over, or asks.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Cow<'a, str>>,
    /// Nesting depth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Words, or a message.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    /// The model.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub model: Option<Cow<'a, str>>,
    /// Tokens settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensJson>,
    /// Dollars as a decimal, or `unpriced`.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cow<'a, str>>,
    /// The finish reason.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Cow<'a, str>>,
    /// Tool calls asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// The tool, fact, signal, rule or gauge.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// A call's arguments.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Cow<'a, str>>,
    /// A call's result.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub result: Option<Cow<'a, str>>,
    /// Whether it failed.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// A fact's value, or an approval's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The gauge that an approval limits.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub gauge: Option<Cow<'a, str>>,
    /// A raised signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<StopSignal>,
    /// Whether the run succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
}

/// Why a line is not an event.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A kind that this version does not know.
    #[error("unknown event `{0}`")]
    UnknownEvent(String),
    /// A field that the kind needs.
    #[error("`{event}` needs `{field}`")]
    Missing {
        /// The kind.
        event: String,
        /// The field.
        field: &'static str,
    },
    /// A cost that is no amount.
    #[error("`{0}` is not an amount of dollars")]
    Cost(String),
}

impl TraceLine<'_> {
    /// The event that the line says.
    ///
    /// # Errors
    /// If the kind is not known, lacks a field it needs, or carries a cost that is no amount.
    pub fn event(&self) -> Result<Event<'_>, TraceError> {
        let source = match self.from.as_deref() {
            Some("descendant") => Source::Descendant,
            _ => Source::Own,
        };
        Ok(Event { at: Millis(self.at), wall: WallTime(self.wall), source, kind: self.kind()? })
    }

    fn need<'s, T>(&self, field: &'s Option<T>, name: &'static str) -> Result<&'s T, TraceError> {
        field
            .as_ref()
            .ok_or_else(|| TraceError::Missing { event: self.event.to_string(), field: name })
    }

    fn kind(&self) -> Result<EventKind<'_>, TraceError> {
        let text = self.text.as_deref().unwrap_or("");
        let name = || self.need(&self.name, "name").map(AsRef::as_ref);
        Ok(match &*self.event {
            "run_begin" => {
                EventKind::RunBegin { agent: self.agent.as_deref(), depth: self.depth.unwrap_or(0) }
            }
            "user_message" => EventKind::UserMessage,
            "step_begin" => EventKind::StepBegin,
            "attempt_begin" => EventKind::AttemptBegin { next_cost: self.cost()? },
            "piece" => EventKind::Piece { text },
            "attempt_failed" => {
                EventKind::AttemptFailed { usage: self.usage(), cost: self.cost()? }
            }
            "reply" => EventKind::Reply {
                model: self.model.as_deref(),
                usage: self.usage(),
                cost: self.cost()?,
                finish: self.finish.as_deref(),
                tool_calls: self.tool_calls.unwrap_or(0),
            },
            "tool_begin" => EventKind::ToolBegin { tool: name()? },
            "tool_end" => EventKind::ToolEnd {
                tool: name()?,
                arguments: self.arguments.as_deref().unwrap_or(""),
                result: self.result.as_deref().unwrap_or(""),
                failed: self.failed,
            },
            "tool_refused" => EventKind::ToolRefused { tool: name()? },
            "step_end" => EventKind::StepEnd,
            "child_begin" => EventKind::ChildBegin { depth: *self.need(&self.depth, "depth")? },
            "child_end" => EventKind::ChildEnd,
            "hand_off" => EventKind::HandOff { to: self.need(&self.agent, "agent")? },
            "fact" => EventKind::Fact { name: name()?, value: *self.need(&self.value, "value")? },
            "signal" => EventKind::Signal { name: name()? },
            "cancel" => EventKind::Cancel { message: text },
            "kill" => EventKind::Kill { message: text },
            "stop_raised" => EventKind::StopRaised { signal: self.need(&self.signal, "signal")? },
            "continuation_requested" => {
                EventKind::ContinuationRequested { by: self.agent.as_deref().unwrap_or("") }
            }
            "paused" => EventKind::Paused,
            "resumed" => EventKind::Resumed,
            "approved" => EventKind::Approved { rule: name()?, cap: self.cap() },
            "tick" => EventKind::Tick,
            "run_end" => EventKind::RunEnd { succeeded: self.succeeded },
            other => return Err(TraceError::UnknownEvent(other.to_string())),
        })
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.tokens.map(|tokens| TokenUsage {
            input: tokens.input,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            cache_write_1h: tokens.cache_write_1h,
            output: tokens.output,
        })
    }

    fn cost(&self) -> Result<Option<Cost>, TraceError> {
        match self.cost.as_deref() {
            None => Ok(None),
            Some("unpriced") => Ok(Some(Cost::Unpriced)),
            Some(text) => match text.parse() {
                Ok(money) => Ok(Some(Cost::Known(money))),
                Err(_) => Err(TraceError::Cost(text.to_string())),
            },
        }
    }

    fn cap(&self) -> Option<Cap<'_>> {
        Some(Cap { gauge: self.gauge.as_deref()?, limit: self.value? })
    }
}

impl<'a> From<&Event<'a>> for TraceLine<'a> {
    fn from(event: &Event<'a>) -> Self {
        let mut line = Self {
            at: event.at.0,
            wall: event.wall.0,
            from: (event.source == Source::Descendant).then_some(Cow::Borrowed("descendant")),
            ..Self::default()
        };
        line.event = Cow::Borrowed(line.fill(&event.kind));
        line
    }
}

impl<'a> TraceLine<'a> {
    /// Writes the fields of a kind, and returns its name.
    fn fill(&mut self, kind: &EventKind<'a>) -> &'static str {
        let text = |text: &'a str| Some(Cow::Borrowed(text)).filter(|text| !text.is_empty());
        match kind {
            EventKind::RunBegin { agent, depth } => {
                self.agent = agent.map(Cow::Borrowed);
                self.depth = Some(*depth).filter(|depth| *depth > 0);
                "run_begin"
            }
            EventKind::UserMessage => "user_message",
            EventKind::StepBegin => "step_begin",
            EventKind::AttemptBegin { next_cost } => {
                self.cost = cost_text(*next_cost);
                "attempt_begin"
            }
            EventKind::Piece { text: words } => {
                self.text = Some(Cow::Borrowed(words));
                "piece"
            }
            EventKind::AttemptFailed { usage, cost } => {
                self.tokens = usage.map(tokens_json);
                self.cost = cost_text(*cost);
                "attempt_failed"
            }
            EventKind::Reply { model, usage, cost, finish, tool_calls } => {
                self.model = model.map(Cow::Borrowed);
                self.tokens = usage.map(tokens_json);
                self.cost = cost_text(*cost);
                self.finish = finish.map(Cow::Borrowed);
                self.tool_calls = Some(*tool_calls);
                "reply"
            }
            EventKind::ToolBegin { tool } => {
                self.name = Some(Cow::Borrowed(tool));
                "tool_begin"
            }
            EventKind::ToolEnd { tool, arguments, result, failed } => {
                self.name = Some(Cow::Borrowed(tool));
                self.arguments = Some(Cow::Borrowed(arguments));
                self.result = Some(Cow::Borrowed(result));
                self.failed = *failed;
                "tool_end"
            }
            EventKind::ToolRefused { tool } => {
                self.name = Some(Cow::Borrowed(tool));
                "tool_refused"
            }
            EventKind::StepEnd => "step_end",
            EventKind::ChildBegin { depth } => {
                self.depth = Some(*depth);
                "child_begin"
            }
            EventKind::ChildEnd => "child_end",
            EventKind::HandOff { to } => {
                self.agent = Some(Cow::Borrowed(to));
                "hand_off"
            }
            EventKind::Fact { name, value } => {
                self.name = Some(Cow::Borrowed(name));
                self.value = Some(*value);
                "fact"
            }
            EventKind::Signal { name } => {
                self.name = Some(Cow::Borrowed(name));
                "signal"
            }
            EventKind::Cancel { message } => {
                self.text = text(message);
                "cancel"
            }
            EventKind::Kill { message } => {
                self.text = text(message);
                "kill"
            }
            EventKind::StopRaised { signal } => {
                self.signal = Some((*signal).clone());
                "stop_raised"
            }
            EventKind::ContinuationRequested { by } => {
                self.agent = text(by);
                "continuation_requested"
            }
            EventKind::Paused => "paused",
            EventKind::Resumed => "resumed",
            EventKind::Approved { rule, cap } => {
                self.name = Some(Cow::Borrowed(rule));
                self.gauge = cap.map(|cap| Cow::Borrowed(cap.gauge));
                self.value = cap.map(|cap| cap.limit);
                "approved"
            }
            EventKind::Tick => "tick",
            EventKind::RunEnd { succeeded } => {
                self.succeeded = *succeeded;
                "run_end"
            }
        }
    }
}

fn cost_text<'a>(cost: Option<Cost>) -> Option<Cow<'a, str>> {
    cost.map(|cost| match cost {
        Cost::Known(money) => Cow::Owned(money.to_decimal()),
        Cost::Unpriced => Cow::Borrowed("unpriced"),
    })
}

const fn tokens_json(usage: TokenUsage) -> TokensJson {
    TokensJson {
        input: usage.input,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        cache_write_1h: usage.cache_write_1h,
        output: usage.output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_reads_back() {
        let signal = StopSignal::new(crate::signal::StopReason::StopRequested).with_message("x");
        let usage = Some(TokenUsage {
            input: 1,
            cache_read: 2,
            cache_write: 3,
            cache_write_1h: 4,
            output: 5,
        });
        let cost = "0.0042".parse().ok().map(Cost::Known);
        let kinds = [
            EventKind::RunBegin { agent: Some("a"), depth: 2 },
            EventKind::UserMessage,
            EventKind::StepBegin,
            EventKind::AttemptBegin { next_cost: Some(Cost::Unpriced) },
            EventKind::Piece { text: "say \"this\"\n" },
            EventKind::AttemptFailed { usage, cost },
            EventKind::Reply { model: Some("m"), usage, cost, finish: Some("stop"), tool_calls: 2 },
            EventKind::ToolBegin { tool: "t" },
            EventKind::ToolEnd { tool: "t", arguments: "{}", result: "é", failed: true },
            EventKind::ToolRefused { tool: "t" },
            EventKind::StepEnd,
            EventKind::ChildBegin { depth: 1 },
            EventKind::ChildEnd,
            EventKind::HandOff { to: "b" },
            EventKind::Fact { name: "f", value: 3 },
            EventKind::Signal { name: "s" },
            EventKind::Cancel { message: "enough" },
            EventKind::Kill { message: "" },
            EventKind::StopRaised { signal: &signal },
            EventKind::ContinuationRequested { by: "critic" },
            EventKind::Paused,
            EventKind::Resumed,
            EventKind::Approved { rule: "r", cap: Some(Cap { gauge: "cost", limit: 9 }) },
            EventKind::Tick,
            EventKind::RunEnd { succeeded: Some(false) },
        ];
        for (index, kind) in (0u64..).zip(kinds) {
            let source = if index % 2 == 0 { Source::Own } else { Source::Descendant };
            let event = Event { at: Millis(index), wall: WallTime(index), source, kind };
            let text = serde_json::to_string(&TraceLine::from(&event)).unwrap();
            let line: TraceLine<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(line.event(), Ok(event), "{text}");
        }
    }

    #[test]
    fn what_is_not_an_event_is_told_apart() {
        for (text, message) in [
            (r#"{"event":"dance"}"#, "unknown event `dance`"),
            (r#"{"event":"tool_begin"}"#, "`tool_begin` needs `name`"),
            (r#"{"event":"reply","cost":"-1"}"#, "`-1` is not an amount of dollars"),
        ] {
            let line: TraceLine<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(line.event().unwrap_err().to_string(), message);
        }
    }
}
