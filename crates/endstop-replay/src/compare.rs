//! Many policies over the same runs in one pass, and what each would have done to any part of them.

use std::collections::BTreeMap;

use endstop_core::Policy;
use endstop_core::policy::{OnUnpriced, PolicyError};
use endstop_core::units::Money;
use serde::Serialize;

use super::counterfactual::StopPoint;
use super::money::{dollars, sum};
use super::needs::needs;
use super::policy_set::PolicySet;
use super::recorder::Detail;
use super::report::RunReport;
use super::usage::Usage;
use super::wilson::Interval;
use super::{Options, Progress, record};
use endstop_transcript::{Transcript, Warning, format};

/// Runs, and where each policy would have cut them.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use endstop_core::{Policy, expr::parse};
/// use endstop_price::PriceTable;
/// use endstop_replay::{Options, compare};
/// use endstop_transcript::sample;
///
/// let policies = ["steps >= 3", "steps >= 6"].map(|text| Policy::stop(parse(text).unwrap()));
/// let (policy, outcomes, prices) = (Policy::default(), BTreeMap::new(), PriceTable::embedded());
/// let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs: 0, as_live: false };
/// let comparison = compare(&sample(), &policies, &options, &|_| {})?;
/// assert!(comparison.effect(0).stopped >= comparison.effect(1).stopped);
/// # Ok::<(), endstop_core::policy::PolicyError>(())
/// ```
#[derive(Debug, Default)]
pub struct Comparison {
    /// The runs; what a policy did to them is in `cuts`.
    pub runs: Vec<RunReport>,
    /// For each run, each policy's cut.
    pub cuts: Vec<Vec<Option<StopPoint>>>,
    /// The usage of the runs.
    pub usage: Usage,
    /// The warnings of the readers.
    pub warnings: Vec<Warning>,
    /// For each format of a run, whether each policy can be tested on it as a whole.
    pub(super) testable: BTreeMap<&'static str, Vec<bool>>,
    /// Whether each policy reads money and has no price to put in place of a missing one: on a run with calls without
    /// a price it is then not testable.
    pub(super) needs_prices: Vec<bool>,
}

/// Replays all `policies` over `inputs` in one pass; `options.policy` is ignored.
///
/// Memory grows with runs times policies, about 40 bytes each.
///
/// # Errors
/// Returns an error if a policy cannot be compiled.
pub fn compare(
    inputs: &[Transcript],
    policies: &[Policy],
    options: &Options<'_>,
    progress: &Progress<'_>,
) -> Result<Comparison, PolicyError> {
    let needs_prices = policies.iter().map(needs_prices).collect();
    let policies = PolicySet::new(policies)?;
    let mut comparison = Comparison { needs_prices, ..Comparison::default() };
    for record in record(inputs, &policies, options, Detail::Cuts, progress) {
        comparison.usage.merge(&record.usage);
        comparison.warnings.extend(record.warnings);
        for run in record.runs {
            comparison.runs.push(run.report);
            comparison.cuts.push(run.cuts);
        }
    }
    for run in &comparison.runs {
        let known = || format(run.format).map_or_else(Vec::new, |known| policies.testable(known));
        comparison.testable.entry(run.format).or_insert_with(known);
    }
    Ok(comparison)
}

fn needs_prices(policy: &Policy) -> bool {
    let looks_at_money = policy.rules.iter().any(|rule| needs(&rule.condition).money);
    looks_at_money && !matches!(policy.unpriced(), OnUnpriced::Rates { .. })
}

impl Comparison {
    /// Returns the effect of the policy at `index` on all runs.
    #[must_use]
    pub fn effect(&self, index: usize) -> Effect {
        self.effect_of(&[index], |_, _| true)
    }

    /// Returns the combined effect of the policies at `indices` on the runs that `select` admits by index and report:
    /// the first cut counts.
    pub fn effect_of(
        &self,
        indices: &[usize],
        select: impl Fn(usize, &RunReport) -> bool,
    ) -> Effect {
        let mut effect = Effect::default();
        let runs = self.runs.iter().zip(&self.cuts).enumerate();
        for (_, (run, cuts)) in runs.filter(|(index, (run, _))| select(*index, run)) {
            let lacks_price = |index: &usize| {
                run.unpriced_calls > 0 && self.needs_prices.get(*index) == Some(&true)
            };
            let priced = indices.iter().filter(|index| !lacks_price(index));
            let cut = priced.filter_map(|&index| cuts.get(index)?.as_ref());
            let cut = cut.min_by_key(|cut| (cut.step, cut.spent));
            effect.add(run, cut);
            let testable = self.testable.get(run.format);
            let is_testable = |index: &usize| {
                !lacks_price(index) && testable.is_some_and(|all| all.get(*index) == Some(&true))
            };
            if indices.is_empty() || indices.iter().any(is_testable) {
                effect.add_outcome(run.outcome, cut.is_some());
            } else {
                effect.not_testable += 1;
            }
        }
        effect
    }
}

