//! One input through the core: counts everything, and notes where the policy would have cut each run.

use std::collections::BTreeMap;
use std::sync::Arc;

use endstop_core::event::{EventKind, Source};
use endstop_core::units::{Cost, Money};
use endstop_core::{Directive, Event, Run, Verdict};

use super::needs::{Programs, Testable};
use super::report::RunReport;
use crate::import::{CostIs, Format, RunFooter, RunHeader, RunSink, Warning};

/// The end of a run whose reader stopped in its middle.
const UNFINISHED: RunFooter<'_> =
    RunFooter { outcome: None, cost_is: CostIs::Unknown, model: None };

/// Called with each run's report and the record of its stop, or of its end.
type Keep<'a> = &'a (dyn Fn(&RunReport, Verdict) + Sync);

pub(super) struct Recorder<'a> {
    testable: Arc<Testable>,
    outcomes: &'a BTreeMap<String, bool>,
    keep: Option<Keep<'a>>,
    current: Option<Replaying>,
    runs: Vec<RunReport>,
    warnings: Vec<Warning>,
}

/// A run in the middle of its replay.
struct Replaying {
    report: RunReport,
    testable: Arc<Testable>,
    run: Run,
    /// What the whole run spent, as far as prices are known.
    total: Money,
    /// A stop that has not cut anything yet: the run may have been over anyway.
    tripped: Option<Tripped>,
    is_cut: bool,
    /// Results of calls that did not begin are not taken in.
    refused_calls: Vec<String>,
}

struct Tripped {
    step: u64,
    spent: Money,
    verdict: Verdict,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        programs: &Programs,
        format: &dyn Format,
        outcomes: &'a BTreeMap<String, bool>,
    ) -> Self {
        let testable = programs.testable(format);
        Self {
            testable,
            outcomes,
            keep: None,
            current: None,
            runs: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn keeping(mut self, keep: Keep<'a>) -> Self {
        self.keep = Some(keep);
        self
    }

    pub(super) fn finish(mut self) -> (Vec<RunReport>, Vec<Warning>) {
        // A reader that stopped in the middle of a run has told why; what it read still counts.
        self.end_run(&UNFINISHED);
        (self.runs, self.warnings)
    }

    fn end_run(&mut self, footer: &RunFooter<'_>) {
        let Some(mut replaying) = self.current.take() else { return };
        let verdict = match replaying.tripped.take() {
            Some(tripped) if replaying.is_cut => {
                replaying.report.stop(
                    &tripped.verdict,
                    tripped.step,
                    replaying.total.saturating_sub(tripped.spent),
                );
                tripped.verdict
            }
            _ => replaying.run.verdict(),
        };
        let mut report = replaying.report;
        if let Some(model) = footer.model {
            report.model = Some(model.to_owned());
        }
        report.cost_is = footer.cost_is;
        report.cost = (report.cost_is != CostIs::Unknown).then_some(replaying.total);
        report.known_cost = replaying.total;
        report.outcome = self.outcomes.get(&report.id).copied().or(footer.outcome);
        if let Some(keep) = self.keep {
            keep(&report, verdict);
        }
        self.runs.push(report);
    }
}

impl RunSink for Recorder<'_> {
    fn begin(&mut self, header: &RunHeader<'_>) {
        self.end_run(&UNFINISHED);
        let testable = Arc::clone(&self.testable);
        let mut report = RunReport::new(header.id, header.format);
        report.model = header.model.map(str::to_owned);
        report.not_testable.clone_from(&testable.left_out);
        self.current = Some(Replaying {
            report,
            run: Run::new(Arc::clone(&testable.program)),
            testable,
            total: Money::ZERO,
            tripped: None,
            is_cut: false,
            refused_calls: Vec::new(),
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(replaying) = &mut self.current {
            replaying.take(event);
        }
    }

    fn end(&mut self, footer: &RunFooter<'_>) {
        self.end_run(footer);
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}

impl Replaying {
    fn take(&mut self, event: &Event<'_>) {
        self.count(event);
        if self.tripped.is_some() {
            // The first thing that would have begun after the stop is what the stop cuts.
            self.is_cut |= event.kind.is_intention();
            return;
        }
        if self.is_refused_result(event) {
            return;
        }
        let directive = self.run.observe(event);
        match directive {
            Directive::Stop | Directive::CancelNow if !self.ended_by_itself() => {
                let spent = self.run.cost().unwrap_or(self.total);
                self.tripped = Some(Tripped {
                    step: self.run.step_count(),
                    spent,
                    verdict: self.run.verdict(),
                });
                self.is_cut = event.kind.is_intention();
            }
            Directive::Pause => self.approve(event),
            Directive::Refuse => {
                if let EventKind::ToolBegin { tool } = event.kind {
                    self.refused_calls.push(tool.to_owned());
                }
            }
            _ => {}
        }
        for notice in self.run.take_notices() {
            self.report.warned.push(notice.rule);
        }
    }

    /// Natural ends, of a turn or of the run, are not stops of the policy.
    fn ended_by_itself(&self) -> bool {
        self.run.stop_reason() == Some(endstop_core::signal::StopReason::Completed)
    }

    /// A person would be asked here; replay says yes, counts it, and goes on.
    fn approve(&mut self, event: &Event<'_>) {
        let rules = self.testable.program.policy().rules.iter();
        let verdict = self.run.verdict();
        for rule in rules.filter(|rule| rule.action == endstop_core::Action::Pause) {
            let holds = verdict.rules.iter().any(|record| record.id == rule.id && record.holds);
            if holds && !self.report.paused.contains(&rule.id) {
                self.report.paused.push(rule.id.clone());
                let kind = EventKind::Approved { rule: &rule.id, cap: None };
                self.run.observe(&Event { kind, ..event.clone() });
            }
        }
        if event.kind.is_intention() {
            self.run.observe(event);
        }
    }

    fn is_refused_result(&mut self, event: &Event<'_>) -> bool {
        let EventKind::ToolEnd { tool, .. } = event.kind else { return false };
        let found = self.refused_calls.iter().position(|refused| refused == tool);
        found.map(|index| self.refused_calls.swap_remove(index)).is_some()
    }

    /// What the whole recorded run did, stops or not.
    fn count(&mut self, event: &Event<'_>) {
        let (usage, cost) = match &event.kind {
            EventKind::StepBegin => {
                self.report.steps += 1;
                self.report.own_steps += u64::from(event.source == Source::Own);
                return;
            }
            EventKind::Reply { usage, cost, .. } | EventKind::AttemptFailed { usage, cost } => {
                (usage, cost)
            }
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
