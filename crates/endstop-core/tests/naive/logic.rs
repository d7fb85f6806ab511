//! Kleene's logic for the record, and the two-valued reading that decides.

use endstop_core::Condition;
use endstop_core::condition::{CompareOp, GaugeId, Temporal, Window};

use super::fact::fact;
use super::gauge::{Reading, compare};
use super::log::{ClosedStep, Entry, Moment, View};
use super::{Action, Rule, Truth};

/// A leaf as it reads at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeafValue {
    /// As printed.
    pub(crate) text: String,
    pub(crate) truth: Truth,
    /// The number that was compared; `None` for facts, and if it is not known or not compared.
    pub(crate) value: Option<u64>,
}

/// The condition at the moment, in three values.
pub(crate) fn truth(condition: &Condition, log: &[Entry<'_>], moment: Moment) -> Truth {
    three_valued(condition, View::new(log, moment), true)
}

/// Like [`truth`], for a part of a rule. `helping` is that of the part.
pub(crate) fn truth_in(
    action: Action,
    (condition, helping): (&Condition, bool),
    log: &[Entry<'_>],
    moment: Moment,
) -> Truth {
    three_valued(condition, action.view(log, moment), helping)
}

/// Like [`holds`], for a rule.
pub(crate) fn rule_holds(rule: &Rule, log: &[Entry<'_>], moment: Moment) -> bool {
    decided(&rule.condition, rule.action.view(log, moment), true)
}

/// Whether the condition holds for the decision: an unknown amount of money helps the rule to trip, any
/// other unknown leaf does not.
pub(crate) fn holds(condition: &Condition, log: &[Entry<'_>], moment: Moment) -> bool {
    decided(condition, View::new(log, moment), true)
}

/// Every leaf in the order it is printed, those inside operators over time as they read now.
pub(crate) fn leaf_values(
    condition: &Condition,
    log: &[Entry<'_>],
    moment: Moment,
) -> Vec<LeafValue> {
    let view = View::new(log, moment);
    match condition.expanded() {
        Condition::Compare(comparison) => {
            let (truth, reading) = compare(comparison, view, true);
            vec![LeafValue { text: comparison.to_string(), truth, value: reading.known() }]
        }
        Condition::Fact(leaf) => {
            vec![LeafValue { text: leaf.to_string(), truth: fact(leaf, view), value: None }]
        }
        other => other.parts().into_iter().flat_map(|p| leaf_values(p, log, moment)).collect(),
    }
}

fn three_valued(condition: &Condition, view: View<'_, '_>, helping: bool) -> Truth {
    match condition {
        Condition::Compare(comparison) => compare(comparison, view, helping).0,
        Condition::Fact(leaf) => fact(leaf, view),
        Condition::Not(inner) => three_valued(inner, view, !helping).negated(),
        Condition::And(parts) => all(parts.iter().map(|part| three_valued(part, view, helping))),
        Condition::Or(parts) => any(parts.iter().map(|part| three_valued(part, view, helping))),
        Condition::Named(named) => three_valued(named.expansion(), view, helping),
        Condition::Temporal(temporal) => over_time(temporal, view, helping),
    }
}

fn all(truths: impl Iterator<Item = Truth>) -> Truth {
    truths.min().unwrap_or(Truth::True)
}

fn any(truths: impl Iterator<Item = Truth>) -> Truth {
    truths.max().unwrap_or(Truth::False)
}

fn over_time(temporal: &Temporal, view: View<'_, '_>, helping: bool) -> Truth {
    let ends = |of: &Condition, steps: Vec<ClosedStep>| -> Vec<Truth> {
        steps.iter().map(|step| three_valued(of, view.back_at(step.end), helping)).collect()
    };
    match temporal {
        Temporal::Ever(of) => {
            any(ends(of, view.closed_steps()).into_iter().chain([three_valued(of, view, helping)]))
        }
        Temporal::Within { of, window } => any(ends(of, in_window(*window, view))
            .into_iter()
            .chain([three_valued(of, view, helping)])),
        Temporal::Then { first, next } => {
            all([any(ends(first, earlier(view)).into_iter()), three_valued(next, view, helping)]
                .into_iter())
        }
        Temporal::Streak { of, op, n } => {
            let truths = ends(of, view.closed_steps());
            let run = |least: Truth| truths.iter().rev().take_while(|t| **t >= least).count();
            between(run(Truth::True), run(Truth::Unknown), *op, *n)
        }
        Temporal::Count { of, window, op, n } => {
            let steps = window.map_or_else(|| view.closed_steps(), |w| in_window(w, view));
            let truths = ends(of, steps);
            let count = |least: Truth| truths.iter().filter(|t| **t >= least).count();
            between(count(Truth::True), count(Truth::Unknown), *op, *n)
        }
    }
}

/// The comparison of a number that lies somewhere between two.
fn between(low: usize, high: usize, op: CompareOp, n: u64) -> Truth {
    let mut results = (low..=high).map(|value| Truth::of(op.is_met(value as u64, n)));
    let first = results.next().unwrap_or(Truth::Unknown);
    if results.all(|result| result == first) { first } else { Truth::Unknown }
}

/// The closed steps in the window, oldest first.
fn in_window(window: Window, view: View<'_, '_>) -> Vec<ClosedStep> {
    let mut steps = view.closed_steps();
    match window {
        Window::Steps(n) => {
            let outside = steps.len().saturating_sub(usize::try_from(n).unwrap_or(usize::MAX));
            steps.drain(..outside);
        }
        Window::Time(duration) => {
            let now = view.elapsed();
            steps.retain(|step| now - view.elapsed_at(step.end) <= duration.0);
        }
    }
    steps
}

/// The closed steps before the one that began last.
fn earlier(view: View<'_, '_>) -> Vec<ClosedStep> {
    let current = view.steps_begun();
    view.closed_steps().into_iter().filter(|step| step.number < current).collect()
}

/// Whether the condition counts as true. `helping` says whether its truth helps the rule to trip: false
/// below an odd number of negations.
pub(super) fn decided(condition: &Condition, view: View<'_, '_>, helping: bool) -> bool {
    match condition {
        Condition::Compare(comparison) => {
            let (truth, reading) = compare(comparison, view, helping);
            let is_money = matches!(comparison.gauge.id, GaugeId::Cost | GaugeId::NextCost);
            let is_unpriced = is_money && reading != Reading::NotCompared;
            settle(truth, is_unpriced == helping)
        }
        Condition::Fact(leaf) => settle(fact(leaf, view), !helping),
        Condition::Not(inner) => !decided(inner, view, !helping),
        Condition::And(parts) => parts.iter().all(|part| decided(part, view, helping)),
        Condition::Or(parts) => parts.iter().any(|part| decided(part, view, helping)),
        Condition::Named(named) => decided(named.expansion(), view, helping),
        Condition::Temporal(temporal) => decided_over_time(temporal, view, helping),
    }
}

fn settle(truth: Truth, unknown: bool) -> bool {
    match truth {
        Truth::True => true,
        Truth::False => false,
        Truth::Unknown => unknown,
    }
}

fn decided_over_time(temporal: &Temporal, view: View<'_, '_>, helping: bool) -> bool {
    let at = |of: &Condition, step: &ClosedStep, helping: bool| {
        decided(of, view.back_at(step.end), helping)
    };
    match temporal {
        Temporal::Ever(of) => {
            decided(of, view, helping) || view.closed_steps().iter().any(|s| at(of, s, helping))
        }
        Temporal::Within { of, window } => {
            decided(of, view, helping)
                || in_window(*window, view).iter().any(|s| at(of, s, helping))
        }
        Temporal::Then { first, next } => {
            decided(next, view, helping) && earlier(view).iter().any(|s| at(first, s, helping))
        }
        Temporal::Streak { of, op, n } => {
            let steps = view.closed_steps();
            let streak =
                |helping| steps.iter().rev().take_while(|s| at(of, s, helping)).count() as u64;
            number_decided(streak, *op, *n, helping)
        }
        Temporal::Count { of, window, op, n } => {
            let steps = window.map_or_else(|| view.closed_steps(), |w| in_window(w, view));
            let count = |helping| steps.iter().filter(|s| at(of, s, helping)).count() as u64;
            number_decided(count, *op, *n, helping)
        }
    }
}

/// The comparison of a number of steps that depends on whether more of them would help.
///
/// Where fewer would, the steps are counted as below a negation. `==` and `!=` have a side of each kind.
fn number_decided(number: impl Fn(bool) -> u64, op: CompareOp, n: u64, helping: bool) -> bool {
    let (if_more_help, if_fewer_help) = (number(helping), number(!helping));
    match op {
        CompareOp::Ge | CompareOp::Gt => op.is_met(if_more_help, n),
        CompareOp::Lt | CompareOp::Le => op.is_met(if_fewer_help, n),
        CompareOp::Eq => if_more_help >= n && if_fewer_help <= n,
        CompareOp::Ne => if_more_help > n || if_fewer_help < n,
    }
}

/// Whether everything that makes the condition come out as `outcome` is a built-in numeric limit.
pub(super) fn rests_on_numbers(condition: &Condition, view: View<'_, '_>, helping: bool) -> bool {
    let outcome = decided(condition, view, helping);
    let of_outcome = |parts: &[Condition]| {
        let mut same = parts.iter().filter(|part| decided(part, view, helping) == outcome);
        same.all(|part| rests_on_numbers(part, view, helping))
    };
    match condition {
        Condition::Compare(comparison) => comparison.gauge.is_numeric_limit(),
        Condition::Fact(_) => false,
        Condition::Not(inner) => rests_on_numbers(inner, view, !helping),
        Condition::And(parts) | Condition::Or(parts) => of_outcome(parts),
        Condition::Named(named) => rests_on_numbers(named.expansion(), view, helping),
        // A count over the steps of a run is not one of the built-in limits.
        Condition::Temporal(_) => false,
    }
}