/// The effect of a policy on some runs.
///
/// See the example of [`Comparison`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Runs.
    pub runs: u64,
    /// Runs that it would have stopped.
    pub stopped: u64,
    /// Dollars of the runs whose calls all have a price.
    #[serde(rename = "cost_usd", serialize_with = "dollars")]
    pub cost: Money,
    /// Dollars that it would have saved of those.
    #[serde(rename = "saved_usd", serialize_with = "dollars")]
    pub saved: Money,
    /// Tokens of all runs.
    pub tokens: u64,
    /// Tokens that it would have saved.
    pub tokens_saved: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// Steps that it would have saved.
    pub steps_saved: u64,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// The number of these that it would have stopped: successes lost. A run of unknown outcome is in neither.
    pub succeeded_stopped: u64,
    /// Runs that failed.
    pub failed: u64,
    /// The number of these that it would have stopped: failures cut.
    pub failed_stopped: u64,
    /// Runs of which it is not known how they ended.
    pub unknown: u64,
    /// The number of these that it would have stopped.
    pub unknown_stopped: u64,
    /// Runs that lack data of the policy, because their format does not record it or their calls have no price; they
    /// are in none of the counts of outcomes, because the policy was not tested on them.
    pub not_testable: u64,
}

impl Effect {
    fn add(&mut self, run: &RunReport, cut: Option<&StopPoint>) {
        let stopped = u64::from(cut.is_some());
        self.runs += 1;
        self.stopped += stopped;
        self.cost = sum(self.cost, run.priced_cost().unwrap_or_default());
        self.tokens = self.tokens.saturating_add(run.tokens);
        self.steps = self.steps.saturating_add(run.steps);
        if let Some(cut) = cut {
            let saved = run.priced_cost().map(|cost| cost.saturating_sub(cut.spent));
            self.saved = sum(self.saved, saved.unwrap_or_default());
            let tokens = run.tokens.saturating_sub(cut.tokens);
            self.tokens_saved = self.tokens_saved.saturating_add(tokens);
            self.steps_saved = self.steps_saved.saturating_add(run.steps.saturating_sub(cut.step));
        }
    }

    fn add_outcome(&mut self, outcome: Option<bool>, is_stopped: bool) {
        let (all, stopped) = match outcome {
            Some(true) => (&mut self.succeeded, &mut self.succeeded_stopped),
            Some(false) => (&mut self.failed, &mut self.failed_stopped),
            None => (&mut self.unknown, &mut self.unknown_stopped),
        };
        *all += 1;
        *stopped += u64::from(is_stopped);
    }

    /// Adds what it would have done to other runs.
    pub(super) fn merge(&mut self, other: &Self) {
        self.cost = sum(self.cost, other.cost);
        self.saved = sum(self.saved, other.saved);
        let counts: [(&mut u64, u64); 13] = [
            (&mut self.runs, other.runs),
            (&mut self.stopped, other.stopped),
            (&mut self.tokens, other.tokens),
            (&mut self.tokens_saved, other.tokens_saved),
            (&mut self.steps, other.steps),
            (&mut self.steps_saved, other.steps_saved),
            (&mut self.succeeded, other.succeeded),
            (&mut self.succeeded_stopped, other.succeeded_stopped),
            (&mut self.failed, other.failed),
            (&mut self.failed_stopped, other.failed_stopped),
            (&mut self.unknown, other.unknown),
            (&mut self.unknown_stopped, other.unknown_stopped),
            (&mut self.not_testable, other.not_testable),
        ];
        for (count, more) in counts {
            *count = count.saturating_add(more);
        }
    }

    /// Returns the share of successes lost, with its uncertainty; `None` if no success is known.
    #[must_use]
    pub fn lost(&self) -> Option<Interval> {
        Interval::of(self.succeeded_stopped, self.succeeded)
    }

    /// Returns the share of failures cut, with its uncertainty; `None` if no failure is known.
    #[must_use]
    pub fn caught(&self) -> Option<Interval> {
        Interval::of(self.failed_stopped, self.failed)
    }
}
