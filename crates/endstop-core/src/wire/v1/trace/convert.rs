//! Between [`Kind`] and [`EventKind`], both ways.

use alloc::borrow::Cow;

use super::{Kind, NewLimitOf, Usage};
use crate::event::{EventKind, NewLimit};
use crate::units::TokenUsage;

impl From<TokenUsage> for Usage {
    fn from(usage: TokenUsage) -> Self {
        let TokenUsage { input, cache_read, cache_write, cache_write_1h, output } = usage;
        Self { input, cache_read, cache_write, cache_write_1h, output }
    }
}

impl From<Usage> for TokenUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input, cache_read, cache_write, cache_write_1h, output } = usage;
        Self { input, cache_read, cache_write, cache_write_1h, output }
    }
}

impl<'a> Kind<'a> {
    pub(super) fn from_event(kind: &EventKind<'a>) -> Self {
        let text = |text: &'a str| Cow::Borrowed(text);
        match kind {
            EventKind::RunBegin { agent, depth } => {
                Self::RunBegin { agent: agent.map(text), depth: *depth }
            }
            EventKind::UserMessage => Self::UserMessage,
            EventKind::StepBegin => Self::StepBegin,
            EventKind::AttemptBegin { next_cost } => Self::AttemptBegin { next_cost: *next_cost },
            EventKind::Reserve { input_tokens, output_tokens, cost } => Self::Reserve {
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
                cost: *cost,
            },
            EventKind::Piece { text: words } => Self::Piece { text: text(words) },
            EventKind::AttemptFailed { usage, cost } => {
                Self::AttemptFailed { usage: usage.map(Usage::from), cost: *cost }
            }
            EventKind::Reply { model, usage, cost, finish, tool_calls } => Self::Reply {
                model: model.map(text),
                usage: usage.map(Usage::from),
                cost: *cost,
                finish: finish.map(text),
                tool_calls: *tool_calls,
            },
            EventKind::ToolReserve { tool, cost, held } => {
                Self::ToolReserve { tool: text(tool), cost: *cost, held: *held }
            }
            EventKind::ToolBegin { tool } => Self::ToolBegin { tool: text(tool) },
            EventKind::ToolCost { tool, cost } => Self::ToolCost { tool: text(tool), cost: *cost },
            EventKind::ToolEnd { tool, arguments, result, failed } => Self::ToolEnd {
                tool: text(tool),
                arguments: text(arguments),
                result: text(result),
                failed: *failed,
            },
            EventKind::ToolRefused { tool } => Self::ToolRefused { tool: text(tool) },
            EventKind::StepEnd => Self::StepEnd,
            EventKind::ChildBegin { depth } => Self::ChildBegin { depth: *depth },
            EventKind::ChildEnd => Self::ChildEnd,
            EventKind::HandOff { to } => Self::HandOff { to: text(to) },
            EventKind::Fact { name, value } => Self::Fact { name: text(name), value: *value },
            EventKind::Signal { .. }
            | EventKind::Cancel { .. }
            | EventKind::Kill { .. }
            | EventKind::StopRaised { .. }
            | EventKind::ContinuationRequested { .. }
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::PauseRequested { .. }
            | EventKind::ResumeRequested { .. }
            | EventKind::Approved { .. }
            | EventKind::Reopened { .. }
            | EventKind::Tick
            | EventKind::RunEnd { .. } => Self::from_intervention(kind),
        }
    }

