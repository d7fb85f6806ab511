//! The leaves that make a rule trip, and their effect on its signal.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

use crate::condition::gauge::Unit;
use crate::condition::{CompareOp, Condition, Gauge, GaugeId, Named, Temporal};
use crate::expr::Amount;
use crate::human;
use crate::limits::MAX_LEAVES_IN_MESSAGE;
use crate::meter::{Reading, Sight};
use crate::program::Node;
use crate::signal::{POLICY_SOURCE, StopReason, StopSignal};
use crate::table::RuleIx;

/// A leaf that makes its rule trip.
struct TrueLeaf<'p> {
    condition: &'p Condition,
    node: &'p Node,
    named: Option<&'p Named>,
}

/// The leaves in true branches, in order.
fn true_leaves(sight: Sight<'_>, rule: RuleIx) -> Vec<TrueLeaf<'_>> {
    let mut leaves = Vec::new();
    let condition = &sight.program.rule(rule).condition;
    walk(sight, condition, &sight.program.rules().at(rule).node, None, &mut leaves);
    leaves
}

/// Recursion is bounded by the depth that a policy may have.
fn walk<'p>(
    sight: Sight<'p>,
    condition: &'p Condition,
    node: &'p Node,
    named: Option<&'p Named>,
    leaves: &mut Vec<TrueLeaf<'p>>,
) {
    if !sight.frame.bit(node.slot) {
        return;
    }
    let named = match condition {
        Condition::Compare(_) | Condition::Fact(_) | Condition::Temporal(_) => {
            leaves.push(TrueLeaf { condition, node, named });
            return;
        }
        Condition::Named(inner) => Some(inner),
        _ => named,
    };
    for (part, node) in condition.parts().into_iter().zip(&node.parts) {
        walk(sight, part, node, named, leaves);
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
fn primary_leaf<'l, 'p>(leaves: &'l [TrueLeaf<'p>]) -> Option<&'l TrueLeaf<'p>> {
    let plain = leaves.iter().filter(|leaf| !leaf.node.negated);
    let alone = match leaves {
        [alone] => Some(alone),
        _ => None,
    };
    plain.min_by_key(|leaf| reason_of(leaf.condition)).or(alone)
}

/// The named condition that made a rule trip, as written; otherwise the leaf.
pub(crate) fn primary_leaf_text(sight: Sight<'_>, rule: RuleIx) -> Option<String> {
    let leaves = true_leaves(sight, rule);
    let leaf = primary_leaf(&leaves).or(leaves.first())?;
    Some(match leaf.named {
        Some(named) => Condition::Named(named.clone()).to_string(),
        None if leaf.node.negated => format!("not {}", leaf.condition),
        None => leaf.condition.to_string(),
    })
}

/// Returns whether a rule trips on built-in numeric limits alone. Such a signal does not stop a run whose step
/// ended naturally (docs/semantics.md, section 5).
pub(crate) fn rests_on_numbers(sight: Sight<'_>, rule: RuleIx) -> bool {
    true_leaves(sight, rule).iter().all(|leaf| match leaf.condition {
        Condition::Compare(comparison) => comparison.gauge.is_numeric_limit(),
        _ => false,
    })
}

/// The stop signal of a rule that trips.
pub(crate) fn signal_of(sight: Sight<'_>, rule: RuleIx) -> StopSignal {
    let leaves = true_leaves(sight, rule);
    let primary = primary_leaf(&leaves);
    let policy_rule = sight.program.rule(rule);
    let reason = policy_rule
        .reason
        .or(primary.map(|leaf| reason_of(leaf.condition)))
        .unwrap_or(StopReason::ConditionMet);
    let told: Vec<String> =
        leaves.iter().take(MAX_LEAVES_IN_MESSAGE).map(|leaf| told(sight, leaf)).collect();
    let message = policy_rule.message.clone().unwrap_or_else(|| told.join(", "));
    let mut signal = StopSignal::new(reason)
        .with_message(message)
        .with_source(format!("{POLICY_SOURCE}{}", policy_rule.id))
        .with_context("rule", policy_rule.id.as_str());
    if let Some(leaf) = primary.or(leaves.first()) {
        signal = signal.with_context("leaf", leaf.condition.to_string());
        if let Some(value) = observed(sight, leaf) {
            signal = signal.with_context("observed", value.to_string());
        }
        if let Some(value) = projected(sight, leaf) {
            signal = signal.with_context("projected", value.to_string());
        }
    }
    signal
}

/// A number that a leaf compares: an amount in the unit of its gauge, or not known.
#[derive(Clone, Copy)]
enum Measured {
    Amount(Amount),
    Unknown,
}

impl Measured {
    /// For people.
    fn for_people(self) -> String {
        match self {
            Self::Amount(Amount { unit, value }) => human::amount(value, unit),
            Self::Unknown => "unknown".to_string(),
        }
    }
}

impl Display for Measured {
    /// Exactly.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(amount) => write!(f, "{amount}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// The number of a leaf that compares one.
fn observed(sight: Sight<'_>, leaf: &TrueLeaf<'_>) -> Option<Measured> {
    let gauge = sight.compare(leaf.node.leaf.compare()?).gauge;
    let value = sight.frame.number(gauge);
    let unit = match leaf.condition {
        Condition::Compare(comparison) => comparison.gauge.row().unit,
        _ => Unit::Count,
    };
    Some(match sight.frame.reading(gauge) {
        Reading::Unpriced => Measured::Unknown,
        _ => Measured::Amount(Amount { unit, value }),
    })
}

/// The number of a leaf after the worst case, if only that makes it true.
fn projected(sight: Sight<'_>, leaf: &TrueLeaf<'_>) -> Option<Measured> {
    let Condition::Compare(comparison) = leaf.condition else { return None };
    let index = leaf.node.leaf.compare()?;
    let (reach, compare) = (sight.reach(index)?, sight.compare(index));
    if compare.range.is_met(sight.frame.number(compare.gauge)) {
        return None;
    }
    let unit = comparison.gauge.row().unit;
    Some(
        reach.map_or(Measured::Unknown, |reach| {
            Measured::Amount(Amount { unit, value: reach.whole })
        }),
    )
}

/// A leaf in words: `cost is $2.01 (limit $2.00)`, `the next call could reach $2.07 (limit $2.00)`.
fn told(sight: Sight<'_>, leaf: &TrueLeaf<'_>) -> String {
    let not = if leaf.node.negated { "not " } else { "" };
    let Some(observed) = observed(sight, leaf) else { return format!("{not}{}", leaf.condition) };
    let next = projected(sight, leaf);
    let value = next.unwrap_or(observed);
    let Measured::Amount(amount) = value else {
        return format!("{} needs a price, and a call has none", leaf.condition);
    };
    let gauge_says = |gauge: &Gauge, value: &str| match (next, gauge.id) {
        (None, _) if amount.unit == Unit::Duration => format!("{gauge} time is {value}"),
        (None, _) => format!("{gauge} is {value}"),
        (Some(_), GaugeId::Cost | GaugeId::NextCost) => {
            format!("the next call could reach {value}")
        }
        (Some(_), _) => format!("{gauge} could reach {value} with the next call"),
    };
    match leaf.condition {
        Condition::Compare(comparison) if comparison.op == CompareOp::Ge && !leaf.node.negated => {
            let Some(index) = leaf.node.leaf.compare() else {
                unreachable!("a comparison is compiled to one")
            };
            let limit = Amount { unit: amount.unit, value: sight.compare(index).range.lo };
            let (value, limit) = apart(amount, limit);
            format!("{} (limit {limit})", gauge_says(&comparison.gauge, &value))
        }
        Condition::Compare(comparison) => {
            let value = value.for_people();
            format!("{} ({not}{})", gauge_says(&comparison.gauge, &value), leaf.condition)
        }
        Condition::Temporal(Temporal::Streak { .. } | Temporal::Count { .. }) => {
            format!("{not}{}: it is {}", leaf.condition, value.for_people())
        }
        _ => format!("{not}{}", leaf.condition),
    }
}

/// An amount and its limit for people; exactly, if rounding would make two different amounts one. A time that has passed its
/// limit may be shown as the limit: a few milliseconds are of no interest.
fn apart(one: Amount, limit: Amount) -> (String, String) {
    let [rounded, rounded_limit] =
        [one, limit].map(|amount| human::amount(amount.value, amount.unit));
    let is_late = one.unit == Unit::Duration && one.value > limit.value;
    if rounded == rounded_limit && one != limit && !is_late {
        return (one.to_string(), limit.to_string());
    }
    (rounded, rounded_limit)
}
