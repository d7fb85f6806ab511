//! Where a policy would have stopped a run that nothing stops.
//!
//! A [`DryRunObserver`] watches a run that goes on whatever happens, feeds every event of it to a core of its own
//! with the real policy, and remembers where that would have stopped. The dry run sees what was settled, not
//! what is reserved: a driver that obeys the policy stops at the same event or earlier.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::Program;
use endstop_core::Run;
use endstop_core::event::{Event, EventKind};
use endstop_core::policy::Action;
use endstop_core::run::Directive;
use endstop_core::run::next_trip::Resource;
use endstop_core::signal::StopSignal;
use endstop_core::trip_record::TripRecord;
use endstop_core::units::{Millis, Money};

use super::{Observation, Observer};

/// Where a policy would have stopped a run.
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
    /// Money settled until then; none where a call had no price.
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
/// use endstop::model::{Reply, ScriptedModel};
/// use endstop::observe::DryRunObserver;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tried = Policy::from_toml("[stop]\nsaid = \"said(\\\"Forty\\\")\"")?;
/// let dry_run = Arc::new(DryRunObserver::new(Arc::new(Program::new(&tried, &Probes::new())?)));
/// let agent = AgentLoop::builder("answerer")
///     .model(ScriptedModel::new("scripted").reply(Reply::text("Forty-two.")))
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
    state: Mutex<State>,
}

struct State {
    run: Run,
    first: Option<DryRunStop>,
    /// It has stopped, or a person ended the run: nothing after that counts.
    is_closed: bool,
    paused: Vec<String>,
    /// Calls that would not have begun: a refusal takes the place of their results.
    refused: Vec<String>,
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
        let (first, paused, refused) = (None, Vec::new(), Vec::new());
        let state = State { run: Run::new(program), first, is_closed: false, paused, refused };
        Self { state: Mutex::new(state) }
    }

    /// The first stop that there would have been.
    #[must_use]
    pub fn first_stop(&self) -> Option<DryRunStop> {
        self.lock().first.clone()
    }

    /// Pause rules that would have held the run up before that, by id; they were taken to be approved.
    #[must_use]
    pub fn paused_by(&self) -> Vec<String> {
        self.lock().paused.clone()
    }

    /// Looks at the core that the policy decides on, under the observer's lock. After the first stop it stands still.
    pub fn look<T>(&self, look: impl FnOnce(&Run) -> T) -> T {
        look(&self.lock().run)
    }

    /// When the policy could stop the run next by time alone, from the last event on; none once it has. Whoever
    /// drives the run ticks it then: without an event no time passes here.
    #[must_use]
    pub fn next_limit_in_time(&self) -> Option<Millis> {
        let state = self.lock();
        if state.is_closed {
            return None;
        }
        let trip = state.run.next_trip(Resource::Time, &[Action::Stop]);
        trip.map(|trip| Millis(trip.distance))
    }

    /// The trip record at the stop, else as the policy stands now.
    #[must_use]
    pub fn trip_record(&self) -> TripRecord {
        let state = self.lock();
        state
            .first
            .as_ref()
            .map_or_else(|| state.run.trip_record(), |stop| stop.trip_record.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, event: &Event<'_>) {
        // Who ends the run from outside ends what is known of it; that is no stop of the policy.
        self.is_closed |= matches!(
            event.kind,
            EventKind::StopRaised { .. } | EventKind::Cancel { .. } | EventKind::Kill { .. }
        );
        if self.is_closed {
            return;
        }
        if matches!(event.kind, EventKind::ToolCost { tool, .. } if self.has_refused(tool)) {
            // A call that did not begin costs nothing.
            return;
        }
        let refusal = self.refusal_for(event);
        let event = refusal.as_ref().unwrap_or(event);
        match self.run.observe(event) {
            Directive::Stop | Directive::Abort => self.stopped(event.at),
            Directive::Pause => self.approve(event),
            Directive::Refuse => {
                if let EventKind::ToolBegin { tool } = event.kind {
                    self.refused.push(tool.to_owned());
                }
            }
            _ => {}
        }
    }

    fn stopped(&mut self, at: Millis) {
        let signal = self.run.last_stop_signal().cloned();
        // A natural end is no stop of the policy.
        if let Some(signal) = signal.filter(|_| !self.run.ended_by_itself()) {
            self.is_closed = true;
            self.first = Some(DryRunStop {
                at,
                signal,
                steps: self.run.step_count(),
                tokens: self.run.tokens(),
                cost: self.run.cost(),
                trip_record: self.run.trip_record(),
            });
        }
    }

    /// A person would be asked here; the run went on, so the answer is taken to be yes.
    fn approve(&mut self, event: &Event<'_>) {
        let rules = self.run.trip_record().rules.into_iter();
        let held = rules.filter(|rule| rule.action == Action::Pause && rule.trips);
        for rule in held.map(|rule| rule.id).collect::<Vec<_>>() {
            if self.paused.contains(&rule) {
                continue;
            }
            let kind = EventKind::Approved { rule: &rule, limit: None };
            self.run.observe(&Event { kind, ..event.clone() });
            self.paused.push(rule);
        }
        if event.kind.is_intention() {
            match self.run.observe(event) {
                Directive::Stop | Directive::Abort => self.stopped(event.at),
                _ => {}
            }
        }
    }

    fn has_refused(&self, tool: &str) -> bool {
        self.refused.iter().any(|refused| refused == tool)
    }

    /// The answer that the model would have read instead of the result of a call that did not begin.
    fn refusal_for<'e>(&mut self, event: &Event<'e>) -> Option<Event<'e>> {
        let (EventKind::ToolEnd { tool, .. } | EventKind::ToolRefused { tool }) = event.kind else {
            return None;
        };
        let found = self.refused.iter().position(|refused| refused == tool)?;
        self.refused.swap_remove(found);
        Some(Event { kind: EventKind::ToolRefused { tool }, ..event.clone() })
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
mod tests {
    use endstop_core::policy::Policy;
    use endstop_core::probe::Probes;
    use endstop_core::signal::StopReason;

