//! A person's approval of a pause rule, and limits that a person raises.
//!
//! A separate file because it needs none of the private fields of [`RunHandle`], which are seen by one file.

use std::sync::Arc;

use endstop_core::condition::{Condition, GaugeId};
use endstop_core::event::{EventKind, NewLimit};
use endstop_core::policy::{Action, Rule};
use endstop_core::run::Status;
use endstop_core::run::raise::RaiseError;
use endstop_core::units::Money;

use super::handle::RunHandle;
use crate::observe::Detail;

impl RunHandle {
    /// Approves a pause rule for a person: it no longer pauses the run, or does so again once the money that it
    /// compares has reached `limit`. Returns `false` if nothing was approved: the policy has no such pause rule, or `limit`
    /// is given and the rule names no money.
    pub fn approve(&self, rule: &str, limit: Option<Money>) -> bool {
        self.approve_by(rule, limit, "", "")
    }

    /// Like [`RunHandle::approve`], with who approves and why, for the run's trace and its trip record.
    pub fn approve_by(&self, rule: &str, limit: Option<Money>, by: &str, why: &str) -> bool {
        let program = self.look(|run| Arc::clone(run.program()));
        let known = program.policy().rule(rule).filter(|known| known.action == Action::Pause);
        let Some(known) = known else { return false };
        let limits = limits_of(known, limit);
        for limit in &limits {
            self.record(&EventKind::Approved { rule, limit: *limit, by, why }, Detail::None);
        }
        !limits.is_empty()
    }

    /// Raises limits of the run for a person, each by an amount in the unit of its gauge, and lets the run continue if one
    /// of them had stopped it. Either all are raised or none.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
    /// # use endstop_runtime::{RunEnvironment, RunHandle, observe::RunInfo, store::RunId};
    /// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    /// # let id = RunId::new();
    /// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    /// # let policy = Policy::from(max_steps(1));
    /// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
    /// # let run = RunHandle::root(info, program, RunEnvironment::default());
    /// use endstop_core::condition::GaugeId;
    /// use endstop_core::{Directive, EventKind};
    ///
    /// assert_eq!(run.record_plain(&EventKind::StepBegin), Directive::Proceed);
    /// assert_eq!(run.record_plain(&EventKind::StepBegin), Directive::Stop);
    /// run.raise_limits(&[(GaugeId::Steps, 1)], "ann", "nearly done")?;
    /// assert_eq!(run.record_plain(&EventKind::StepBegin), Directive::Proceed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a rule does not admit it; see [`Run::raised`](endstop_core::Run::raised).
    pub fn raise_limits(
        &self,
        amounts: &[(GaugeId, u64)],
        by: &str,
        why: &str,
    ) -> Result<(), RaiseError> {
        let raised = self.look(|run| {
            let raised = amounts.iter().map(|(gauge, amount)| run.raised(*gauge, *amount));
            raised.collect::<Result<Vec<_>, _>>()
        })?;
        for raised in raised.iter().flatten() {
            let limit = Some(NewLimit { gauge: raised.gauge, limit: raised.limit });
            self.record_plain(&EventKind::Approved { rule: &raised.rule, limit, by, why });
        }
        if self.status() == Status::Stopped {
            self.reopen_refused(by, why);
        }
        Ok(())
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
