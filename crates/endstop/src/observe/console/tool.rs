//! The lines of the console for tool calls.

use super::super::text::{clean_to, took};
use super::super::{Detail, Observation};
use super::Options;
use super::kind::{Kind, Line};
use crate::message::ToolOutcome;
use endstop_core::human::money;
use endstop_core::units::Money;

/// Columns of a name: a model, a tool, an agent.
pub(super) const NAME: usize = 64;

/// Columns of the arguments of a tool call.
const ARGUMENTS: usize = 120;

pub(super) fn calling(
    options: &Options,
    observation: &Observation<'_>,
    tool: &str,
) -> Option<Line> {
    if !observation.directive.admits() {
        return None;
    }
    let arguments = match observation.detail {
        Detail::Tool { call, .. } if options.show_tool_args && !call.arguments.is_empty() => {
            format!(" {}", clean_to(&call.arguments, ARGUMENTS))
        }
        _ => String::new(),
    };
    Some(Line::new(Kind::Tool, format!("Calling {}{arguments}", clean_to(tool, NAME))))
}

pub(super) fn tool_cost(detail: &Detail<'_>, tool: &str, cost: Money) -> Line {
    let doubt = if detail.unconfirmed().is_zero() { "" } else { ", unconfirmed" };
    Line::new(Kind::Tool, format!("{} costs {}{doubt}", clean_to(tool, NAME), money(cost)))
}

pub(super) fn tool_end(
    options: &Options,
    detail: &Detail<'_>,
    tool: &str,
    result: &str,
    failed: bool,
) -> Line {
    let (outcome, time) = match detail {
        Detail::Tool { outcome: Some(outcome), took: time, .. } => {
            (outcome_words(*outcome), format!(" in {}", took(*time)))
        }
        _ => (if failed { "failed" } else { "ok" }, String::new()),
    };
    let why = match failed {
        true => format!(": {}", clean_to(result, options.max_width)),
        false => String::new(),
    };
    let kind = if failed { Kind::Error } else { Kind::Tool };
    Line::new(kind, format!("{} -> {outcome}{time}{why}", clean_to(tool, NAME)))
}

pub(super) fn tool_refused(detail: &Detail<'_>, tool: &str) -> Line {
    let outcome = match detail {
        Detail::Tool { outcome: Some(outcome), .. } => *outcome,
        _ => ToolOutcome::Refused,
    };
    Line::new(Kind::Warn, format!("{} -> {}", clean_to(tool, NAME), outcome_words(outcome)))
}

const fn outcome_words(outcome: ToolOutcome) -> &'static str {
    match outcome {
        ToolOutcome::Succeeded => "ok",
        ToolOutcome::Failed => "failed",
        ToolOutcome::TimedOut => "timed out",
        ToolOutcome::Aborted => "aborted",
        ToolOutcome::Invalid => "not run: its arguments do not fit",
        ToolOutcome::Unknown => "not run: there is no such tool",
        ToolOutcome::Blocked => "not run: blocked",
        ToolOutcome::Refused => "not run: refused by a limit",
        ToolOutcome::NotExecuted => "not run: the run stops",
    }
}
