//! A run that continues whatever its policy says, and the point where the policy would have stopped it.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Directive, Notice, Run};
use crate::event::{Event, EventKind};
use crate::policy::Action;
use crate::program::Program;
use crate::trip_record::TripRecord;

/// A policy that decides nothing, for a run that nothing stops: a dry run, or a recorded run.
///
/// The events are changed as the policy would have changed the run. A pause is taken as approved, and the result of a
/// tool call that would not have begun is taken as its refusal.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::probe::Probes;
/// use endstop_core::run::UnstoppedRun;
/// use endstop_core::units::Millis;
/// use endstop_core::{Event, EventKind, Policy, Program};
///
/// let policy = Policy::from_toml("[stop]\nsteps = 'steps >= 2'\n[pause]\nask = 'steps >= 1'")?;
/// let mut run = UnstoppedRun::new(Arc::new(Program::new(&policy, &Probes::new())?));
/// let begin = Event::new(Millis(0), EventKind::StepBegin);
/// let stops = [run.take(&begin), run.take(&begin), run.take(&begin)];
/// assert_eq!((stops, run.paused_by()), ([false, false, true], &["ask".to_owned()][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UnstoppedRun {
    run: Run,
    paused_by: Vec<String>,
    /// Calls that would not have begun: a refusal takes the place of their results.
    refused: Vec<String>,
}

impl UnstoppedRun {
    /// Creates a run that is about to begin.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Self { run: Run::new(program), paused_by: Vec::new(), refused: Vec::new() }
    }

    /// Takes the next event. Returns whether the policy stops the run there; a natural end does not count as a stop
    /// of the policy.
    ///
    /// After a stop the policy decides nothing: the caller passes no further events.
    pub fn take(&mut self, event: &Event<'_>) -> bool {
        if matches!(event.kind, EventKind::ToolCost { tool, .. } if self.refused.iter().any(|it| it == tool))
        {
            // A call that did not begin costs nothing.
            return false;
        }
        let refusal = self.refusal_for(event);
        let event = refusal.as_ref().unwrap_or(event);
        let mut directive = self.run.observe(event);
        if directive == Directive::Pause {
            directive = self.approve(event);
            if event.kind.is_intention() {
                // An act that waited for the approval begins now, or does not, as in a run that the policy decides
                // on.
                directive = self.run.observe(event);
            }
        }
        if let (Directive::Refuse, EventKind::ToolBegin { tool }) = (directive, &event.kind) {
            self.refused.push((*tool).to_owned());
        }
        directive.stops() && !self.run.ended_by_itself()
    }

    /// Returns the policy's directive for an intention. See [`Run::would_admit`].
    pub fn would_admit(&mut self, event: &Event<'_>) -> Directive {
        self.run.would_admit(event)
    }

    /// Returns the run as the policy sees it.
    #[must_use]
    pub const fn run(&self) -> &Run {
        &self.run
    }

    /// Takes the notices of warn rules. See [`Run::take_notices`].
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.run.take_notices()
    }

    /// Returns the trip record, which takes over the texts of the run. See [`Run::into_trip_record`].
    #[must_use]
    pub fn into_trip_record(self) -> TripRecord {
        self.run.into_trip_record()
    }

    /// Returns the pause rules that would have paused the run, by id, in the order of their pauses; each was taken to be approved.
    #[must_use]
    pub fn paused_by(&self) -> &[String] {
        &self.paused_by
    }

    /// A person would decide here; the run continued, so the approval is taken as given. Returns the policy's last
    /// directive.
    fn approve(&mut self, event: &Event<'_>) -> Directive {
        let mut directive = Directive::Pause;
        let rules = self.run.trip_record().rules.into_iter();
        for rule in rules.filter(|rule| rule.action == Action::Pause && rule.trips) {
            if !self.paused_by.contains(&rule.id) {
                let kind = EventKind::Approved { rule: &rule.id, limit: None, by: "", why: "" };
                directive = self.run.observe(&Event { kind, ..event.clone() });
                self.paused_by.push(rule.id);
            }
        }
        directive
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

#[cfg(test)]
mod tests;
