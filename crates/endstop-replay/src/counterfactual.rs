//! One policy beside one recorded run: where it would have cut it.

use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_core::units::Money;
use endstop_core::{Action, Directive, Event, Run, TripRecord};

use super::needs::Testable;

/// Where a policy would have cut a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopPoint {
    /// The last step that ran or began to.
    pub step: u64,
    /// Tokens spent until then.
    pub tokens: u64,
    /// Dollars spent until then, as far as they are known.
    pub spent: Money,
}

/// A policy that follows a run.
pub(super) struct Counterfactual {
    testable: Arc<Testable>,
    run: Run,
    /// A stop that has ended nothing yet. A run that the policy would have stopped after its last event does not count
    /// as stopped, because nothing that was recorded would have been prevented.
    tripped: Option<StopPoint>,
    is_cut: bool,
    /// Calls that did not begin: a refusal takes the place of their results.
    refused_calls: Vec<String>,
    pub(super) paused: Vec<String>,
    pub(super) warned: Vec<String>,
}

impl Counterfactual {
    /// Follows a run that is about to begin.
    pub(super) fn new(testable: &Arc<Testable>) -> Self {
        Self {
            testable: Arc::clone(testable),
            run: Run::new(Arc::clone(&testable.program)),
            tripped: None,
            is_cut: false,
            refused_calls: Vec::new(),
            paused: Vec::new(),
            warned: Vec::new(),
        }
    }

    /// Rules that the run's format cannot show.
    pub(super) fn left_out(&self) -> &[String] {
        &self.testable.left_out
    }

    /// Where the run was cut, once it is over.
    pub(super) fn cut(&self) -> Option<StopPoint> {
        self.tripped.filter(|_| self.is_cut)
    }

    /// The record at the stop, or at the end where there was none: after a stop, the run sees no more.
    pub(super) fn into_trip_record(self) -> TripRecord {
        self.run.into_trip_record()
    }

    /// Whether the policy has stopped the run.
    pub(super) const fn has_stopped(&self) -> bool {
        self.tripped.is_some()
    }

    /// Takes the next event. `known` is what the run has spent so far, as far as prices are known.
    pub(super) fn take(&mut self, event: &Event<'_>, known: Money) {
        if self.tripped.is_some() {
            // The first thing that would have begun after the stop is what the stop cuts.
            self.is_cut |= event.kind.is_intention();
            return;
        }
        if matches!(event.kind, EventKind::RunEnd { .. }) && self.ended_by_itself() {
            // Nothing else would begin: limits that the last step reached do not stand again.
            return;
        }
        if matches!(event.kind, EventKind::ToolCost { tool, .. } if self.has_refused(tool)) {
            // A call that did not begin costs nothing.
            return;
        }
        let refusal = self.refusal_for(event);
        let event = refusal.as_ref().unwrap_or(event);
        match self.run.observe(event) {
            Directive::Stop | Directive::Abort if !self.ended_by_itself() => {
                self.tripped = Some(StopPoint {
                    step: self.run.step_count(),
                    tokens: self.run.tokens(),
                    spent: self.run.cost().unwrap_or(known),
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
        self.warned.extend(self.run.take_notices().into_iter().map(|notice| notice.rule));
    }

    /// Takes what did not begin when it was recorded: it counts where this policy, too, does not let it begin.
    pub(super) fn take_refused(&mut self, event: &Event<'_>, known: Money) {
        if self.tripped.is_some() || !self.run.would(event).admits() {
            self.take(event, known);
        }
    }

    /// Natural ends, of a turn or of the run, are not stops of the policy.
    fn ended_by_itself(&self) -> bool {
        self.run.ended_by_itself()
    }

    /// A person would be asked here; replay says yes, counts it, and goes on.
    fn approve(&mut self, event: &Event<'_>) {
        let rules = self.testable.program.policy().rules.iter();
        let trip_record = self.run.trip_record();
        for rule in rules.filter(|rule| rule.action == Action::Pause) {
            let holds = trip_record.rules.iter().any(|record| record.id == rule.id && record.trips);
            if holds && !self.paused.contains(&rule.id) {
                self.paused.push(rule.id.clone());
                let kind = EventKind::Approved { rule: &rule.id, limit: None };
                self.run.observe(&Event { kind, ..event.clone() });
            }
        }
        if event.kind.is_intention() {
            self.run.observe(event);
        }
    }

    fn has_refused(&self, tool: &str) -> bool {
        self.refused_calls.iter().any(|refused| refused == tool)
    }

    /// The answer that the model would have read instead of the result of a call that did not begin.
    fn refusal_for<'e>(&mut self, event: &Event<'e>) -> Option<Event<'e>> {
        let (EventKind::ToolEnd { tool, .. } | EventKind::ToolRefused { tool }) = event.kind else {
            return None;
        };
        let found = self.refused_calls.iter().position(|refused| refused == tool)?;
        self.refused_calls.swap_remove(found);
        Some(Event { kind: EventKind::ToolRefused { tool }, ..event.clone() })
    }
}
