//! The compiled program against the naive evaluator, event by event.

use std::sync::Arc;

use endstop_core::condition::{CompareOp, GaugeId, Temporal};
use endstop_core::event::Source;
use endstop_core::expr::parse;
use endstop_core::policy::Rule as PolicyRule;
use endstop_core::probe::Probes;
use endstop_core::signal::StopReason;
use endstop_core::trip_record::NodeRecord;
use endstop_core::{
    Action as PolicyAction, Condition, Directive, Event, EventKind, Policy, Program, Run,
    TripRecord, Truth as Recorded,
};
use proptest::prelude::*;

use crate::naive::{
    Action, Decision, Entry, Moment, Rule, Standing, Truth, decide, rule_holds, truth_in,
};

/// The policy of the rules.
pub(crate) fn policy(rules: &[Rule]) -> Policy {
    let rules = rules.iter().map(|rule| {
        let action = match rule.action {
            Action::Stop => PolicyAction::Stop,
            Action::Pause => PolicyAction::Pause,
            Action::Finish => PolicyAction::Finish,
            Action::Retry => PolicyAction::Retry,
            Action::Warn => PolicyAction::Warn,
        };
        PolicyRule::new(rule.name, action, rule.condition.clone())
    });
    Policy { rules: rules.collect(), ..Policy::default() }
}

pub(crate) fn compiled(policy: &Policy) -> Arc<Program> {
    Arc::new(Program::new(policy, &Probes::new()).unwrap())
}

/// A run under the rules, and a way to see what it sees while it judges an event: a copy of it under a
/// policy with one more rule, which stops immediately, so that its trip record is of that moment.
pub(crate) struct Pair {
    run: Run,
    watcher: Arc<Program>,
}

impl Pair {
    pub(crate) fn of(rules: &[Rule]) -> Self {
        let policy = policy(rules);
        let mut watching = policy.clone();
        let always = parse("elapsed >= 0s").unwrap();
        watching.rules.push(PolicyRule::new("always", PolicyAction::Stop, always));
        Self { run: Run::new(compiled(&policy)), watcher: compiled(&watching) }
    }

    fn observe(&mut self, event: &Event<'_>) -> (TripRecord, Directive) {
        let saved = self.run.save().unwrap();
        let mut copy = Run::restore(Arc::clone(&self.watcher), &saved).unwrap();
        copy.observe(event);
        (copy.trip_record(), self.run.observe(event))
    }
}

