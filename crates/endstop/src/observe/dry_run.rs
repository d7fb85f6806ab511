//! Where a policy would have stopped a run that nothing stops.
//!
//! A [`DryRunObserver`] watches a run that continues in any case, feeds every event of it to a second core with the
//! real policy, and records where that core would have stopped. The dry run sees settled amounts, not reserved ones:
//! a driver that obeys the policy stops at the same event or earlier.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::Program;
use endstop_core::Run;
use endstop_core::event::{Event, EventKind};
use endstop_core::policy::Action;
use endstop_core::run::UnstoppedRun;
use endstop_core::run::next_trip::Resource;
use endstop_core::signal::StopSignal;
use endstop_core::trip_record::TripRecord;
use endstop_core::units::{Millis, Money};

use super::{Observation, Observer};

/// The place at which a policy would have stopped a run.
///
/// See the example of [`DryRunObserver`].
#[derive(Clone, Debug, PartialEq)]
pub struct DryRunStop {
    /// Time since the run began.
    pub at: Millis,
    /// Why.
    pub signal: StopSignal,
    /// Steps begun until then.
    pub steps: u64,
    /// Tokens settled until then.
    pub tokens: u64,
    /// Money settled until then; `None` if a call had no price.
    pub cost: Option<Money>,
    /// The trip record.
    pub trip_record: TripRecord,
}

/// Follows root runs with a policy that decides nothing. It follows one run at a time.
///
/// ```
/// use std::sync::Arc;
/// use endstop::agent::AgentLoop;
/// use endstop::core::condition::named::max_steps;
/// use endstop::core::{Policy, Program, probe::Probes};
/// use endstop::model::{ScriptedModel, ScriptedResponse};
/// use endstop::observe::DryRunObserver;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tried = Policy::from_toml("[stop]\nsaid = \"said(\\\"Forty\\\")\"")?;
/// let dry_run = Arc::new(DryRunObserver::new(Arc::new(Program::new(&tried, &Probes::new())?)));
/// let agent = AgentLoop::builder("answerer")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Forty-two.")))
///     .stop_when(max_steps(5))
///     .shared_observer(dry_run.clone())
///     .build()?;
/// let state = agent.run("What is the answer?").await?;
/// assert!(state.has_final_response(), "nothing was stopped");
/// assert_eq!(dry_run.first_stop().map(|stop| stop.steps), Some(1));
/// # Ok(())
/// # }
/// ```
pub struct DryRunObserver {
    state: Mutex<DryRunState>,
}

struct DryRunState {
    unstopped: UnstoppedRun,
    first: Option<DryRunStop>,
    /// It has stopped, or a person ended the run: nothing after that counts.
    is_closed: bool,
}

impl fmt::Debug for DryRunObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DryRunObserver").finish_non_exhaustive()
    }
}

impl DryRunObserver {
    /// Follows a run that is about to begin.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        let unstopped = UnstoppedRun::new(program);
        let state = DryRunState { unstopped, first: None, is_closed: false };
        Self { state: Mutex::new(state) }
    }

    /// Returns the first stop that there would have been.
    #[must_use]
    pub fn first_stop(&self) -> Option<DryRunStop> {
        self.lock().first.clone()
    }

    /// Returns the pause rules that would have paused the run before that, by id; the dry run takes them as approved.
    #[must_use]
    pub fn paused_by(&self) -> Vec<String> {
        self.lock().unstopped.paused_by().to_vec()
    }

    /// Reads the core that the policy decides on, under the observer's lock. After the first stop it no longer
    /// changes.
    pub fn look<T>(&self, look: impl FnOnce(&Run) -> T) -> T {
        look(self.lock().unstopped.run())
    }

    /// Returns when the policy could stop the run next by time alone, from the last event on; `None` once it has. The
    /// driver of the run ticks it then: without an event no time passes here.
    #[must_use]
    pub fn next_limit_in_time(&self) -> Option<Millis> {
        let state = self.lock();
        if state.is_closed {
            return None;
        }
        let trip = state.unstopped.run().next_trip(Resource::Time, &[Action::Stop]);
        trip.map(|trip| Millis(trip.distance))
    }

    /// Returns the trip record at the stop, or under the current state of the policy.
    #[must_use]
    pub fn trip_record(&self) -> TripRecord {
        let state = self.lock();
        state
            .first
            .as_ref()
            .map_or_else(|| state.unstopped.run().trip_record(), |stop| stop.trip_record.clone())
    }

    fn lock(&self) -> MutexGuard<'_, DryRunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DryRunState {
    fn take(&mut self, event: &Event<'_>) {
        // A caller that ends the run from outside ends the observation; that does not count as a stop of the policy.
        self.is_closed |= matches!(
            event.kind,
            EventKind::StopRaised { .. } | EventKind::Cancel { .. } | EventKind::Kill { .. }
        );
        if self.is_closed {
            return;
        }
        if !self.unstopped.take(event) {
            return;
        }
        let run = self.unstopped.run();
        if let Some(signal) = run.last_stop_signal().cloned() {
            self.is_closed = true;
            self.first = Some(DryRunStop {
                at: event.at,
                signal,
                steps: run.step_count(),
                tokens: run.tokens(),
                cost: run.cost(),
                trip_record: run.trip_record(),
            });
        }
    }
}

impl Observer for DryRunObserver {
    fn observe(&self, observation: &Observation<'_>) {
        // The root sees every event of its descendants.
        if observation.info.parent.is_none() {
            self.lock().take(observation.event);
        }
    }
}

#[cfg(test)]
mod tests;
