//! The upper bound of what a policy lets a run use, proved from the policy alone (docs/semantics.md, section 2).

use alloc::string::String;
use alloc::vec::Vec;

use super::{Action, Grant, OnUnpriced, Policy, Rule};
use crate::condition::{CompareOp, Comparison, Condition, GaugeId, Temporal};
use crate::units::WallTime;

/// A bound of one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Without overrides, in the dimension's unit.
    pub limit: u64,
    /// With every override that the policy allows.
    pub with_overrides: u64,
    /// The rule that sets it.
    pub rule: String,
}

/// The bounds of a policy. A run that stops by its rules never exceeds these, except by the cost of the call in
/// flight.
///
/// See the example of [`Policy`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Steps.
    pub steps: Option<Bound>,
    /// Pico-dollars.
    pub cost: Option<Bound>,
    /// Tokens.
    pub tokens: Option<Bound>,
    /// Milliseconds of active or elapsed time.
    pub time: Option<Bound>,
    /// A wall time after which no step begins: bounds time, though not as a duration.
    pub deadline: Option<WallTime>,
}

impl Bounds {
    /// Returns whether at least one dimension is bounded.
    #[must_use]
    pub const fn is_bounded(&self) -> bool {
        self.steps.is_some()
            || self.cost.is_some()
            || self.tokens.is_some()
            || self.time.is_some()
            || self.deadline.is_some()
    }
}

const DIMENSIONS: usize = 5;
const STEPS: usize = 0;
const COST: usize = 1;
const TOKENS: usize = 2;
const TIME: usize = 3;
const DEADLINE: usize = 4;

/// The mode in which a condition is read.
#[derive(Clone, Copy)]
struct ReadingMode {
    /// A price that is unknown does not count as nothing.
    priced: bool,
    /// Steps of runs below count too.
    below: bool,
}

/// For each dimension, the value by which a condition is met for certain, and stays met.
type DimensionLimits = [Option<u64>; DIMENSIONS];

impl Policy {
    /// Returns the policy's bounds, of a run that begins no others. O(nodes).
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds_seen(ReadingMode {
            priced: self.unpriced() != OnUnpriced::Ignore,
            below: false,
        })
    }

    /// Returns the bounds of a run and of all runs below it, taken together: without those that count the run's own
    /// steps. O(nodes).
    #[must_use]
    pub fn bounds_of_tree(&self) -> Bounds {
        self.bounds_seen(ReadingMode { priced: self.unpriced() != OnUnpriced::Ignore, below: true })
    }

    fn bounds_seen(&self, seen: ReadingMode) -> Bounds {
        let mut best: [Option<Bound>; DIMENSIONS] = Default::default();
        for rule in &self.rules {
            let reach = match rule.action {
                Action::Stop => {
                    for part in rule.parts() {
                        let overrides = if rule.is_part_hard(part) { 0 } else { rule.overrides };
                        tighten_all(&mut best, reach(part, false, seen), rule, overrides);
                    }
                    continue;
                }
                // The wrap-up is an extra step, and its cost is unknown here.
                Action::Finish => {
                    let mut only_steps: DimensionLimits = [None; DIMENSIONS];
                    only_steps[STEPS] =
                        reach(&rule.condition, false, seen)[STEPS].map(|n| n.saturating_add(1));
                    only_steps
                }
                Action::Pause | Action::Retry | Action::Warn => continue,
            };
            tighten_all(&mut best, reach, rule, 0);
        }
        let [steps, cost, tokens, time, deadline] = best;
        Bounds { steps, cost, tokens, time, deadline: deadline.map(|bound| WallTime(bound.limit)) }
    }
}

fn tighten_all(
    best: &mut [Option<Bound>; DIMENSIONS],
    reach: DimensionLimits,
    rule: &Rule,
    overrides: u32,
) {
    for (dimension, (slot, limit)) in best.iter_mut().zip(reach).enumerate() {
        tighten(slot, limit, dimension, rule, overrides);
    }
}

fn tighten(
    slot: &mut Option<Bound>,
    limit: Option<u64>,
    dimension: usize,
    rule: &Rule,
    overrides: u32,
) {
    let Some(limit) = limit else { return };
    let grant = rule.grant.unwrap_or_default();
    let extra = u64::from(overrides).saturating_mul(grant_in(&grant, dimension));
    let with_overrides = limit.saturating_add(extra);
    match slot {
        Some(bound) => {
            if limit < bound.limit {
                bound.limit = limit;
                bound.rule.clone_from(&rule.id);
            }
            bound.with_overrides = bound.with_overrides.min(with_overrides);
        }
        None => *slot = Some(Bound { limit, with_overrides, rule: rule.id.clone() }),
    }
}