/// Compares up to the first stop, or to where another action makes the run differ from what the log says.
pub(crate) fn check(rules: &[Rule], events: &[Event<'static>]) -> Result<(), TestCaseError> {
    let (decisions, entries) = decide(rules, events);
    let mut pair = Pair::of(rules);
    let exact = rules.iter().all(|rule| decides_exactly(&rule.condition));
    for (index, event) in events.iter().enumerate() {
        let (trip_record, directive) = pair.observe(event);
        let place = Place { index, event, entries: &entries };
        for (rule, record) in rules.iter().zip(&trip_record.rules) {
            place.holding(rule, record.trips)?;
            place.tree(rule.action, (&rule.condition, true), &record.tree)?;
        }
        let decision = &decisions[index];
        if exact {
            place.directive(decision, directive)?;
        }
        // A run that ended on its own may continue.
        let is_over = directive.stops() && pair.run.stop_reason() != Some(StopReason::Completed);
        let differs = match directive {
            Directive::Pause => announces(&event.kind),
            Directive::Finish => true,
            // A wrap-up was foreseen; the naive evaluator sees only what holds.
            Directive::Refuse if !decision.refused => true,
            _ => is_over || (!exact && directive != Directive::Proceed),
        };
        if differs {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a run that does not admit it counts nothing.
fn announces(kind: &EventKind<'_>) -> bool {
    kind.is_intention() || matches!(kind, EventKind::HandOff { .. })
}

struct Place<'t> {
    index: usize,
    event: &'t Event<'static>,
    entries: &'t [Entry<'static>],
}

impl Place<'_> {
    fn holding(&self, rule: &Rule, compiled: bool) -> Result<(), TestCaseError> {
        let expected = rule_holds(rule, self.entries, Moment(self.index));
        let agrees = if decides_exactly(&rule.condition) {
            compiled == expected
        } else {
            // It may hold back where the naive one trips, never the other way round.
            expected || !compiled
        };
        prop_assert!(
            agrees,
            "`{}` is {compiled}, expected {expected}, at {}: {:?}",
            rule.condition,
            self.index,
            self.event
        );
        Ok(())
    }

    fn tree(
        &self,
        action: Action,
        (condition, helping): (&Condition, bool),
        record: &NodeRecord,
    ) -> Result<(), TestCaseError> {
        if records_exactly(condition) {
            let expected =
                match truth_in(action, (condition, helping), self.entries, Moment(self.index)) {
                    Truth::True => Recorded::True,
                    Truth::False => Recorded::False,
                    Truth::Unknown => Recorded::Unknown,
                };
            prop_assert_eq!(
                record.state,
                expected,
                "`{}` at {}: {:?}",
                condition,
                self.index,
                self.event
            );
        }
        let parts = condition.parts();
        prop_assert_eq!(parts.len(), record.parts.len());
        let helping = parts_help(condition, helping);
        let mut parts = parts.into_iter().zip(&record.parts);
        parts.try_for_each(|(part, record)| self.tree(action, (part, helping), record))
    }

    /// A finish rule that trips or is foreseen refuses the steps of descendants, and nothing else.
    fn is_step_below(&self) -> bool {
        self.event.kind == EventKind::StepBegin && self.event.source == Source::Descendant
    }

    fn directive(&self, decision: &Decision, directive: Directive) -> Result<(), TestCaseError> {
        let of = |action: Action| decision.held.iter().any(|held| held.action == action);
        let stands = |standing: Standing| {
            decision.held.iter().any(|h| h.action == Action::Stop && h.standing == standing)
        };
        let at = self.index;
        let stops = decision.raised || stands(Standing::Stands) || decision.natural_end;
        match directive {
            Directive::Stop | Directive::Abort => {
                // A retry rule that still holds stops the run in the end, without a stop rule.
                prop_assert!(stops || of(Action::Retry), "{directive:?} at {at}: {decision:?}");
            }
            // A pause comes before the natural end of a run, and hides it.
            Directive::Pause => {
                let pauses = of(Action::Pause) || decision.held_back;
                prop_assert!(pauses, "{directive:?} at {at}: {decision:?}");
            }
            Directive::Retry => {
                prop_assert!(of(Action::Retry) && !stops, "{directive:?} at {at}: {decision:?}");
            }
            Directive::Refuse => {
                let too_deep = stands(Standing::RefusesTheChild);
                let refuses = too_deep || self.is_step_below();
                prop_assert!(refuses && !stops, "{directive:?} at {at}: {decision:?}");
            }
            Directive::Proceed | Directive::Finish => {
                let refused = decision.refused || decision.held_back;
                prop_assert!(!stops && !refused, "{directive:?} at {at}: {decision:?}");
            }
        }
        Ok(())
    }
}

/// Whether the truth of its parts helps the rule to trip. Where an operator asks for few steps, steps in
/// which the operand holds do not help, whatever stands around it.
fn parts_help(condition: &Condition, helping: bool) -> bool {
    match condition {
        Condition::Not(_) => !helping,
        Condition::Temporal(Temporal::Streak { op, .. } | Temporal::Count { op, .. }) => {
            let op = if helping { *op } else { op.negated() };
            !matches!(op, CompareOp::Lt | CompareOp::Le)
        }
        _ => helping,
    }
}

/// Whether the number of steps that an operator compares is never in doubt for `==` and `!=`: those need
/// the most and the least it may be, and the compiled operator keeps one of the two.
fn decides_exactly(condition: &Condition) -> bool {
    let of_operator = match condition {
        Condition::Temporal(Temporal::Streak { of, op, .. } | Temporal::Count { of, op, .. }) => {
            !matches!(op, CompareOp::Eq | CompareOp::Ne) || is_always_known(of)
        }
        _ => true,
    };
    of_operator && condition.parts().into_iter().all(decides_exactly)
}

/// Whether every operator in it keeps all there is to know of its operand.
fn records_exactly(condition: &Condition) -> bool {
    let of_operator = match condition {
        Condition::Temporal(temporal) => temporal.parts().into_iter().all(is_always_known),
        _ => true,
    };
    of_operator && condition.parts().into_iter().all(records_exactly)
}

/// Whether it is known at the end of every step.
fn is_always_known(condition: &Condition) -> bool {
    match condition {
        Condition::Compare(comparison) => !matches!(
            comparison.gauge.id,
            GaugeId::Tokens
                | GaugeId::InputTokens
                | GaugeId::OutputTokens
                | GaugeId::CachedTokens
                | GaugeId::ContextTokens
                | GaugeId::Cost
                | GaugeId::NextCost
                | GaugeId::Depth
                | GaugeId::Fact
                | GaugeId::Quota
        ),
        other => other.parts().into_iter().all(is_always_known),
    }
}
