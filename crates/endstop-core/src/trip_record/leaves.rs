//! Which leaves make a rule hold, and what that makes of its signal.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::condition::{CompareOp, Condition, Named, Temporal};
use crate::expr::Amount;
use crate::meter::{Meter, Reading, bit};
use crate::policy::program::{NodeInfo, Program};
use crate::signal::{StopReason, StopSignal};

/// What a policy signal's source begins with; the rule's id follows.
pub(super) const SOURCE: &str = "policy:";
/// Leaves that a signal's message tells of.
const MAX_TOLD: usize = 3;

/// A leaf that makes its rule hold.
struct Leaf<'p> {
    condition: &'p Condition,
    info: NodeInfo,
    named: Option<&'p Named>,
}

/// The leaves in true branches, in order.
fn true_leaves<'p>(program: &'p Program, meter: &Meter, rule: usize) -> Vec<Leaf<'p>> {
    let mut leaves = Vec::new();
    if let (Some(rule), Some(compiled)) = (program.policy.rules.get(rule), program.rules.get(rule))
    {
        let mut nodes = compiled.nodes.iter();
        walk(&rule.condition, &mut nodes, meter, None, true, &mut leaves);
    }
    leaves
}

/// Recursion is bounded by the depth that a policy may have.
fn walk<'p>(
    condition: &'p Condition,
    nodes: &mut core::slice::Iter<'_, NodeInfo>,
    meter: &Meter,
    named: Option<&'p Named>,
    wanted: bool,
    leaves: &mut Vec<Leaf<'p>>,
) {
    let info = nodes.next().copied().unwrap_or_default();
    let wanted = wanted && bit(&meter.truth, info.slot);
    let is_leaf =
        matches!(condition, Condition::Compare(_) | Condition::Fact(_) | Condition::Temporal(_));
    if is_leaf && wanted {
        leaves.push(Leaf { condition, info, named });
    }
    let named = match condition {
        Condition::Named(inner) => Some(inner),
        _ => named,
    };
    for part in condition.parts() {
        walk(part, nodes, meter, named, wanted && !is_leaf, leaves);
    }
}

/// The reason of a leaf; of an operator over time, the most authoritative one of its parts.
fn reason_of(condition: &Condition) -> StopReason {
    match condition {
        Condition::Compare(comparison) => comparison.gauge.row().reason,
        Condition::Fact(fact) => fact.reason(),
        other => other.parts().into_iter().map(reason_of).min().unwrap_or(StopReason::ConditionMet),
    }
}

/// The leaf whose reason the rule trips for. One under `not` counts only if there is no other.
fn primary_leaf<'l, 'p>(leaves: &'l [Leaf<'p>]) -> Option<&'l Leaf<'p>> {
    let plain = leaves.iter().filter(|leaf| !leaf.info.negated);
    let alone = match leaves {
        [alone] => Some(alone),
        _ => None,
    };
    plain.min_by_key(|leaf| reason_of(leaf.condition)).or(alone)
}

/// The named condition that made a rule hold, as written; else the leaf.
pub(crate) fn primary_leaf_text(program: &Program, meter: &Meter, rule: usize) -> Option<String> {
    let leaves = true_leaves(program, meter, rule);
    let leaf = primary_leaf(&leaves).or(leaves.first())?;
    Some(match leaf.named {
        Some(named) => Condition::Named(named.clone()).to_string(),
        None if leaf.info.negated => format!("not {}", leaf.condition),
        None => leaf.condition.to_string(),
    })
}

/// Returns whether a rule trips on built-in numeric limits alone. Such a signal does not stop a run whose step
/// ended naturally (docs/semantics.md, section 5).
pub(crate) fn rests_on_numbers(program: &Program, meter: &Meter, rule: usize) -> bool {
    true_leaves(program, meter, rule).iter().all(|leaf| match leaf.condition {
        Condition::Compare(comparison) => comparison.gauge.is_numeric_limit(),
        _ => false,
    })
}

