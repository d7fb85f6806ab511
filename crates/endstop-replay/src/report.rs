//! The findings of a replay, for machines; the command line makes them readable.

use std::collections::{BTreeMap, BTreeSet};

use endstop_core::units::Money;
use endstop_core::{Policy, TripRecord};
use serde::Serialize;

use super::counterfactual::StopPoint;
use super::limits::MAX_NAMES;
use super::money::{dollars, dollars_or_none, sum};
use super::usage::{UNNAMED, Usage};
use endstop_transcript::{CostIs, Warning};

/// Version of the report's JSON.
const VERSION: u32 = 1;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// Its id: the session, the instance, or the file's name.
    pub id: String,
    /// The file it was read from: runs of different files may have the same id.
    pub file: String,
    /// The format it was read from.
    pub format: &'static str,
    /// The model it used most.
    pub model: Option<String>,
    /// Steps, descendants included.
    pub steps: u64,
    /// Tokens, descendants included.
    pub tokens: u64,
    /// Dollars as a decimal; none where unknown.
    #[serde(rename = "cost_usd", serialize_with = "dollars_or_none")]
    pub cost: Option<Money>,
    /// The kind of the amount.
    #[serde(serialize_with = "cost_is")]
    pub cost_is: CostIs,
    /// Calls that the price table has no price for and that have no billed amount.
    pub unpriced_calls: u64,
    /// Whether it succeeded, if known.
    pub outcome: Option<bool>,
    /// The step at which the policy would have stopped it; `None` if it would not.
    pub stopped_at_step: Option<u64>,
    /// The rule that would have.
    pub rule: Option<String>,
    /// The reason.
    pub reason: Option<&'static str>,
    /// The observation of the rule.
    pub evidence: Option<String>,
    /// Dollars that the stop would have saved.
    #[serde(rename = "saved_usd", serialize_with = "dollars_or_none")]
    pub saved: Option<Money>,
    /// Tokens that it would have saved.
    pub tokens_saved: Option<u64>,
    /// Rules that the format cannot show.
    pub not_testable: Vec<String>,
    /// Pause rules at which a person would have been asked.
    pub paused: Vec<String>,
    /// Warn rules that would have warned.
    pub warned: Vec<String>,
    #[serde(skip)]
    pub(crate) known_cost: Money,
    /// The models of the calls without a price.
    #[serde(skip)]
    pub(crate) unpriced_models: BTreeSet<String>,
}

impl RunReport {
    pub(super) fn new(id: &str, format: &'static str, file: &str) -> Self {
        Self {
            id: id.to_owned(),
            file: file.to_owned(),
            format,
            model: None,
            steps: 0,
            tokens: 0,
            cost: None,
            cost_is: CostIs::Unknown,
            unpriced_calls: 0,
            outcome: None,
            stopped_at_step: None,
            rule: None,
            reason: None,
            evidence: None,
            saved: None,
            tokens_saved: None,
            not_testable: Vec::new(),
            paused: Vec::new(),
            warned: Vec::new(),
            known_cost: Money::ZERO,
            unpriced_models: BTreeSet::new(),
        }
    }

    /// A call was made that has no price.
    pub(super) fn unpriced(&mut self, model: Option<&str>) {
        self.unpriced_calls = self.unpriced_calls.saturating_add(1);
        let model = model.unwrap_or(UNNAMED);
        if !self.unpriced_models.contains(model) && self.unpriced_models.len() < MAX_NAMES {
            self.unpriced_models.insert(model.to_owned());
        }
    }

    /// Its dollars, if each of its calls has a price and its transcript records all usage. A run of which some calls cost
    /// an unknown amount says nothing about money: what is known of it would look cheap.
    pub(super) fn priced_cost(&self) -> Option<Money> {
        self.cost.filter(|_| self.unpriced_calls == 0)
    }

    pub(super) fn stop(&mut self, trip_record: &TripRecord, cut: &StopPoint) {
        self.stopped_at_step = Some(cut.step);
        self.rule.clone_from(&trip_record.rule);
        self.reason = trip_record.primary.as_ref().map(|signal| signal.reason.value());
        self.evidence = trip_record.primary.as_ref().map(|signal| signal.message.clone());
        self.tokens_saved = Some(self.tokens.saturating_sub(cut.tokens));
        self.saved = Some(self.known_cost.saturating_sub(cut.spent));
    }
}

/// Runs with calls that have no price.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unpriced {
    /// Runs with such calls.
    pub runs: u64,
    /// The calls.
    pub calls: u64,
    /// Their models, in order of their names.
    pub models: BTreeSet<String>,
}

impl Unpriced {
    /// Counts the outcomes of these runs.
    #[must_use]
    pub fn of(runs: &[RunReport]) -> Self {
        let mut unpriced = Self::default();
        runs.iter().for_each(|run| unpriced.add(run));
        unpriced
    }

    fn add(&mut self, run: &RunReport) {
        self.runs += u64::from(run.unpriced_calls > 0);
        self.calls = self.calls.saturating_add(run.unpriced_calls);
        let room = MAX_NAMES.saturating_sub(self.models.len());
        self.models.extend(run.unpriced_models.iter().take(room).cloned());
    }
}

