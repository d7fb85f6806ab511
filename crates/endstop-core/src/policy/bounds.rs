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

/// What a policy bounds. A run that stops by its rules never passes these, except by what the call in
/// flight costs.
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
    /// Whether at least one dimension is bounded.
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

/// How a condition is looked at.
#[derive(Clone, Copy)]
struct Seen {
    /// A price that is unknown does not count as nothing.
    priced: bool,
    /// Steps of runs below count too.
    below: bool,
}

/// For each dimension, the value by which a condition holds for certain, and goes on holding.
type Reach = [Option<u64>; DIMENSIONS];

impl Policy {
    /// The policy's bounds, of a run that begins no others. O(nodes).
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds_seen(Seen { priced: self.unpriced() != OnUnpriced::Ignore, below: false })
    }

    /// The bounds of a run and of all runs below it, taken together: without those that count the run's own
    /// steps. O(nodes).
    #[must_use]
    pub fn bounds_of_tree(&self) -> Bounds {
        self.bounds_seen(Seen { priced: self.unpriced() != OnUnpriced::Ignore, below: true })
    }

    fn bounds_seen(&self, seen: Seen) -> Bounds {
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
                // The wrap-up is one step more, and its cost is not known here.
                Action::Finish => {
                    let mut only_steps: Reach = [None; DIMENSIONS];
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

fn tighten_all(best: &mut [Option<Bound>; DIMENSIONS], reach: Reach, rule: &Rule, overrides: u32) {
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
        reach(&rule.condition, false, Seen { priced: true, below: false })[STEPS].is_some();
    bounds_steps.then(|| grant_in(&rule.grant.unwrap_or_default(), STEPS))
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
fn reach(condition: &Condition, negated: bool, seen: Seen) -> Reach {
    match condition {
        Condition::Compare(comparison) => leaf(comparison, negated, seen),
        Condition::Fact(_) => [None; DIMENSIONS],
        Condition::Not(inner) => reach(inner, !negated, seen),
        Condition::Named(named) => reach(named.expansion(), negated, seen),
        Condition::And(parts) | Condition::Or(parts) => {
            let all = matches!(condition, Condition::And(_)) != negated;
            let reaches: Vec<Reach> = parts.iter().map(|part| reach(part, negated, seen)).collect();
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
fn leaf(comparison: &Comparison, negated: bool, seen: Seen) -> Reach {
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

fn over_time(temporal: &Temporal, negated: bool, seen: Seen) -> Reach {
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
mod tests {
    use super::*;
    use crate::expr::parse;
    use crate::units::Money;

    fn bounds(text: &str) -> [Option<u64>; 4] {
        let policy = Policy::stop(parse(text).unwrap());
        let found = policy.bounds();
        [found.steps, found.cost, found.tokens, found.time].map(|bound| bound.map(|b| b.limit))
    }

    #[test]
    fn only_lower_bounds_on_gauges_that_never_fall_bound() {
        let usd = |n: u64| n * crate::units::PICOS_PER_DOLLAR;
        for (text, expected) in [
            ("steps >= 25", [Some(25), None, None, None]),
            ("steps > 25", [Some(26), None, None, None]),
            ("not steps < 25", [Some(25), None, None, None]),
            ("steps >= 25 or cost >= $2", [Some(25), Some(usd(2)), None, None]),
            ("steps >= 25 and cost >= $2", [None; 4]),
            ("steps >= 25 and (steps >= 30 or errored)", [Some(30), None, None, None]),
            ("not (steps < 25 and tokens < 5k)", [Some(25), None, Some(5_000), None]),
            ("active >= 1m or elapsed > 2m", [None, None, None, Some(60_000)]),
            ("ever(tokens >= 10)", [None, None, Some(10), None]),
            ("streak(steps >= 5) >= 3", [Some(7), None, None, None]),
            ("count(attempts >= 5) > 2", [Some(7), None, None, None]),
            ("steps == 25 or steps != 3 or steps <= 5", [None; 4]),
            ("idle >= 1m or repeats >= 4 or context_tokens >= 10", [None; 4]),
            ("said(\"x\") or signal(\"y\") or fact(\"z\") >= 1", [None; 4]),
            ("own.steps >= 5 or tool_calls >= 5", [None; 4]),
            ("streak(errored) >= 3", [None; 4]),
        ] {
            assert_eq!(bounds(text), expected, "{text}");
        }
    }

    #[test]
    fn own_steps_bound_no_steps_below() {
        for (text, expected) in [
            ("streak(steps >= 5) >= 3", None),
            ("count(attempts >= 5) > 2", None),
            ("streak(steps >= 2) >= 3 or steps >= 9", Some(9)),
            ("ever(steps >= 4)", Some(4)),
        ] {
            let found = Policy::stop(parse(text).unwrap()).bounds_of_tree();
            assert_eq!(found.steps.map(|bound| bound.limit), expected, "{text}");
        }
    }

    #[test]
    fn one_bounded_dimension_is_enough() {
        for text in [
            "steps >= 1",
            "cost >= $1",
            "tokens >= 1",
            "active >= 1s",
            "deadline(\"2026-11-30T12:00Z\")",
        ] {
            assert!(Policy::stop(parse(text).unwrap()).bounds().is_bounded(), "{text}");
        }
        assert!(!Policy::stop(parse("errored").unwrap()).bounds().is_bounded());
    }

    #[test]
    fn actions_overrides_and_prices_count() {
        let steps = parse("steps >= 10").unwrap();
        let mut policy = Policy::default();
        for action in [Action::Pause, Action::Warn, Action::Retry] {
            policy.rules = alloc::vec![Rule::new("r", action, steps.clone())];
            assert!(!policy.bounds().is_bounded(), "{action:?}");
        }
        policy.rules = alloc::vec![Rule::new(
            "r",
            Action::Finish,
            parse("steps >= 10 or cost >= $1").unwrap()
        )];
        let found = policy.bounds();
        assert_eq!((found.steps.map(|b| b.limit), found.cost), (Some(11), None));

        let mut soft = Rule::new("r", Action::Stop, parse("steps >= 10 or cost >= $1").unwrap());
        soft.hard = Some(false);
        soft.grant = Some(Grant { steps: 2, cost: Money::from_picos(5), ..Grant::default() });
        policy.rules = alloc::vec![soft];
        let found = policy.bounds();
        assert_eq!(found.steps.map(|b| (b.limit, b.with_overrides)), Some((10, 16)));
        let dollar = crate::units::PICOS_PER_DOLLAR;
        assert_eq!(found.cost.map(|b| (b.limit, b.with_overrides)), Some((dollar, dollar + 15)));

        let mut patient =
            Rule::new("r", Action::Stop, parse("tokens >= 100 or active >= 1s").unwrap());
        patient.hard = Some(false);
        patient.grant =
            Some(Grant { tokens: 10, time: crate::units::Millis(500), ..Grant::default() });
        let waits = Policy { rules: alloc::vec![patient], ..Policy::default() }.bounds();
        let both = |bound: Option<Bound>| bound.map(|b| (b.limit, b.with_overrides));
        assert_eq!(
            (both(waits.tokens), both(waits.time)),
            (Some((100, 130)), Some((1_000, 2_500)))
        );

        policy.on_unpriced = Some(OnUnpriced::Ignore);
        assert_eq!(policy.bounds().cost, None);
        assert!(
            Policy::stop(parse("deadline(\"2026-11-30T12:00Z\")").unwrap()).bounds().is_bounded()
        );
    }
}
