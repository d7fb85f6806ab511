//! Suggestions: limits and detectors for the user's own runs, judged on runs that did not choose them.
//!
//! Each family of rules is one condition at many values, from tight to loose. On a set of runs a family
//! chooses the tightest value that loses no more successes than allowed, and goes some values looser where
//! the next run asks for it, which is not among those seen. A run whose outcome is not known may have been a success, so
//! stopping it counts as a loss; it is never called one. To judge honestly, the runs are dealt into [`FOLDS`]
//! parts: each part is judged by rules that were chosen on the others alone, and the parts are added up.
//! How much looser (at most [`MAX_HEADROOM`]) is the least with which that loses no more than allowed.
//!
//! A rule that stops none of the runs is left out, a limit too: bounding runs that do not exist is no reason to
//! choose its value. A rule that stops successes and no failure is left out as well. No limit on time is proposed
//! from runs of formats that count a person's absence
//! ([`Format::is_attended`](endstop_transcript::Format::is_attended)).

mod families;

use endstop_core::Policy;
use endstop_core::policy::PolicyError;
use serde::Serialize;

use super::compare::{Comparison, Effect, compare};
use super::limits::MAX_HEADROOM;
use super::report::RunReport;
use super::usage::Usage;
use super::{Options, Progress};
use endstop_transcript::{Format, Transcript, Warning, format};
use families::FAMILIES;

/// Into how many parts the runs are dealt: what is left to choose on is most of them.
pub const FOLDS: usize = 5;

/// The proposal.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use endstop_core::Policy;
/// use endstop_price::PriceTable;
/// use endstop_replay::{Options, suggest};
/// use endstop_transcript::sample;
///
/// let (policy, outcomes, prices) = (Policy::default(), BTreeMap::new(), PriceTable::embedded());
/// let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs: 0, as_live: false };
/// let suggestion = suggest(&sample(), &options, 0.02, &|_| {})?;
/// assert!(suggestion.rules.iter().any(|rule| rule.condition.is_some()));
/// # Ok::<(), endstop_core::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// Whether any run's outcome is known; otherwise no run may be stopped that might have succeeded.
    pub knows_outcomes: bool,
    /// The share of successes that may be lost.
    pub lose_at_most: f64,
    /// The number of parts that the runs were dealt into.
    pub folds: usize,
    /// The rules, and those that were considered and left out.
    pub rules: Vec<SuggestedRule>,
    /// All proposed rules together, on the runs that chose them.
    pub together: Effect,
    /// The same on runs that did not choose them: what to expect.
    pub together_held_out: Effect,
    /// The usage of the runs.
    #[serde(skip)]
    pub usage: Usage,
    /// The warnings of the readers.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
    /// The runs.
    #[serde(skip)]
    pub runs: Vec<RunReport>,
}

/// A rule that was considered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuggestedRule {
    /// Its name in the policy file.
    pub id: &'static str,
    /// The condition; `None` if no value of it would do.
    pub condition: Option<String>,
    /// Its purpose, for people.
    pub purpose: &'static str,
    /// Formats among the runs that do not record its data, or not truthfully: it is not judged on their runs.
    pub not_told_by: Vec<&'static str>,
    /// Whether it is proposed, or why not.
    #[serde(rename = "verdict")]
    pub proposed: Proposed,
    /// On the runs that chose it.
    pub effect: Effect,
    /// On runs that did not: what to expect.
    pub held_out: Effect,
}

/// Whether a rule is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proposed {
    /// It is.
    Yes,
    /// It would have stopped none of these runs.
    StopsNothing,
    /// It would have stopped successes and no failure, or saved nothing.
    OnlyHarms,
    /// On runs that did not choose it, it loses more than is allowed.
    LosesTooMuch,
    /// Alone it would do, but with the rules before it more is lost than is allowed.
    LosesTooMuchTogether,
    /// Its data is not recorded.
    NotTestable,
}