/// The outcomes of runs, and what the policy would have done to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Runs that succeeded.
    pub succeeded: u64,
    /// The number of these that would have been stopped: successes lost.
    pub succeeded_stopped: u64,
    /// Runs that failed.
    pub failed: u64,
    /// The number of these that would have been stopped.
    pub failed_stopped: u64,
    /// Runs of which it is not known.
    pub unknown: u64,
}

/// The effect of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RuleReport {
    /// Runs that it would have stopped.
    pub stopped: u64,
    /// Dollars that it would have saved.
    #[serde(rename = "saved_usd", serialize_with = "dollars")]
    pub saved: Money,
    /// Successes that it would have cost.
    pub succeeded_stopped: u64,
    /// Failures that it would have cut.
    pub failed_stopped: u64,
    /// Runs whose format lacks the data it reads.
    pub not_testable: u64,
    /// Runs in which it would have asked a person.
    pub paused: u64,
    /// Runs in which it would have warned.
    pub warned: u64,
    /// The steps at which it would have stopped runs, in order of the runs.
    #[serde(skip)]
    pub at_steps: Vec<u64>,
}

/// The findings of a replay.
///
/// See the example of [the crate](crate).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of this form: 1.
    pub version: u32,
    /// Runs read.
    pub runs: u64,
    /// Their steps.
    pub steps: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Their cost in dollars, in calls with a known price.
    #[serde(rename = "cost_usd", serialize_with = "dollars")]
    pub cost: Money,
    /// Runs that the policy would have stopped.
    pub stopped: u64,
    /// Dollars that it would have saved.
    #[serde(rename = "saved_usd", serialize_with = "dollars")]
    pub saved: Money,
    /// Runs with calls that have no price.
    pub unpriced: Unpriced,
    /// The outcomes of the runs.
    pub outcomes: Outcomes,
    /// The usage of the runs, by model, tool and kind of run.
    pub usage: Usage,
    /// Each rule by id.
    pub rules: BTreeMap<String, RuleReport>,
    /// The warnings of the readers.
    #[serde(serialize_with = "warnings")]
    pub warnings: Vec<Warning>,
    /// Each run.
    pub per_run: Vec<RunReport>,
}

impl Report {
    pub(super) fn new(policy: &Policy) -> Self {
        let rules = policy.rules.iter().map(|rule| (rule.id.clone(), RuleReport::default()));
        Self {
            version: VERSION,
            runs: 0,
            steps: 0,
            tokens: 0,
            cost: Money::ZERO,
            stopped: 0,
            saved: Money::ZERO,
            unpriced: Unpriced::default(),
            outcomes: Outcomes::default(),
            usage: Usage::default(),
            rules: rules.collect(),
            warnings: Vec::new(),
            per_run: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, run: RunReport) {
        let stopped = run.stopped_at_step.is_some();
        let saved = run.saved.unwrap_or_default();
        self.runs += 1;
        self.steps = self.steps.saturating_add(run.steps);
        self.tokens = self.tokens.saturating_add(run.tokens);
        self.cost = sum(self.cost, run.known_cost);
        self.stopped += u64::from(stopped);
        self.saved = sum(self.saved, saved);
        self.unpriced.add(&run);
        let outcomes = &mut self.outcomes;
        match run.outcome {
            Some(true) => {
                outcomes.succeeded += 1;
                outcomes.succeeded_stopped += u64::from(stopped);
            }
            Some(false) => {
                outcomes.failed += 1;
                outcomes.failed_stopped += u64::from(stopped);
            }
            None => outcomes.unknown += 1,
        }
        if let Some(rule) = run.rule.as_ref().and_then(|rule| self.rules.get_mut(rule)) {
            rule.stopped += 1;
            rule.saved = sum(rule.saved, saved);
            rule.succeeded_stopped += u64::from(run.outcome == Some(true));
            rule.failed_stopped += u64::from(run.outcome == Some(false));
            rule.at_steps.extend(run.stopped_at_step);
        }
        let mut count = |ids: &[String], add: fn(&mut RuleReport)| {
            for rule in ids {
                self.rules.get_mut(rule).into_iter().for_each(add);
            }
        };
        count(&run.not_testable, |rule| rule.not_testable += 1);
        count(&run.paused, |rule| rule.paused += 1);
        count(&run.warned, |rule| rule.warned += 1);
        self.per_run.push(run);
    }

    /// Returns the report as JSON; docs/replay-json.md describes it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self)
            .unwrap_or_else(|error| unreachable!("a report has a form as JSON: {error}"))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn cost_is<S: serde::Serializer>(what: &CostIs, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(what.value())
}

fn warnings<S: serde::Serializer>(all: &[Warning], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(warning_json))
}

/// Returns a reader's warning as the JSON of replays has it.
#[must_use]
pub fn warning_json(warning: &Warning) -> serde_json::Value {
    serde_json::json!({
        "kind": warning.kind.value(),
        "file": warning.file,
        "line": warning.line,
        "count": warning.count,
        "message": warning.message,
    })
}
