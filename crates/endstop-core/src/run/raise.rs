//! Raising a limit of a live run for a person: within what the overrides of its rules admit (docs/semantics.md, section 9).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thiserror::Error;

use super::Run;
use crate::condition::GaugeId;
use crate::policy::{Action, Rule, bounds, gauges_in};
use crate::program::Compare;
use crate::signal::StopReason;
use crate::table::{CompareIx, RuleIx, Table};

/// A limit of a rule as it will be: what [`EventKind::Approved`](crate::EventKind::Approved) takes.
///
/// See the example of [`Run::raised`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedLimit {
    /// The rule.
    pub rule: String,
    /// The gauge by name.
    pub gauge: &'static str,
    /// The new limit, in the gauge's unit.
    pub limit: u64,
}

/// Why a limit cannot be raised. Amounts are in the gauge's unit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RaiseError {
    /// The run was cancelled or killed, which no limit undoes. The message is that of the cancellation.
    #[error("the run was cancelled ({0}), and raising a limit does not resume it")]
    Cancelled(String),
    /// No rule that stops or pauses compares the gauge.
    #[error("no rule limits `{0}`")]
    NoLimit(&'static str),
    /// The rule forbids overrides.
    #[error("the limit of rule `{rule}` on `{gauge}` is hard")]
    Hard {
        /// The rule.
        rule: String,
        /// The gauge.
        gauge: &'static str,
    },
    /// The rule asks for a wrap-up, which no override moves.
    #[error("the limit of finish rule `{0}` is fixed")]
    Finish(String),
    /// It is more than the overrides of the rule grant.
    #[error("rule `{rule}` grants less on `{gauge}`")]
    Beyond {
        /// The rule.
        rule: String,
        /// The gauge.
        gauge: &'static str,
        /// The most that can be added.
        most: u64,
    },
}

impl Run {
    /// Returns the limits that a person raises so that the run may use `by` more of `cost`, `tokens` or `steps` than its
    /// lowest limit on that admits. Changes nothing: the driver records an [`Approved`](crate::EventKind::Approved) for
    /// each, and [`Reopened`](crate::EventKind::Reopened) if the run has stopped.
    ///
    /// A stop rule grants at most its overrides, each with its grant: [`Policy::bounds`](crate::Policy::bounds) names that
    /// sum. Hard limits cannot be raised. Limits of pause rules can be raised to any amount.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use endstop_core::{Policy, Program, Run, condition::GaugeId, probe::Probes};
    /// use endstop_core::run::raise::RaiseError;
    ///
    /// let policy = Policy::from_toml(
    ///     "[stop]\nsteps = \"steps >= 20\"\nusd = \"cost >= $2\"\n[rule.steps]\ngrant = { steps = 10 }",
    /// )?;
    /// let run = Run::new(Arc::new(Program::new(&policy, &Probes::new())?));
    /// let raised = run.raised(GaugeId::Steps, 10)?;
    /// assert_eq!((raised[0].rule.as_str(), raised[0].limit), ("steps", 30));
    /// // Three overrides of ten steps each.
    /// assert!(matches!(run.raised(GaugeId::Steps, 31), Err(RaiseError::Beyond { most: 30, .. })));
    /// assert!(matches!(run.raised(GaugeId::Cost, 1), Err(RaiseError::Hard { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a rule does not admit the new limit.
    pub fn raised(&self, gauge: GaugeId, by: u64) -> Result<Vec<RaisedLimit>, RaiseError> {
        let mut signals = self.state.raised.signals();
        if let Some(signal) = signals.find(|it| it.reason == StopReason::UserRequested) {
            return Err(RaiseError::Cancelled(signal.message.clone()));
        }
        let name = gauge.row().name;
        let now = self.state.meter.compares();
        let rules = self.program.policy_rules().filter(|(index, rule)| match rule.action {
            Action::Stop | Action::Finish => true,
            Action::Pause => !self.is_pause_approved(*index),
            Action::Retry | Action::Warn => false,
        });
        let limited: Vec<(RuleIx, &Rule, u64)> = rules
            .filter_map(|(index, rule)| Some((index, rule, self.lowest(now, index, gauge)?)))
            .collect();
        let lowest = limited.iter().map(|(.., limit)| *limit).min();
        let target = lowest.ok_or(RaiseError::NoLimit(name))?.saturating_add(by);
        let mut raised = Vec::new();
        for (index, rule, limit) in limited.into_iter().filter(|(.., limit)| *limit < target) {
            let Some(first) = self.lowest(self.program.compares(), index, gauge) else {
                unreachable!("a limit that was raised is one of the policy")
            };
            let most = most(rule, gauge, first)?;
            if target > most {
                let (rule, most) = (rule.id.clone(), most.saturating_sub(limit));
                return Err(RaiseError::Beyond { rule, gauge: name, most });
            }
            raised.push(RaisedLimit { rule: rule.id.to_string(), gauge: name, limit: target });
        }
        Ok(raised)
    }

    /// The lowest limit of a rule on a gauge.
    fn lowest(
        &self,
        compares: &Table<CompareIx, Compare>,
        rule: RuleIx,
        gauge: GaugeId,
    ) -> Option<u64> {
        let is_of_gauge = |compare: &&Compare| {
            let named = self.program.gauges().at(compare.gauge).gauge.as_ref();
            compare.range.is_lower_bound() && named.is_some_and(|named| named.id == gauge)
        };
        let own = compares.rows().iter().filter(|compare| compare.rule == rule);
        own.filter(is_of_gauge).map(|compare| compare.range.lo).min()
    }
}

/// The highest limit that a rule can get.
fn most(rule: &Rule, gauge: GaugeId, first: u64) -> Result<u64, RaiseError> {
    match rule.action {
        Action::Stop => {
            let concerned = |part: &&crate::condition::Condition| {
                gauges_in(part).any(|found| found.id == gauge)
            };
            if rule.parts().into_iter().filter(concerned).any(|part| rule.is_part_hard(part)) {
                return Err(RaiseError::Hard { rule: rule.id.clone(), gauge: gauge.row().name });
            }
            Ok(first.saturating_add(bounds::granted(rule, gauge)))
        }
        Action::Finish => Err(RaiseError::Finish(rule.id.clone())),
        Action::Pause | Action::Retry | Action::Warn => Ok(u64::MAX),
    }
}
