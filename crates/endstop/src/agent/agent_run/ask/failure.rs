//! Requests that failed: what they spent, and whether there is another.

use std::time::Duration;

use endstop_core::signal::StopReason;
use endstop_core::units::Millis;

use super::super::{About, AgentRun, Flow};
use super::{Attempt, AttemptResult};
use crate::agent::hooks::{Trigger, words_of};
use crate::agent::retry::CircuitBreaker;
use crate::model::{ModelError, ModelErrorKind, ModelEvent};
use endstop_runtime::Received;

/// A model that panics has failed to answer; the run goes on to its own end.
pub(super) fn panicked(panic: Box<dyn std::any::Any + Send>) -> Result<ModelEvent, ModelError> {
    let message = format!("the model panicked: {}", words_of(&*panic));
    Err(ModelError::new(ModelErrorKind::Malformed, message))
}

/// The run ended before its request was sent: what is about to happen could not be recorded.
pub(super) fn do_not_send(mut attempt: Attempt) {
    attempt.trial.forget();
    let error = ModelError::new(ModelErrorKind::Connection, "not sent: the run has ended");
    attempt.call.failed(&error, &Received::default());
}

impl AgentRun {
    /// A failed request: what it spent is settled; whether to ask again.
    pub(super) async fn take_failure(
        &mut self,
        answer: &AttemptResult,
        error: ModelError,
        attempt: Attempt,
    ) -> bool {
        if let Some(charge) = attempt.call.failed(&error, &answer.received()) {
            self.count_spent(&charge);
        }
        let message = error.to_string();
        let failed = attempt.failed.saturating_add(1);
        if let Some(step) = self.state.execution.steps.last_mut() {
            step.errors.push(message.clone());
        }
        self.flush().await;
        let breaker = self.agent.breaker.as_ref();
        let is_last = breaker.is_some_and(CircuitBreaker::ends_attempts);
        let wait = self.agent.retry.wait(failed, &error).filter(|_| !is_last);
        let had_stopped = self.flow() == Flow::Stop;
        if wait.is_none() && !had_stopped {
            // Before the hooks: they see it, and what they raise or fail by does not hide it.
            self.give_up(&error, failed);
        }
        let before = self.state.execution.error.clone();
        if !had_stopped {
            self.state.execution.error.get_or_insert_with(|| message.clone());
        }
        let about = About { error: Some(&message), ..About::default() };
        self.hooks(Trigger::OnError, about).await;
        match wait {
            Some(wait) if self.flow() != Flow::Stop => {
                self.state.execution.error = before;
                self.sleep(wait).await
            }
            _ => false,
        }
    }

    /// A lowered output cap that truncates a response is not a natural end: the limit behind the cap ends the run,
    /// unless this is a wrap-up, which ends it anyway.
    pub(super) fn end_by_cap(&mut self, lowered_by: Option<StopReason>) {
        let Some(step) = self.state.execution.steps.last() else { return };
        if !step.is_natural_end || step.is_wrap_up {
            return;
        }
        let is_cut = self.run().end_by_cap(lowered_by, step.finish.as_deref());
        if is_cut && let Some(step) = self.state.execution.steps.last_mut() {
            step.is_natural_end = false;
        }
    }

    /// The breaker lets no request through, and the run does not wait for it.
    pub(super) async fn fail_by_breaker(&mut self, wait: Duration) {
        let wait = Millis(endstop_runtime::clock::millis(wait));
        let message = format!(
            "the circuit breaker of `{}` is open for {wait} more: requests before this one failed",
            self.model().name()
        );
        self.error(&message, "loop");
        let about = About { error: Some(&message), ..About::default() };
        self.hooks(Trigger::OnError, about).await;
    }

    fn give_up(&mut self, error: &ModelError, failed: u32) {
        let model = self.model().name().to_owned();
        let message = if error.kind.is_retryable() {
            format!("{failed} requests to `{model}` failed; the last one: {error}")
        } else {
            format!("`{model}` cannot answer: {error}")
        };
        self.raise(StopReason::ErrorForbade, &message, "loop");
        self.state.execution.error.get_or_insert(message);
    }
}