    /// The kinds that come from outside the model and its tools.
    fn from_intervention(kind: &EventKind<'a>) -> Self {
        match kind {
            EventKind::Signal { name, by, why } => Self::Signal {
                name: Cow::Borrowed(name),
                by: Cow::Borrowed(by),
                why: Cow::Borrowed(why),
            },
            EventKind::Cancel { message } => Self::Cancel { message: Cow::Borrowed(message) },
            EventKind::Kill { message } => Self::Kill { message: Cow::Borrowed(message) },
            EventKind::StopRaised { signal } => Self::StopRaised { signal: Cow::Borrowed(signal) },
            EventKind::ContinuationRequested { by } => {
                Self::ContinuationRequested { by: Cow::Borrowed(by) }
            }
            EventKind::Paused => Self::Paused,
            EventKind::Resumed => Self::Resumed,
            EventKind::PauseRequested { by, why } => {
                Self::PauseRequested { by: Cow::Borrowed(by), why: Cow::Borrowed(why) }
            }
            EventKind::ResumeRequested { by, why } => {
                Self::ResumeRequested { by: Cow::Borrowed(by), why: Cow::Borrowed(why) }
            }
            EventKind::Approved { rule, limit, by, why } => Self::Approved {
                rule: Cow::Borrowed(rule),
                by: Cow::Borrowed(by),
                why: Cow::Borrowed(why),
                limit: limit
                    .map(|new| NewLimitOf { gauge: Cow::Borrowed(new.gauge), limit: new.limit }),
            },
            EventKind::Reopened { by, why } => {
                Self::Reopened { by: Cow::Borrowed(by), why: Cow::Borrowed(why) }
            }
            EventKind::RunEnd { succeeded } => Self::RunEnd { succeeded: *succeeded },
            _ => Self::Tick,
        }
    }

    pub(super) fn as_event(&self) -> EventKind<'_> {
        match self {
            Self::RunBegin { agent, depth } => {
                EventKind::RunBegin { agent: agent.as_deref(), depth: *depth }
            }
            Self::UserMessage => EventKind::UserMessage,
            Self::StepBegin => EventKind::StepBegin,
            Self::AttemptBegin { next_cost } => EventKind::AttemptBegin { next_cost: *next_cost },
            Self::Reserve { input_tokens, output_tokens, cost } => EventKind::Reserve {
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
                cost: *cost,
            },
            Self::Piece { text } => EventKind::Piece { text },
            Self::AttemptFailed { usage, cost } => {
                EventKind::AttemptFailed { usage: usage.map(TokenUsage::from), cost: *cost }
            }
            Self::Reply { model, usage, cost, finish, tool_calls } => EventKind::Reply {
                model: model.as_deref(),
                usage: usage.map(TokenUsage::from),
                cost: *cost,
                finish: finish.as_deref(),
                tool_calls: *tool_calls,
            },
            Self::ToolReserve { tool, cost, held } => {
                EventKind::ToolReserve { tool, cost: *cost, held: *held }
            }
            Self::ToolBegin { tool } => EventKind::ToolBegin { tool },
            Self::ToolCost { tool, cost } => EventKind::ToolCost { tool, cost: *cost },
            Self::ToolEnd { tool, arguments, result, failed } => {
                EventKind::ToolEnd { tool, arguments, result, failed: *failed }
            }
            Self::ToolRefused { tool } => EventKind::ToolRefused { tool },
            Self::StepEnd => EventKind::StepEnd,
            Self::ChildBegin { depth } => EventKind::ChildBegin { depth: *depth },
            Self::ChildEnd => EventKind::ChildEnd,
            Self::HandOff { to } => EventKind::HandOff { to },
            Self::Fact { name, value } => EventKind::Fact { name, value: *value },
            Self::Signal { name, by, why } => EventKind::Signal { name, by, why },
            Self::Cancel { message } => EventKind::Cancel { message },
            Self::Kill { message } => EventKind::Kill { message },
            Self::StopRaised { signal } => EventKind::StopRaised { signal },
            Self::ContinuationRequested { by } => EventKind::ContinuationRequested { by },
            Self::Paused => EventKind::Paused,
            Self::Resumed => EventKind::Resumed,
            Self::PauseRequested { by, why } => EventKind::PauseRequested { by, why },
            Self::ResumeRequested { by, why } => EventKind::ResumeRequested { by, why },
            Self::Approved { rule, limit, by, why } => EventKind::Approved {
                rule,
                by,
                why,
                limit: limit.as_ref().map(|new| NewLimit { gauge: &new.gauge, limit: new.limit }),
            },
            Self::Reopened { by, why } => EventKind::Reopened { by, why },
            Self::Tick => EventKind::Tick,
            Self::RunEnd { succeeded } => EventKind::RunEnd { succeeded: *succeeded },
        }
    }
}
