//! One input through the core: counts everything, and notes where each policy would have cut each run.

use std::collections::BTreeMap;
use std::sync::Arc;

use endstop_core::event::{EventKind, Source};
use endstop_core::units::{Cost, Money};
use endstop_core::{Event, TripRecord};

use super::counterfactual::{Counterfactual, StopPoint};
use super::policy_set::{Counterfactuals, Plan};
use super::report::RunReport;
use super::usage::{KindUsage, Usage};
use endstop_transcript::{
    CostIs, RunFooter, RunHeader, RunSink, Transcript, Wants, Warning, WarningKind,
};

/// The end of a run whose reader stopped in its middle.
const UNFINISHED: RunFooter<'_> =
    RunFooter { outcome: None, cost_is: CostIs::Unknown, model: None };

/// The part of each policy's decision on a run that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The trip record of every run, stopped or not.
    TripRecords,
    /// The rule and its evidence if a run is stopped.
    Evidence,
    /// Only where.
    Cuts,
}

/// A run that was replayed.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The run, with the only policy's decision unless only cuts are kept.
    pub(super) report: RunReport,
    /// Each policy's.
    pub(super) cuts: Vec<Option<StopPoint>>,
    /// The only policy's, with [`Detail::TripRecords`].
    pub(super) trip_record: Option<TripRecord>,
    /// The act that the run's own limits refused, if nothing began after it.
    pub(super) refused: Option<String>,
}

/// The contents of one input.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) runs: Vec<Recorded>,
    pub(super) usage: Usage,
    pub(super) warnings: Vec<Warning>,
    /// Whether policies that were watched together did what each would have done alone, in every run.
    pub(super) is_exact: bool,
}

impl Record {
    /// The record of this whole transcript: if it held no run and has no warning, it gets one.
    pub(super) fn of(mut self, transcript: &Transcript) -> Self {
        let file = transcript.main.name();
        let is_told =
            |warning: &Warning| warning.kind == WarningKind::Unreadable && warning.file == file;
        if self.runs.is_empty() && !self.warnings.iter().any(is_told) {
            self.warnings.push(Warning::no_runs(file));
        }
        self
    }
}

pub(super) struct Recorder<'a> {
    plan: Arc<Plan>,
    outcomes: &'a BTreeMap<String, bool>,
    detail: Detail,
    /// Whether recorded reservations count.
    as_live: bool,
    current: Option<Replaying>,
    record: Record,
}

/// A run in the middle of its replay.
struct Replaying {
    report: RunReport,
    following: Counterfactuals,
    /// Whether every policy has stopped it: from here on, only counts matter.
    has_stopped: bool,
    agent: Option<String>,
    /// The act that was refused when it was recorded, if nothing has begun since.
    refused: Option<String>,
    /// The spend of the whole run, in calls with a known price.
    total: Money,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        plan: Arc<Plan>,
        outcomes: &'a BTreeMap<String, bool>,
        detail: Detail,
    ) -> Self {
        let record = Record { is_exact: true, ..Record::default() };
        Self { plan, outcomes, detail, as_live: false, current: None, record }
    }

    /// Lets recorded reservations count, or not.
    pub(super) fn with_reservations(self, as_live: bool) -> Self {
        Self { as_live, ..self }
    }

    pub(super) fn finish(mut self) -> Record {
        // A reader that stopped in the middle of a run has reported why; the part it read still counts.
        self.end_run(&UNFINISHED);
        self.record
    }

    fn end_run(&mut self, footer: &RunFooter<'_>) {
        let Some(replaying) = self.current.take() else { return };
        let Replaying { mut report, following, agent, refused, total, .. } = replaying;
        if let Some(model) = footer.model
            && report.model.as_deref() != Some(model)
        {
            report.model = Some(model.to_owned());
        }
        report.cost_is = footer.cost_is;
        report.cost = (report.cost_is != CostIs::Unknown).then_some(total);
        report.known_cost = total;
        report.outcome = self.outcomes.get(&report.id).copied().or(footer.outcome);
        let (steps, tokens, cost) = (report.steps, report.tokens, report.known_cost);
        let used = KindUsage { runs: 1, steps, tokens, cost };
        self.record.usage.end_run(agent.as_deref().unwrap_or(report.format), &used);
        self.record.is_exact &= following.is_exact();
        let cuts = following.cuts();
        let only = following.into_only().filter(|_| self.detail != Detail::Cuts);
        let trip_record = only.and_then(|counterfactual| self.decide(&mut report, counterfactual));
        self.record.runs.push(Recorded { report, cuts, trip_record, refused });
    }

    /// Writes the counterfactual's decision into the report.
    fn decide(
        &self,
        report: &mut RunReport,
        mut counterfactual: Counterfactual,
    ) -> Option<TripRecord> {
        report.not_testable = counterfactual.left_out().to_vec();
        report.paused = counterfactual.paused_by().to_vec();
        report.warned = std::mem::take(&mut counterfactual.warned);
        let cut = counterfactual.cut();
        if cut.is_none() && self.detail != Detail::TripRecords {
            return None;
        }
        let trip_record = counterfactual.into_trip_record();
        if let Some(cut) = cut {
            report.stop(&trip_record, &cut);
        }
        (self.detail == Detail::TripRecords).then_some(trip_record)
    }
}

