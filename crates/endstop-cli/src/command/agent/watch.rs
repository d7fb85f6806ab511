//! Output about a run while it runs, with or without its events; and the amounts beyond its limits.

use std::sync::{Arc, Mutex, PoisonError};

use endstop::account::AccountRefused;
use endstop::core::Run;
use endstop::core::event::EventKind;
use endstop::core::run::Notice;
use endstop::ledger::{Amounts, Budget};
use endstop::observe::{Observation, Observer, RunInfo, Screen, clean};

/// Prints each warning of a warn rule, each pause from outside, and each wait for a budget.
#[derive(Debug)]
pub(super) struct Warnings(pub(super) Arc<Screen>);

impl Observer for Warnings {
    fn observe(&self, observation: &Observation<'_>) {
        if observation.info.parent.is_some() {
            return;
        }
        match observation.event.kind {
            EventKind::PauseRequested { .. } => {
                let pause = observation.run.pause_request().map(ToString::to_string);
                self.0.line(&clean(&pause.unwrap_or_default()));
            }
            EventKind::ResumeRequested { .. } => self.0.line("resumed"),
            _ => {}
        }
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, _: &Run) {
        // Observers of the ancestors get the same event.
        if info.parent.is_none() {
            let (rule, message) = (clean(&notice.rule), clean(&notice.message));
            self.0.line(&format!("warning: {rule}: {message}"));
        }
    }

    fn account_awaited(&self, _: &RunInfo, refused: Option<&AccountRefused>) {
        match refused {
            Some(refused) => self.0.line(&format!("waits for {}", clean(&refused.awaited()))),
            None => self.0.line("waits for no budget any longer"),
        }
    }
}

/// The amounts that the root run settled beyond its limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Overshoot(Arc<Mutex<Amounts>>);

impl Overshoot {
    pub(super) fn get(&self) -> Amounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Overshoot {
    fn observe(&self, _: &Observation<'_>) {}

    fn run_ended(&self, info: &RunInfo, _: &Run, budget: &Budget) {
        if info.parent.is_none() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = budget.overshoot();
        }
    }
}