/// Proposes rules for `inputs`; `options.policy` is ignored.
///
/// # Errors
/// Returns an error if a rule cannot be compiled, which would be a defect.
pub fn suggest(
    inputs: &[Transcript],
    options: &Options<'_>,
    lose_at_most: f64,
    progress: &Progress<'_>,
) -> Result<Suggestion, PolicyError> {
    let policies: Vec<Policy> = families::policies();
    let mut comparison = compare(inputs, &policies, options, progress)?;
    forget_time_of_people(&mut comparison);
    Ok(Chooser::new(comparison, lose_at_most).choose())
}

/// Whether a person's absence counts as the run's time.
fn is_attended(run: &RunReport) -> bool {
    format(run.format).is_some_and(Format::is_attended)
}

/// Takes out what rules on time did to runs whose time is a person's, too.
fn forget_time_of_people(comparison: &mut Comparison) {
    let mut offset = 0;
    for family in FAMILIES {
        let values = offset..offset + family.values.len();
        offset = values.end;
        if !family.is_time {
            continue;
        }
        for (run, cuts) in comparison.runs.iter().zip(&mut comparison.cuts) {
            if is_attended(run) {
                cuts.get_mut(values.clone()).into_iter().flatten().for_each(|cut| *cut = None);
            }
        }
        let is_untrue = |id: &str| format(id).is_some_and(Format::is_attended);
        let untrue = comparison.testable.iter_mut().filter(|(id, _)| is_untrue(id));
        for (_, testable) in untrue {
            testable.get_mut(values.clone()).into_iter().flatten().for_each(|one| *one = false);
        }
    }
}

/// A selection of runs, by index.
type Select<'s> = &'s dyn Fn(usize) -> bool;

/// The facts about a family that is left out.
#[derive(Clone, Debug)]
struct LeftOut {
    proposed: Proposed,
    value: Option<usize>,
    held_out: Effect,
}

struct Chooser {
    comparison: Comparison,
    lose_at_most: f64,
    knows_outcomes: bool,
    /// How many values looser each family goes; `None` if it is left out.
    headroom: Vec<Option<usize>>,
    /// Families that would keep to what may be lost, and are left out for another reason.
    left_out: Vec<Option<LeftOut>>,
    /// The part that each run was dealt into.
    fold: Vec<usize>,
    /// The first policy of each family.
    offsets: Vec<usize>,
}

impl Chooser {
    fn new(comparison: Comparison, lose_at_most: f64) -> Self {
        let knows_outcomes = comparison.runs.iter().any(|run| run.outcome.is_some());
        let fold = deal(&comparison.runs);
        let lengths = FAMILIES.iter().map(|family| family.values.len());
        let starts = |sum: &mut usize, length: usize| {
            let start = *sum;
            *sum += length;
            Some(start)
        };
        let offsets = lengths.scan(0, starts).collect();
        Self {
            comparison,
            lose_at_most,
            knows_outcomes,
            headroom: vec![Some(0); FAMILIES.len()],
            left_out: vec![None; FAMILIES.len()],
            fold,
            offsets,
        }
    }

    /// With the least headroom that keeps to what may be lost.
    fn choose(mut self) -> Suggestion {
        for (index, family) in FAMILIES.iter().enumerate() {
            let mut tried = (0..=MAX_HEADROOM).map(Some);
            let kept = tried.find(|headroom| {
                self.set_headroom(index, *headroom);
                self.is_allowed(&self.held_out(index))
            });
            let otherwise = family.is_limit.then_some(MAX_HEADROOM);
            self.set_headroom(index, kept.unwrap_or(otherwise));
        }
        while !self.is_allowed(&self.held_out_together()) {
            let before = self.headroom.clone();
            for headroom in self.headroom.iter_mut().flatten() {
                *headroom = (*headroom + 1).min(MAX_HEADROOM);
            }
            if self.headroom == before {
                break;
            }
        }
        while self.leave_out() {}
        self.suggestion()
    }

    /// Leaves out a family that stops nothing, or only what should not be. False if there is none.
    fn leave_out(&mut self) -> bool {
        let everywhere = |_: usize| true;
        for (index, value) in self.together(&everywhere).into_iter().enumerate() {
            let effect = self.effect(&self.indices(&[(index, value)]), &everywhere);
            let proposed = match self.left_out.get(index) {
                Some(None) if value.is_some() => self.proposed(index, value, &effect),
                _ => continue,
            };
            if !matches!(proposed, Proposed::Yes | Proposed::LosesTooMuch) {
                let held_out = self.held_out(index);
                self.set_headroom(index, None);
                if let Some(place) = self.left_out.get_mut(index) {
                    *place = Some(LeftOut { proposed, value, held_out });
                }
                return true;
            }
        }
        false
    }

