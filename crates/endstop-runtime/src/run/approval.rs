//! A person's approval of a pause rule.
//!
//! A file of its own because it needs none of the private fields of [`RunHandle`], which are seen by one file.

use std::sync::Arc;

use endstop_core::condition::{Condition, GaugeId};
use endstop_core::event::{EventKind, NewLimit};
use endstop_core::policy::Rule;
use endstop_core::units::Money;

use super::handle::RunHandle;
use crate::ledger::Limits;
use crate::observe::Detail;

impl RunHandle {
    /// Approves a pause rule for a person: it no longer pauses the run, or does so again once the money that it
    /// compares has reached `limit`. Returns `false` if nothing was approved: the policy has no such rule, or `limit` is
    /// given and the rule names no money.
    pub fn approve(&self, rule: &str, limit: Option<Money>) -> bool {
        let program = self.look(|run| Arc::clone(run.program()));
        let Some(known) = program.policy().rule(rule) else { return false };
        let limits = limits_of(known, limit);
        for limit in &limits {
            self.record(&EventKind::Approved { rule, limit: *limit }, Detail::None);
        }
        if !limits.is_empty() {
            // From here on the core alone knows the limits.
            self.budget().set_limits(Limits::unlimited());
        }
        !limits.is_empty()
    }
}

/// The limits that the events of an approval carry: one for each gauge of money in the rule. Empty for a limit that
/// the rule has no gauge for: it would be approved permanently.
fn limits_of(rule: &Rule, limit: Option<Money>) -> Vec<Option<NewLimit<'static>>> {
    let Some(limit) = limit.map(Money::picos) else { return vec![None] };
    let names = |id| names(&rule.condition, id);
    let gauges = [(GaugeId::Cost, "cost"), (GaugeId::NextCost, "next_cost")];
    let named = gauges.into_iter().filter(|(id, _)| names(*id));
    named.map(|(_, gauge)| Some(NewLimit { gauge, limit })).collect()
}

/// Recursion is bounded by the depth that a policy may have.
fn names(condition: &Condition, id: GaugeId) -> bool {
    match condition {
        Condition::Compare(comparison) => comparison.gauge.id == id,
        Condition::Fact(_) => false,
        Condition::Not(inner) => names(inner, id),
        Condition::And(parts) | Condition::Or(parts) => parts.iter().any(|part| names(part, id)),
        Condition::Named(named) => names(named.expansion(), id),
        Condition::Temporal(temporal) => temporal.parts().into_iter().any(|part| names(part, id)),
    }
}
