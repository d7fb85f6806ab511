//! One policy and one recorded run: the point where the policy would have stopped it.

use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_core::run::UnstoppedRun;
use endstop_core::signal::LIMIT_SOURCE;
use endstop_core::units::Money;
use endstop_core::{Event, TripRecord};

use super::needs::Testable;

/// The place at which a policy would have cut a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopPoint {
    /// The last step that ran or began to.
    pub step: u64,
    /// Tokens spent until then.
    pub tokens: u64,
    /// Dollars spent until then, in calls with a known price.
    pub spent: Money,
}

/// A policy that follows a run.
pub(super) struct Counterfactual {
    testable: Arc<Testable>,
    unstopped: UnstoppedRun,
    /// A stop that has ended nothing yet. A run that the policy would have stopped after its last event does not count
    /// as stopped, because nothing that was recorded would have been prevented.
    tripped: Option<StopPoint>,
    is_cut: bool,
    pub(super) warned: Vec<String>,
}

/// Whether the driver stopped the run because a limit cut a response off.
fn is_of_limit(event: &Event<'_>) -> bool {
    matches!(&event.kind, EventKind::StopRaised { signal } if signal.source.as_deref() == Some(LIMIT_SOURCE))
}

impl Counterfactual {
    /// Follows a run that is about to begin.
    pub(super) fn new(testable: &Arc<Testable>) -> Self {
        Self {
            testable: Arc::clone(testable),
            unstopped: UnstoppedRun::new(Arc::clone(&testable.program)),
            tripped: None,
            is_cut: false,
            warned: Vec::new(),
        }
    }

    /// Rules that the run's format cannot show.
    pub(super) fn left_out(&self) -> &[String] {
        &self.testable.left_out
    }

    /// The stop point of the run, once it is over.
    pub(super) fn cut(&self) -> Option<StopPoint> {
        self.tripped.filter(|_| self.is_cut)
    }

    /// The record at the stop, or at the end without one: after a stop, the run sees no more.
    pub(super) fn into_trip_record(self) -> TripRecord {
        self.unstopped.into_trip_record()
    }

    /// Rules that would have paused the run.
    pub(super) fn paused_by(&self) -> &[String] {
        self.unstopped.paused_by()
    }

    /// Whether the policy has stopped the run.
    pub(super) const fn has_stopped(&self) -> bool {
        self.tripped.is_some()
    }

    /// Takes the next event. `known` is the run's spend so far, in calls with a known price.
    pub(super) fn take(&mut self, event: &Event<'_>, known: Money) {
        if self.tripped.is_some() {
            if !self.is_cut && is_of_limit(event) {
                // The step that the stop ends was still open: a live run records that a limit cut its response off.
                self.unstopped.take(event);
            }
            // The first thing that would have begun after the stop is what the stop cuts.
            self.is_cut |= event.kind.is_intention();
            return;
        }
        if matches!(event.kind, EventKind::RunEnd { .. }) && self.ended_by_itself() {
            // Nothing else would begin: limits that the last step reached do not stand again.
            return;
        }
        if self.unstopped.take(event) {
            let run = self.unstopped.run();
            self.tripped = Some(StopPoint {
                step: run.step_count(),
                tokens: run.tokens(),
                spent: run.cost().unwrap_or(known),
            });
            self.is_cut = event.kind.is_intention();
        }
        self.warned.extend(self.unstopped.take_notices().into_iter().map(|notice| notice.rule));
    }

    /// Takes an act that was refused when it was recorded: it counts if this policy refuses it too.
    pub(super) fn take_refused(&mut self, event: &Event<'_>, known: Money) {
        if self.tripped.is_some() || !self.unstopped.would_admit(event).admits() {
            self.take(event, known);
        }
    }

    /// Natural ends, of a turn or of the run, are not stops of the policy.
    fn ended_by_itself(&self) -> bool {
        self.unstopped.run().ended_by_itself()
    }
}