    fn set_headroom(&mut self, family: usize, headroom: Option<usize>) {
        if let Some(place) = self.headroom.get_mut(family) {
            *place = headroom;
        }
    }

    /// The effect of a family on runs that did not choose its value; for one that is left out, its effect with the
    /// most headroom.
    fn held_out(&self, family: usize) -> Effect {
        self.over_parts(|others| vec![(family, self.alone_in(family, others))])
    }

    /// Like `held_out`, for all families together.
    fn held_out_together(&self) -> Effect {
        self.over_parts(|others| self.together(others).into_iter().enumerate().collect())
    }

    /// Each part judged by what `choose` finds on the others.
    fn over_parts(&self, choose: impl Fn(Select<'_>) -> Vec<(usize, Option<usize>)>) -> Effect {
        let mut sum = Effect::default();
        for part in 0..self.folds() {
            let chosen = choose(&|run| self.fold.get(run) != Some(&part));
            let this = |run: usize| self.fold.get(run) == Some(&part);
            sum.merge(&self.effect(&self.indices(&chosen), &this));
        }
        sum
    }

    fn folds(&self) -> usize {
        self.fold.iter().max().map_or(0, |most| most + 1)
    }

    fn suggestion(self) -> Suggestion {
        let everywhere = |_: usize| true;
        let together = self.together(&everywhere);
        let rules = FAMILIES.iter().enumerate().map(|(index, family)| {
            let left_out = self.left_out.get(index).cloned().flatten();
            let value = together.get(index).copied().flatten();
            let shown = match &left_out {
                Some(left_out) => left_out.value,
                None => value.or_else(|| self.alone_in(index, &everywhere)),
            };
            let effect = self.effect(&self.indices(&[(index, shown)]), &everywhere);
            let (proposed, held_out) = match left_out {
                Some(left_out) => (left_out.proposed, left_out.held_out),
                None => (self.proposed(index, value, &effect), self.held_out(index)),
            };
            SuggestedRule {
                id: family.id,
                condition: shown.and_then(|value| family.condition(value)),
                purpose: family.purpose,
                not_told_by: self.not_told_by(index),
                proposed,
                effect,
                held_out,
            }
        });
        let rules: Vec<SuggestedRule> = rules.collect();
        let kept: Vec<_> = together.into_iter().enumerate().collect();
        Suggestion {
            knows_outcomes: self.knows_outcomes,
            lose_at_most: self.lose_at_most,
            folds: self.folds(),
            together: self.effect(&self.indices(&kept), &everywhere),
            together_held_out: self.held_out_together(),
            rules,
            usage: self.comparison.usage,
            warnings: self.comparison.warnings,
            runs: self.comparison.runs,
        }
    }

    /// Formats of these runs on which the family cannot be tested.
    fn not_told_by(&self, index: usize) -> Vec<&'static str> {
        let Some(&first) = self.offsets.get(index) else {
            unreachable!("each family has its first policy")
        };
        let testable = self.comparison.testable.iter();
        let untold = testable.filter(|(_, testable)| testable.get(first) != Some(&true));
        untold.map(|(format, _)| *format).collect()
    }

    fn proposed(&self, index: usize, value: Option<usize>, effect: &Effect) -> Proposed {
        // Where no value would do, its loosest tells whether any could be tested.
        let last = FAMILIES.get(index).and_then(|family| family.values.len().checked_sub(1));
        let loosest = self.effect(&self.indices(&[(index, last)]), &|_| true);
        // Live, the limit would not count a person's absence: what a replay of it says would be of another rule.
        let is_time = FAMILIES.get(index).is_some_and(|family| family.is_time);
        let is_persons = is_time && self.comparison.runs.iter().any(is_attended);
        if loosest.not_testable == loosest.runs || is_persons {
            Proposed::NotTestable
        } else if value.is_none() {
            match self.is_allowed(&self.held_out(index)) {
                true => Proposed::LosesTooMuchTogether,
                false => Proposed::LosesTooMuch,
            }
        } else if effect.stopped == 0 {
            Proposed::StopsNothing
        } else if only_harms(effect) {
            Proposed::OnlyHarms
        } else {
            Proposed::Yes
        }
    }

