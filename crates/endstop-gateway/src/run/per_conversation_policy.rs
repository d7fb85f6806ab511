//! The part of a policy that is about one conversation, and applies to each: its stop rules on text, results and loops.
//! Amounts are counted for the whole run.
//!
//! A separate file because it changes with the conditions of policies, not with conversations.

use std::sync::Arc;

use endstop_core::Program;
use endstop_core::condition::{Condition, Fact, GaugeId};
use endstop_core::policy::{Action, Policy, Rule};
use endstop_core::probe::Probes;

/// Returns the program of a conversation other than the first. `None` if it cannot be built, which does not happen
/// with a policy that was built before.
pub(super) fn program(policy: &Policy) -> Option<Arc<Program>> {
    let stops = policy.rules.iter().filter(|rule| rule.action == Action::Stop);
    let rules = stops.filter_map(|rule| {
        let condition = own_part(&rule.condition)?;
        Some(Rule { condition, ..rule.clone() })
    });
    let own = Policy {
        rules: rules.collect(),
        accounting: policy.accounting.clone(),
        unbounded: true,
        ..Policy::default()
    };
    Program::new(&own, &Probes::new()).ok().map(Arc::new)
}

/// Returns the condition if it is about one conversation; of alternatives, those that are.
fn own_part(condition: &Condition) -> Option<Condition> {
    if is_own(condition) {
        return Some(condition.clone());
    }
    let Condition::Or(parts) = condition.expanded() else { return None };
    let own: Vec<Condition> = parts.iter().filter_map(own_part).collect();
    (!own.is_empty()).then_some(Condition::Or(own))
}

fn is_own(condition: &Condition) -> bool {
    match condition {
        Condition::Compare(comparison) => matches!(
            comparison.gauge.id,
            GaugeId::Repeats
                | GaugeId::Cycles
                | GaugeId::NoProgress
                | GaugeId::Stale
                | GaugeId::ContextTokens
        ),
        // A signal and a cancellation are of the run.
        Condition::Fact(fact) => !matches!(fact, Fact::Signal(_) | Fact::Cancelled),
        _ => condition.parts().into_iter().all(is_own),
    }
}

#[cfg(test)]
mod tests;
