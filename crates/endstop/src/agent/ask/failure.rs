//! Requests that failed: what they spent, and whether there is another.

use std::time::Duration;

use endstop_core::condition::fact::normalised_finish;
use endstop_core::event::EventKind;
use endstop_core::policy::OnUnpriced;
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Money, TokenUsage};

use super::super::drive::{About, Drive, Flow};
use super::super::hooks::Trigger;
use super::{Answer, Attempt, known, settled};
use crate::model::{Model, ModelError, ModelErrorKind};
use crate::observe::Detail;

/// A connection that breaks later than this was made: the provider may have worked on the request, and
/// reasoning that nobody sees is charged too.
const LONGEST_CONNECTING: Duration = Duration::from_secs(5);

impl Drive {
    /// A failed request: what it spent is settled; whether to ask again.
    pub(super) async fn take_failure(
        &mut self,
        answer: &Answer,
        error: ModelError,
        attempt: Attempt<'_>,
    ) -> bool {
        let is_charged = match error.kind {
            _ if answer.has_pieces() => true,
            ModelErrorKind::TimedOut | ModelErrorKind::Truncated => true,
            ModelErrorKind::Connection => attempt.begun.elapsed() >= LONGEST_CONNECTING,
            _ => false,
        };
        let counted = (is_charged && answer.is_sent).then(|| answer.estimate(&attempt.plan));
        let usage = error.usage.or(counted);
        let is_estimate = error.usage.is_none() && usage.is_some();
        let cost = usage.map(|usage| attempt.plan.pricing.cost(&usage, attempt.plan.at));
        {
            let mut chain = self.scope.chain();
            let spent = usage.unwrap_or_default();
            let cost_or_none = cost.unwrap_or(Cost::Known(Money::ZERO));
            attempt.hold.settle(settled(&spent, cost_or_none, attempt.plan.unpriced));
            chain.add_usage(usage, is_estimate);
            let took = attempt.begun.elapsed();
            let detail = Detail::Failure { error: &error, is_estimate, took };
            chain.tell(&EventKind::AttemptFailed { usage, cost }, detail);
        }
        self.count_spent(usage, cost.map_or(Some(0), known), is_estimate);
        let message = error.to_string();
        let failed = attempt.failed.saturating_add(1);
        if let Some(step) = self.state.execution.steps.last_mut() {
            step.errors.push(message.clone());
        }
        self.flush().await;
        let about = About { error: Some(&message), ..About::default() };
        self.hooks(Trigger::OnError, about).await;
        if self.flow() == Flow::Stop {
            return false;
        }
        if let Some(wait) = self.agent.retry.wait(failed, &error) {
            return self.sleep(wait).await;
        }
        self.give_up(&error, failed);
        false
    }

    /// The run ended before its request was sent: what is about to happen could not be recorded.
    pub(super) fn do_not_send(&mut self, mut attempt: Attempt<'_>) {
        attempt.trial.forget();
        let error = ModelError::new(ModelErrorKind::Connection, "not sent: the run has ended");
        let nothing = settled(&TokenUsage::default(), Cost::Known(Money::ZERO), OnUnpriced::Ignore);
        let mut chain = self.scope.chain();
        attempt.hold.settle(nothing);
        let took = attempt.begun.elapsed();
        let detail = Detail::Failure { error: &error, is_estimate: false, took };
        chain.tell(&EventKind::AttemptFailed { usage: None, cost: None }, detail);
    }

    /// A shared budget of money cannot tell what a call would take.
    pub(super) fn refused_without_price(&mut self, model: &dyn Model) {
        let message = format!(
            "the budget limits money, and `{}` has no price: give rates by `on_unpriced`, or ignore it",
            model.name()
        );
        self.is_out_of_budget = true;
        self.raise(StopReason::CostLimitReached, &message, "budget");
    }

    /// A reply that a lowered output cap cut short is no end of the model's own: the limit behind the cap ends
    /// the run, but for a wrap-up, which ends it anyway.
    pub(super) fn end_by_cap(&mut self, lowered_by: Option<StopReason>) {
        let Some((reason, step)) = lowered_by.zip(self.state.execution.steps.last_mut()) else {
            return;
        };
        let is_cut = step.finish.as_deref().map(normalised_finish).as_deref() == Some("length");
        if is_cut && step.is_natural_end && !step.is_wrap_up {
            step.is_natural_end = false;
            self.raise(reason, "the reply was cut at what the limit left for it", "loop");
        }
    }

    fn give_up(&mut self, error: &ModelError, failed: u32) {
        let model = self.model().name().to_owned();
        if error.kind.is_retryable() {
            let message = format!("{failed} requests to `{model}` failed; the last one: {error}");
            self.raise(StopReason::RetryLimitReached, &message, "loop");
            self.state.execution.error.get_or_insert(message);
        } else {
            let message = format!("`{model}` cannot answer: {error}");
            self.raise(StopReason::ErrorForbade, &message, "loop");
            self.state.execution.error.get_or_insert(message);
        }
    }
}
