//! The limits of one run: those of the policy, and those that a person approved.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::program::{Compare, Program};
use crate::table::{CompareIx, RuleIx, Table};

/// A limit that an approval gave to the leaves of one gauge in a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ApprovedLimit {
    rule: String,
    /// The gauge by name.
    gauge: String,
    /// In the gauge's unit.
    limit: u64,
}

/// The program's comparisons with the limits that approvals gave this run. Saved are the approvals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ApprovedLimits {
    approved: Vec<ApprovedLimit>,
    #[serde(skip)]
    compares: Table<CompareIx, Compare>,
}

impl ApprovedLimits {
    /// The limits of the policy.
    pub(crate) fn new(program: &Program) -> Self {
        Self { approved: Vec::new(), compares: program.compares().clone() }
    }

    pub(crate) const fn compares(&self) -> &Table<CompareIx, Compare> {
        &self.compares
    }

    /// Raises the limits of a rule on a gauge, called by its name; nothing is tightened. Whether the rule has
    /// such a limit.
    pub(crate) fn raise(
        &mut self,
        program: &Program,
        rule: RuleIx,
        gauge: &str,
        limit: u64,
    ) -> bool {
        let (mut any, mut raised) = (false, false);
        for compare in self.compares.rows_mut().iter_mut().filter(|compare| compare.rule == rule) {
            let named = program.gauges().at(compare.gauge).gauge.as_ref();
            if compare.range.is_lower_bound() && named.is_some_and(|it| it.row().name == gauge) {
                any = true;
                raised |= compare.range.lo < limit;
                compare.range.lo = compare.range.lo.max(limit);
                compare.range.span = u64::MAX - compare.range.lo;
            }
        }
        if raised {
            let rule = program.rule(rule).id.as_str();
            self.approved
                .retain(|known| (known.rule.as_str(), known.gauge.as_str()) != (rule, gauge));
            let (rule, gauge) = (rule.to_string(), gauge.to_string());
            self.approved.push(ApprovedLimit { rule, gauge, limit });
        }
        any
    }

    /// Leaves only what is saved.
    pub(crate) fn drop_derived(&mut self) {
        self.compares = Table::default();
    }

    /// Saved approvals under a program, which may be of another policy.
    pub(crate) fn fit(self, program: &Program) -> Self {
        let mut limits = Self::new(program);
        for known in self.approved {
            if let Some(rule) = program.rule_of_id(&known.rule) {
                limits.raise(program, rule, &known.gauge, known.limit);
            }
        }
        limits
    }
}