impl RunSink for Recorder<'_> {
    fn begin(&mut self, header: &RunHeader<'_>) {
        self.end_run(&UNFINISHED);
        let mut report = RunReport::new(header.id, header.format, header.file);
        report.model = header.model.map(str::to_owned);
        self.current = Some(Replaying {
            report,
            following: Counterfactuals::new(&self.plan),
            has_stopped: false,
            agent: None,
            refused: None,
            total: Money::ZERO,
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        let Some(replaying) = &mut self.current else { return };
        self.record.usage.count(event);
        replaying.count(event);
        if event.kind.is_intention() {
            replaying.refused = None;
        }
        let is_reserve =
            matches!(event.kind, EventKind::Reserve { .. } | EventKind::ToolReserve { .. });
        if !self.as_live && is_reserve {
            // A worst case under the prices and caps of that run: what the policy would have admitted is not known.
            return;
        }
        let known = replaying.total;
        replaying.following.take(event, known);
        replaying.has_stopped = replaying.has_stopped || replaying.following.has_stopped();
    }

    fn refused(&mut self, event: &Event<'_>) {
        let Some(replaying) = &mut self.current else { return };
        if self.detail == Detail::TripRecords {
            replaying.refused = Some(event.kind.intention_text(replaying.report.steps));
        }
        let known = replaying.total;
        replaying.following.take_refused(event, known);
        replaying.has_stopped = replaying.has_stopped || replaying.following.has_stopped();
    }

    fn end(&mut self, footer: &RunFooter<'_>) {
        self.end_run(footer);
    }

    fn warn(&mut self, warning: Warning) {
        self.record.warnings.push(warning);
    }

    fn wants(&self) -> Wants {
        match &self.current {
            Some(replaying) if replaying.has_stopped => Wants { words: false, results: false },
            _ => self.plan.wants(),
        }
    }
}

impl Replaying {
    /// Counts the acts of the whole recorded run, with or without a stop.
    fn count(&mut self, event: &Event<'_>) {
        let (usage, cost) = match &event.kind {
            EventKind::RunBegin { agent: Some(agent), .. } if event.source == Source::Own => {
                self.agent.get_or_insert_with(|| (*agent).to_owned());
                return;
            }
            EventKind::StepBegin => {
                self.report.steps += 1;
                return;
            }
            EventKind::Reply { model, usage, cost, .. } => {
                if let Some(Cost::Unpriced) = cost {
                    self.report.unpriced(*model);
                }
                (usage, cost)
            }
            EventKind::ToolCost { cost, .. } => (&None, &Some(Cost::Known(*cost))),
            EventKind::AttemptFailed { usage, cost } => (usage, cost),
            _ => return,
        };
        if let Some(usage) = usage {
            self.report.tokens = self.report.tokens.saturating_add(usage.total());
        }
        if let Some(Cost::Known(money)) = cost {
            self.total = self.total.checked_add(*money).unwrap_or(self.total);
        }
    }
}
