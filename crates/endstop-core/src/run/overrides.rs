//! Continuations: one-shot, finite, recorded. They cannot livelock a run.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::event::Cap;
use crate::meter::Meter;
use crate::meter::counters::Counter;
use crate::policy::program::CompiledRule;

/// Entries of the history that are kept; earlier ones are only counted.
pub const MAX_HISTORY: usize = 64;

/// One override or approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverrideRecord {
    /// When, in milliseconds since the run began.
    pub at_ms: u64,
    /// Steps begun by then.
    pub step: u64,
    /// Who asked.
    pub by: String,
    /// The rule that was overridden or approved; none where raised signals were cleared.
    pub rule: Option<String>,
    /// What was done, such as `overridden` or `approved up to cost 3000000000000`.
    pub what: String,
}

/// Whether a continuation answers a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// It does already.
    Answered,
    /// It can: one more override in a row.
    Possible,
    /// No continuation is requested, or the rule is hard.
    Refused,
    /// The rule was overridden as often as it may be and still stands.
    Exhausted,
}

/// The request that lasts, how often each rule was overridden in a row, and the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    pub(crate) requested_by: Option<String>,
    /// Rules that the present request has answered.
    pub(crate) answered: Box<[bool]>,
    pub(crate) in_row: Box<[u32]>,
    /// Steps begun since each rule was last answered.
    pub(crate) steps: Box<[u64]>,
    pub(crate) history: Vec<OverrideRecord>,
    /// Entries that the history no longer holds.
    pub(crate) forgotten: u64,
}

impl Overrides {
    pub(crate) fn new(rules: usize) -> Self {
        Self {
            answered: vec![false; rules].into_boxed_slice(),
            in_row: vec![0; rules].into_boxed_slice(),
            steps: vec![0; rules].into_boxed_slice(),
            ..Self::default()
        }
    }

    pub(crate) const fn is_requested(&self) -> bool {
        self.requested_by.is_some()
    }

    #[inline]
    pub(crate) fn any_in_row(&self) -> bool {
        self.in_row.iter().any(|count| *count > 0)
    }

    pub(crate) fn request(&mut self, by: &str) {
        self.requested_by = Some(by.to_string());
        self.answered.fill(false);
    }

    /// The step that the request was for is over.
    pub(crate) fn lapse(&mut self) {
        self.requested_by = None;
    }

    pub(crate) fn became_false(&mut self, rule: usize) {
        if let Some(count) = self.in_row.get_mut(rule) {
            *count = 0;
        }
    }

    /// Whether the present request answers a rule that may be overridden `allowance` times in a row; `one_more`
    /// says that a step would begin, which uses up an answer that has let its grant pass.
    pub(crate) fn cover(
        &self,
        rule: usize,
        compiled: &CompiledRule,
        allowance: u32,
        one_more: bool,
    ) -> Cover {
        let used_up = one_more && self.is_used_up(rule, compiled);
        match (self.answered.get(rule), self.in_row.get(rule)) {
            (Some(_), Some(_)) if compiled.hard || !self.is_requested() => Cover::Refused,
            (Some(true), Some(_)) if !used_up => Cover::Answered,
            (Some(_), Some(count)) if *count >= allowance => Cover::Exhausted,
            (Some(_), Some(_)) => Cover::Possible,
            _ => Cover::Refused,
        }
    }

    /// Whether the answer to a rule has let its grant of steps pass.
    fn is_used_up(&self, rule: usize, compiled: &CompiledRule) -> bool {
        let steps = self.steps.get(rule).copied().unwrap_or(0);
        compiled.step_grant.is_some_and(|grant| steps >= grant)
    }

    /// The present request answers a rule.
    pub(crate) fn answer(&mut self, meter: &Meter, rule: usize, id: &str) {
        if let (Some(answered), Some(count)) =
            (self.answered.get_mut(rule), self.in_row.get_mut(rule))
        {
            *answered = true;
            *count = count.saturating_add(1);
        }
        if let Some(steps) = self.steps.get_mut(rule) {
            *steps = 0;
        }
        self.record(meter, Some(id), "overridden");
    }

    /// One more step would begin: an answer that has let its grant pass has to be given again.
    pub(crate) fn use_up(&mut self, rules: &[CompiledRule]) {
        for (index, rule) in rules.iter().enumerate() {
            let used_up = self.is_used_up(index, rule);
            self.answered.get_mut(index).into_iter().for_each(|answered| *answered &= !used_up);
        }
    }

    /// A step has begun.
    pub(crate) fn count_step(&mut self) {
        for (steps, _) in self.steps.iter_mut().zip(&self.answered).filter(|(_, a)| **a) {
            *steps = steps.saturating_add(1);
        }
    }

    /// Records what the present request did.
    pub(crate) fn record(&mut self, meter: &Meter, rule: Option<&str>, what: &str) {
        let by = self.requested_by.clone().unwrap_or_default();
        self.push(meter, by, rule, what.to_string());
    }

    pub(crate) fn record_approval(&mut self, meter: &Meter, rule: &str, cap: Option<&Cap<'_>>) {
        let what = match cap {
            Some(cap) => format!("approved up to {} {}", cap.gauge, cap.limit),
            None => "approved".to_string(),
        };
        self.push(meter, "a person".to_string(), Some(rule), what);
    }

    fn push(&mut self, meter: &Meter, by: String, rule: Option<&str>, what: String) {
        if self.history.len() == MAX_HISTORY {
            self.history.remove(0);
            self.forgotten = self.forgotten.saturating_add(1);
        }
        let step = meter.totals.get(Counter::Steps);
        let rule = rule.map(ToString::to_string);
        self.history.push(OverrideRecord { at_ms: meter.clocks.at.0, step, by, rule, what });
    }
}