/// The stop signal of a rule that holds.
pub(crate) fn signal_of(program: &Program, meter: &Meter, rule: usize) -> StopSignal {
    let leaves = true_leaves(program, meter, rule);
    let primary = primary_leaf(&leaves);
    let Some(policy_rule) = program.policy.rules.get(rule) else {
        return StopSignal::new(StopReason::Unknown);
    };
    let reason = policy_rule
        .reason
        .or(primary.map(|leaf| reason_of(leaf.condition)))
        .unwrap_or(StopReason::ConditionMet);
    let told: Vec<String> =
        leaves.iter().take(MAX_TOLD).map(|leaf| told(program, meter, leaf)).collect();
    let message = policy_rule.message.clone().unwrap_or_else(|| told.join(", "));
    let mut signal = StopSignal::new(reason)
        .with_message(message)
        .with_source(format!("{SOURCE}{}", policy_rule.id))
        .with_context("rule", policy_rule.id.as_str());
    if let Some(leaf) = primary.or(leaves.first()) {
        signal = signal.with_context("leaf", leaf.condition.to_string());
        if let Some(gauge) = leaf.info.gauge {
            signal = signal.with_context("observed", observed(meter, leaf, gauge));
            if let Some(value) = projected(program, meter, leaf) {
                signal = signal.with_context("projected", value);
            }
        }
    }
    signal
}

fn observed(meter: &Meter, leaf: &Leaf<'_>, gauge: usize) -> String {
    let value = meter.view.get(gauge).copied().unwrap_or(0);
    let unit = match leaf.condition {
        Condition::Compare(comparison) => comparison.gauge.row().unit,
        _ => crate::condition::gauge::Unit::Count,
    };
    match meter.readings.get(gauge) {
        Some(Reading::Unpriced) => "unknown".to_string(),
        _ => Amount { unit, value }.to_string(),
    }
}

/// What a leaf would read, where only that makes it hold.
fn projected(program: &Program, meter: &Meter, leaf: &Leaf<'_>) -> Option<String> {
    let Condition::Compare(comparison) = leaf.condition else { return None };
    let reach = meter.reach(program, leaf.info.slot)?;
    let compare = meter.compares.get(leaf.info.slot)?;
    if compare.range.holds(meter.view.get(compare.gauge).copied().unwrap_or(0)) {
        return None;
    }
    let unit = comparison.gauge.row().unit;
    Some(reach.map_or_else(
        || "unknown".to_string(),
        |reach| Amount { unit, value: reach.whole }.to_string(),
    ))
}

/// A leaf in words: `cost is $2.01 (limit $2.00)`.
fn told(program: &Program, meter: &Meter, leaf: &Leaf<'_>) -> String {
    let not = if leaf.info.negated { "not " } else { "" };
    let Some(gauge) = leaf.info.gauge else { return format!("{not}{}", leaf.condition) };
    let (is, value) = match projected(program, meter, leaf) {
        Some(value) => ("would be", value),
        None => ("is", observed(meter, leaf, gauge)),
    };
    if value == "unknown" {
        return format!("{} needs a price, and a call has none", leaf.condition);
    }
    match leaf.condition {
        Condition::Compare(comparison) if comparison.op == CompareOp::Ge && !leaf.info.negated => {
            let limit = meter.compares.get(leaf.info.slot).map_or(comparison.value, |c| c.range.lo);
            let limit = Amount { unit: comparison.gauge.row().unit, value: limit };
            format!("{} {is} {value} (limit {limit})", comparison.gauge)
        }
        Condition::Compare(comparison) => {
            format!("{} {is} {value} ({not}{})", comparison.gauge, leaf.condition)
        }
        Condition::Temporal(Temporal::Streak { .. } | Temporal::Count { .. }) => {
            format!("{not}{}: it is {value}", leaf.condition)
        }
        _ => format!("{not}{}", leaf.condition),
    }
}
