//! Attributes of spans, and the events of a run's span.

use endstop_core::event::EventKind;
use endstop_core::units::{Cost, TokenUsage};
use endstop_core::{Directive, Run};
use opentelemetry::{KeyValue, Value};

use super::super::{Detail, StatusView};
use super::metrics::dollars;
use super::names;
use crate::message::ToolOutcome;
use endstop_runtime::ledger::Budget;

/// A count as an attribute, which is signed.
pub(super) fn number(count: u64) -> Value {
    Value::I64(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The details of an event without a span, in an event of the run's span.
pub(super) fn told(
    kind: &EventKind<'_>,
    detail: &Detail<'_>,
) -> Option<(&'static str, Vec<KeyValue>)> {
    let text = |key: &'static str, value: &str| KeyValue::new(key, value.to_owned());
    match kind {
        EventKind::ToolRefused { tool } => {
            let outcome = match detail {
                Detail::Tool { outcome: Some(outcome), .. } => *outcome,
                _ => ToolOutcome::Refused,
            };
            let outcome = KeyValue::new(names::OUTCOME, outcome_name(outcome));
            Some((names::EVENT_TOOL_REFUSED, vec![text(names::TOOL, tool), outcome]))
        }
        EventKind::HandOff { to } => Some((names::EVENT_HANDED_OFF, vec![text(names::AGENT, to)])),
        EventKind::Kill { message } => {
            Some((names::EVENT_KILLED, vec![text(names::MESSAGE, message)]))
        }
        EventKind::Cancel { message } => {
            Some((names::EVENT_CANCELLED, vec![text(names::MESSAGE, message)]))
        }
        EventKind::ContinuationRequested { by } => {
            Some((names::EVENT_CONTINUATION, vec![text(names::MESSAGE, by)]))
        }
        EventKind::Approved { rule, .. } => {
            Some((names::EVENT_APPROVED, vec![text(names::RULE, rule)]))
        }
        EventKind::StopRaised { signal } => {
            let mut said = vec![KeyValue::new(names::STOP_REASON, signal.reason.value())];
            said.push(text(names::STOP_MESSAGE, &signal.message));
            said.extend(signal.source.as_deref().map(|source| text(names::STOP_SOURCE, source)));
            Some((names::EVENT_STOP_RAISED, said))
        }
        _ => None,
    }
}

/// Input tokens are all of the input, as the conventions have it.
pub(super) fn usage_attributes(usage: &TokenUsage) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(names::INPUT_TOKENS, number(usage.total_input())),
        KeyValue::new(names::OUTPUT_TOKENS, number(usage.output)),
    ];
    let written = usage.cache_write.saturating_add(usage.cache_write_1h);
    for (name, count) in
        [(names::CACHE_READ_TOKENS, usage.cache_read), (names::CACHE_WRITE_TOKENS, written)]
    {
        if count > 0 {
            attributes.push(KeyValue::new(name, number(count)));
        }
    }
    attributes
}

pub(super) fn cost_attribute(cost: Option<Cost>) -> Option<KeyValue> {
    match cost {
        Some(Cost::Known(amount)) => Some(KeyValue::new(names::COST, dollars(amount.picos()))),
        _ => None,
    }
}

pub(super) fn run_attributes(run: &Run) -> Vec<KeyValue> {
    let mut attributes = vec![KeyValue::new(names::STATUS, run.status().name())];
    if let Some(signal) = run.last_stop_signal() {
        attributes.push(KeyValue::new(names::STOP_REASON, signal.reason.value()));
        attributes.push(KeyValue::new(names::STOP_MESSAGE, signal.message.clone()));
        let source = signal.source.clone();
        attributes.extend(source.map(|source| KeyValue::new(names::STOP_SOURCE, source)));
    }
    attributes.extend(run.trip_record().rule.map(|rule| KeyValue::new(names::RULE, rule)));
    let tokens = [(names::INPUT_TOKENS, "input_tokens"), (names::OUTPUT_TOKENS, "output_tokens")];
    for (name, gauge) in tokens {
        attributes.extend(run.gauge(gauge).map(|count| KeyValue::new(name, number(count))));
    }
    attributes
}

/// The consumed amounts and their limits, with sub-agents: `endstop.budget.tokens.consumed`, `.limit`.
pub(super) fn budget_attributes(run: &Run, budget: &Budget) -> Vec<KeyValue> {
    let view = StatusView::of(run, budget);
    let mut attributes = vec![
        KeyValue::new("endstop.budget.steps.consumed", number(view.steps)),
        KeyValue::new("endstop.budget.tokens.consumed", number(view.tokens)),
    ];
    if !view.is_cost_unknown {
        attributes.push(KeyValue::new("endstop.budget.cost.consumed", dollars(view.cost.picos())));
    }
    let limit = |name: &'static str, limit: Option<u64>| {
        limit.map(|limit| KeyValue::new(name, number(limit)))
    };
    attributes.extend(limit("endstop.budget.steps.limit", view.steps_limit));
    attributes.extend(limit("endstop.budget.tokens.limit", view.tokens_limit));
    let cost = view.cost_limit.map(|limit| dollars(limit.picos()));
    attributes.extend(cost.map(|limit| KeyValue::new("endstop.budget.cost.limit", limit)));
    attributes
}

pub(super) const fn counting(is_estimate: bool) -> &'static str {
    if is_estimate { names::ESTIMATED } else { names::MEASURED }
}

pub(super) const fn outcome_name(outcome: ToolOutcome) -> &'static str {
    match outcome {
        ToolOutcome::Succeeded => "succeeded",
        ToolOutcome::Failed => "failed",
        ToolOutcome::TimedOut => "timed_out",
        ToolOutcome::Aborted => "aborted",
        ToolOutcome::Invalid => "invalid",
        ToolOutcome::Unknown => "unknown",
        ToolOutcome::Blocked => "blocked",
        ToolOutcome::Refused => "refused",
        ToolOutcome::NotExecuted => "not_executed",
    }
}

pub(super) const fn directive_name(directive: Directive) -> &'static str {
    match directive {
        Directive::Proceed => "proceed",
        Directive::Refuse => "refuse",
        Directive::Retry => "retry",
        Directive::Finish => "finish",
        Directive::Pause => "pause",
        Directive::Stop => "stop",
        Directive::Abort => "cancel_now",
    }
}