    /// The family's tightest value that loses no more than allowed on these runs, and then looser.
    fn alone_in(&self, family: usize, select: Select<'_>) -> Option<usize> {
        let last = FAMILIES.get(family)?.values.len().checked_sub(1)?;
        let headroom = self.headroom.get(family).copied().flatten().unwrap_or(MAX_HEADROOM);
        let fits = |value: &usize| {
            self.is_allowed(&self.effect(&self.indices(&[(family, Some(*value))]), select))
        };
        let first = (0..=last).find(fits)?;
        Some(first.saturating_add(headroom).min(last))
    }

    /// Every family that is not left out, made looser until all together lose no more than allowed on
    /// these runs.
    fn together(&self, select: Select<'_>) -> Vec<Option<usize>> {
        let mut chosen: Vec<(usize, Option<usize>)> = Vec::new();
        for (index, family) in FAMILIES.iter().enumerate() {
            let is_in = self.headroom.get(index).copied().flatten().is_some();
            let from = if is_in { self.alone_in(index, select) } else { None };
            let fits = |value: &usize| {
                let all: Vec<_> = chosen.iter().copied().chain([(index, Some(*value))]).collect();
                self.is_allowed(&self.effect(&self.indices(&all), select))
            };
            let value = from.and_then(|from| (from..family.values.len()).find(fits));
            chosen.push((index, value));
        }
        chosen.into_iter().map(|(_, value)| value).collect()
    }

    /// The policies of these families at these values.
    fn indices(&self, values: &[(usize, Option<usize>)]) -> Vec<usize> {
        let index =
            |(family, value): &(usize, Option<usize>)| Some(self.offsets.get(*family)? + (*value)?);
        values.iter().filter_map(index).collect()
    }

    fn effect(&self, indices: &[usize], select: Select<'_>) -> Effect {
        self.comparison.effect_of(indices, |run, _| select(run))
    }

    fn is_allowed(&self, effect: &Effect) -> bool {
        // A run whose outcome is not known may have been a success.
        let (lost, of) = (
            effect.succeeded_stopped.saturating_add(effect.unknown_stopped),
            effect.succeeded.saturating_add(effect.unknown),
        );
        lost <= self.allowed(of)
    }

    /// How many of these successes may be lost, rounded down.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number of runs, which is far below 2^52"
    )]
    fn allowed(&self, successes: u64) -> u64 {
        (successes as f64 * self.lose_at_most + 1e-9) as u64
    }
}

/// Whether it stops successes and no failure, or stops runs and saves nothing.
const fn only_harms(effect: &Effect) -> bool {
    let loses =
        effect.succeeded_stopped > 0 && effect.failed_stopped == 0 && effect.unknown_stopped == 0;
    loses || (effect.saved.picos() == 0 && effect.tokens_saved == 0 && effect.steps_saved == 0)
}

/// Deals the runs into [`FOLDS`] parts, fewer if there are fewer runs: successes, failures and the
/// rest each evenly, in an order that depends on their names alone.
fn deal(runs: &[RunReport]) -> Vec<usize> {
    let folds = FOLDS.min(runs.len());
    let mut order: Vec<usize> = (0..runs.len()).collect();
    let key = |run: &RunReport| {
        (run.outcome, xxhash_rust::xxh3::xxh3_64(run.id.as_bytes()), run.id.clone())
    };
    order.sort_by_cached_key(|&index| runs.get(index).map(key));
    let mut dealt = vec![0; runs.len()];
    for (rank, index) in order.into_iter().enumerate() {
        if let Some(fold) = dealt.get_mut(index) {
            *fold = rank % folds.max(1);
        }
    }
    dealt
}

#[cfg(test)]
mod tests;