    use super::*;

    fn dry_run(policy: &str) -> State {
        let program = Program::new(&Policy::from_toml(policy).unwrap(), &Probes::new()).unwrap();
        let observer = DryRunObserver::new(Arc::new(program));
        observer.state.into_inner().unwrap()
    }

    fn step(state: &mut State, at: u64, tool: &str) {
        let reply =
            EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 1 };
        let end = EventKind::ToolEnd { tool, arguments: "{}", result: "", failed: false };
        for kind in
            [EventKind::StepBegin, reply, EventKind::ToolBegin { tool }, end, EventKind::StepEnd]
        {
            state.take(&Event::new(Millis(at), kind));
        }
    }

    #[test]
    fn the_first_stop_is_remembered_and_nothing_after_it_counts() {
        let mut state = dry_run("[stop]\nlimit = 'steps >= 2'\n");
        (0..5).for_each(|n| step(&mut state, n * 1_000, "search"));
        let stop = state.first.unwrap();
        assert_eq!((stop.steps, stop.signal.reason), (2, StopReason::StepsLimitReached));
        assert!(stop.at <= Millis(2_000), "{:?}", stop.at);
    }

    #[test]
    fn a_tick_is_enough_for_a_limit_in_time() {
        let mut state = dry_run("[stop]\nlimit = 'elapsed >= 2s'\n");
        step(&mut state, 0, "search");
        state.take(&Event::new(Millis(1_999), EventKind::Tick));
        assert_eq!(state.first, None);
        state.take(&Event::new(Millis(2_000), EventKind::Tick));
        let stop = state.first.unwrap();
        assert_eq!((stop.at, stop.signal.reason), (Millis(2_000), StopReason::TimeLimitReached));
    }

    #[test]
    fn what_a_person_ends_was_not_stopped_by_the_policy() {
        let mut state = dry_run("[stop]\nlimit = 'steps >= 1'\n");
        state.take(&Event::new(Millis(0), EventKind::Kill { message: "no more" }));
        step(&mut state, 1, "search");
        assert_eq!(state.first, None);
    }

    #[test]
    fn a_pause_is_noted_and_taken_to_be_approved() {
        let mut state = dry_run("[stop]\nlimit = 'steps >= 4'\n[pause]\nask = 'steps >= 2'\n");
        (0..3).for_each(|n| step(&mut state, n, "search"));
        assert_eq!(
            (state.paused.as_slice(), state.first.is_none()),
            (&["ask".to_owned()][..], true)
        );
        (3..6).for_each(|n| step(&mut state, n, "search"));
        assert_eq!(state.first.unwrap().steps, 4);
    }

    #[test]
    fn the_refusal_of_a_tool_call_in_the_wrap_up_is_a_message() {
        let mut state = dry_run("[finish]\nlimit = 'messages >= 2 or steps >= 0'\n");
        step(&mut state, 0, "search");
        let stop = state.first.unwrap();
        assert_eq!((stop.steps, stop.signal.reason), (1, StopReason::StepsLimitReached));
        let limit = stop.trip_record.rules[0].tree.parts[0].clone();
        assert_eq!(limit.observed.as_deref(), Some("2"), "a model response and a refusal");
    }

    #[test]
    fn a_run_that_ends_by_itself_is_not_stopped() {
        let mut state = dry_run("[stop]\nlimit = 'steps >= 1'\n");
        let reply =
            EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 0 };
        for kind in [EventKind::StepBegin, reply, EventKind::StepEnd] {
            state.take(&Event::new(Millis(0), kind));
        }
        assert_eq!(state.first, None);
    }
}
