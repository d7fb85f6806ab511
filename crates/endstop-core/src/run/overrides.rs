//! Continuations: one-shot, finite, recorded. They cannot livelock a run.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::condition::gauge::{GAUGES, Unit};
use crate::counter::Counter;
use crate::event::NewLimit;
use crate::expr::Amount;
use crate::limits::MAX_OVERRIDE_RECORDS;
use crate::meter::{Meter, Sight};
use crate::program::{Names, Program, carried};
use crate::table::{RuleIx, Table};
use crate::trip_record::OverrideRecord;

/// Whether a continuation answers a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// It does already.
    Answered,
    /// It can: one more override in a row.
    Possible,
    /// No continuation is requested, or a part of the rule that is met is hard.
    Refused,
    /// The rule was overridden as often as it may be and still stands.
    Exhausted,
}

/// The overrides of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RuleOverrides {
    /// The present request has answered it.
    answered: bool,
    /// How often in a row it was overridden.
    in_row: u32,
    /// Steps begun since it was last answered.
    steps: u64,
}

impl RuleOverrides {
    /// Whether the answer has let its grant of steps pass.
    fn is_used_up(&self, program: &Program, rule: RuleIx) -> bool {
        program.rules().at(rule).step_grant.is_some_and(|grant| self.steps >= grant)
    }
}

/// The request that lasts, how often each rule was overridden in a row, and the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Overrides {
    requested_by: Option<String>,
    rules: Table<RuleIx, RuleOverrides>,
    history: Vec<OverrideRecord>,
    /// Entries that the history no longer holds.
    forgotten: u64,
}

impl Overrides {
    pub(super) fn new(program: &Program) -> Self {
        let rules = program.rules().rows().iter().map(|_| RuleOverrides::default());
        Self { rules: rules.collect(), ..Self::default() }
    }

    pub(super) const fn is_requested(&self) -> bool {
        self.requested_by.is_some()
    }

    pub(super) fn history(&self) -> &[OverrideRecord] {
        &self.history
    }

    pub(super) fn request(&mut self, by: &str) {
        self.requested_by = Some(by.to_string());
        self.rules.rows_mut().iter_mut().for_each(|rule| rule.answered = false);
    }

    /// The step that the request was for is over.
    pub(super) fn lapse(&mut self) {
        self.requested_by = None;
    }

    /// A rule that no longer trips may be overridden as often as at first.
    #[inline]
    pub(super) fn forget_rules_that_became_false(&mut self, is_met: impl Fn(RuleIx) -> bool) {
        for rule in self.rules.indices() {
            let known = self.rules.at_mut(rule);
            if known.in_row > 0 && !is_met(rule) {
                known.in_row = 0;
            }
        }
    }

    /// Whether the present request answers a rule; `one_more` says that a step would begin, which uses up an
    /// answer that has let its grant pass.
    pub(super) fn cover(&self, sight: Sight<'_>, rule: RuleIx, one_more: bool) -> Cover {
        let (program, known) = (sight.program, self.rules.at(rule));
        let used_up = one_more && known.is_used_up(program, rule);
        if !self.is_requested() || sight.is_hard(rule) {
            Cover::Refused
        } else if known.answered && !used_up {
            Cover::Answered
        } else if known.in_row >= program.rule(rule).overrides || sight.is_raised(rule) {
            Cover::Exhausted
        } else {
            Cover::Possible
        }
    }

    /// The present request answers a rule.
    pub(super) fn answer(&mut self, program: &Program, meter: &Meter, rule: RuleIx) {
        let known = self.rules.at_mut(rule);
        known.answered = true;
        known.in_row = known.in_row.saturating_add(1);
        known.steps = 0;
        self.record(meter, Some(&program.rule(rule).id), "overridden");
    }

    /// One more step would begin: an answer that has let its grant pass has to be given again.
    pub(super) fn use_up(&mut self, program: &Program) {
        for rule in self.rules.indices() {
            let known = self.rules.at_mut(rule);
            known.answered &= !known.is_used_up(program, rule);
        }
    }

    /// A step has begun.
    pub(super) fn count_step(&mut self) {
        for rule in self.rules.rows_mut().iter_mut().filter(|rule| rule.answered) {
            rule.steps = rule.steps.saturating_add(1);
        }
    }

    /// Records what the present request did.
    pub(super) fn record(&mut self, meter: &Meter, rule: Option<&str>, what: &str) {
        // An unsigned request is recorded as one.
        let by = self.requested_by.clone().unwrap_or_default();
        self.push(meter, by, rule, what.to_string());
    }

    /// Records that the present request answers nothing: for a hard rule, or for a signal that nothing overrides. The
    /// same as before is not recorded again.
    pub(super) fn record_impossible(
        &mut self,
        program: &Program,
        meter: &Meter,
        hard: Option<RuleIx>,
    ) {
        let rule = hard.map(|rule| program.rule(rule).id.as_str());
        let what = match rule {
            Some(_) => "not overridden: the rule is hard",
            None => "not overridden: an error or a cancellation stands",
        };
        let is_known = |last: &OverrideRecord| last.what == what && last.rule.as_deref() == rule;
        if !self.history.last().is_some_and(is_known) {
            self.record(meter, rule, what);
        }
    }

    pub(super) fn record_approval(
        &mut self,
        meter: &Meter,
        rule: &str,
        limit: Option<&NewLimit<'_>>,
        (by, why): (&str, &str),
    ) {
        let mut what = match limit {
            Some(new) => {
                format!("approved up to {} {}", new.gauge, amount_of(new))
            }
            None => "approved".to_string(),
        };
        if !why.is_empty() {
            what = format!("{what}: {why}");
        }
        let by = if by.is_empty() { "a person" } else { by };
        self.push(meter, by.to_string(), Some(rule), what);
    }

    pub(super) fn record_reopening(&mut self, meter: &Meter, by: &str) {
        self.push(meter, by.to_string(), None, "reopened".to_string());
    }

    fn push(&mut self, meter: &Meter, by: String, rule: Option<&str>, what: String) {
        if self.history.len() >= MAX_OVERRIDE_RECORDS {
            self.history.remove(0);
            self.forgotten = self.forgotten.saturating_add(1);
        }
        let step = meter.tallies().total(Counter::Steps);
        let rule = rule.map(ToString::to_string);
        self.history.push(OverrideRecord { at_ms: meter.clocks().at().0, step, by, rule, what });
    }

    /// Brings saved overrides under another policy. `None` if they do not go with `from`.
    pub(super) fn fit(mut self, from: &Names, program: &Program) -> Option<Self> {
        let rules = carried(self.rules, &from.rules, &program.names().rules, |_, _| false)?;
        self.rules = rules.into_iter().map(Option::unwrap_or_default).collect();
        self.history.truncate(MAX_OVERRIDE_RECORDS);
        Some(self)
    }
}

/// The limit in the form that the expression language reads.
fn amount_of(new: &NewLimit<'_>) -> Amount {
    let own = new.gauge.strip_prefix("own.").unwrap_or(new.gauge);
    let name = own.split('(').next().unwrap_or(own);
    // Gauges outside the table are reported facts, which are counts.
    let unit = GAUGES.iter().find(|row| row.name == name).map_or(Unit::Count, |row| row.unit);
    Amount { unit, value: new.limit }
}