/// The steps that one override of a rule lets pass, if the rule bounds steps.
pub(crate) fn step_grant(rule: &Rule) -> Option<u64> {
    let bounds_steps =
        reach(&rule.condition, false, ReadingMode { priced: true, below: false })[STEPS].is_some();
    bounds_steps.then(|| grant_in(&rule.grant.unwrap_or_default(), STEPS))
}

/// The sum of the amounts that the overrides of a rule may add to its limit on a gauge.
pub(crate) fn granted(rule: &Rule, gauge: GaugeId) -> u64 {
    let dimension = match gauge {
        GaugeId::Steps => STEPS,
        GaugeId::Cost => COST,
        GaugeId::Tokens => TOKENS,
        _ => return 0,
    };
    u64::from(rule.overrides).saturating_mul(grant_in(&rule.grant.unwrap_or_default(), dimension))
}

const fn grant_in(grant: &Grant, dimension: usize) -> u64 {
    match dimension {
        // An override lets at least one step pass, whatever is granted.
        STEPS => {
            if grant.steps == 0 {
                1
            } else {
                grant.steps
            }
        }
        COST => grant.cost.picos(),
        TOKENS => grant.tokens,
        TIME => grant.time.0,
        _ => 0,
    }
}

/// Recursion is bounded by the depth that a policy may have.
#[expect(clippy::indexing_slicing, reason = "a dimension is a place in a reach")]
fn reach(condition: &Condition, negated: bool, seen: ReadingMode) -> DimensionLimits {
    match condition {
        Condition::Compare(comparison) => leaf(comparison, negated, seen),
        Condition::Fact(_) => [None; DIMENSIONS],
        Condition::Not(inner) => reach(inner, !negated, seen),
        Condition::Named(named) => reach(named.expansion(), negated, seen),
        Condition::And(parts) | Condition::Or(parts) => {
            let all = matches!(condition, Condition::And(_)) != negated;
            let reaches: Vec<DimensionLimits> =
                parts.iter().map(|part| reach(part, negated, seen)).collect();
            core::array::from_fn(|d| {
                let mut limits = reaches.iter().map(|reach| reach[d]);
                if all {
                    limits
                        .try_fold(0, |most, limit| Some(limit?.max(most)))
                        .filter(|_| !parts.is_empty())
                } else {
                    limits.flatten().min()
                }
            })
        }
        Condition::Temporal(temporal) => over_time(temporal, negated, seen),
    }
}

fn lower_bound(op: CompareOp, value: u64, negated: bool) -> Option<u64> {
    match (op, negated) {
        (CompareOp::Ge, false) | (CompareOp::Lt, true) => Some(value),
        (CompareOp::Gt, false) | (CompareOp::Le, true) => value.checked_add(1),
        _ => None,
    }
}

#[expect(clippy::indexing_slicing, reason = "a dimension is a place in a reach")]
fn leaf(comparison: &Comparison, negated: bool, seen: ReadingMode) -> DimensionLimits {
    let mut reach = [None; DIMENSIONS];
    let limit = lower_bound(comparison.op, comparison.value, negated);
    // A run's own share bounds nothing that its descendants do.
    if comparison.gauge.own || !comparison.gauge.row().rises {
        return reach;
    }
    let dimension = match comparison.gauge.id {
        // Every step is at least one attempt and adds at least one message.
        GaugeId::Steps | GaugeId::Attempts | GaugeId::Messages => STEPS,
        GaugeId::Cost if seen.priced => COST,
        GaugeId::Tokens => TOKENS,
        GaugeId::Elapsed | GaugeId::Active => TIME,
        GaugeId::Now => DEADLINE,
        _ => return reach,
    };
    reach[dimension] = limit;
    reach
}

fn over_time(temporal: &Temporal, negated: bool, seen: ReadingMode) -> DimensionLimits {
    let none = [None; DIMENSIONS];
    match temporal {
        Temporal::Ever(of) | Temporal::Within { of, .. } if !negated => reach(of, false, seen),
        // One own step may hold any number of steps below.
        Temporal::Streak { of, op, n } | Temporal::Count { of, window: None, op, n }
            if !seen.below =>
        {
            let Some(n) = lower_bound(*op, *n, negated) else { return none };
            let mut bound = none;
            let of_steps = reach(of, false, seen)[STEPS];
            bound[STEPS] = of_steps.map(|s| s.max(1).saturating_add(n).saturating_sub(1));
            bound
        }
        _ => none,
    }
}

#[cfg(test)]
mod tests;
