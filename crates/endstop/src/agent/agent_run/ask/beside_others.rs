//! A model call next to others in flight: it waits for them, takes a share, and is repeated if they cut its response off.

use std::future::pending;

use endstop_core::event::EventKind;
use endstop_runtime::{
    CallPlan, CancelOn, NotBegun, OpenCall, Pricing, ShownAccountWait, Standstill, Waited,
};

use super::super::{AgentRun, Flow};
use super::{Attempt, AttemptResult};
use crate::agent::retry::Trial;
use crate::limits::{MAX_QUIET_WAIT, RECHECKS_PER_CHECKPOINT};
use crate::message::Message;
use crate::model::{ModelError, ModelErrorKind};

/// A wait for other calls in flight.
#[derive(Default)]
struct OthersWait {
    looks: u32,
    /// Of the calls that were settled.
    standstill: Standstill,
    /// No call was in flight at the last look.
    was_alone: bool,
    /// Waiting longer does not help.
    has_given_up: bool,
}

impl AgentRun {
    /// Waits while other calls in flight hold what the next call needs, or would make its step the wrap-up.
    pub(in crate::agent::agent_run) async fn wait_for_others(&mut self) -> Flow {
        let agent = std::sync::Arc::clone(&self.agent);
        let mut wait = OthersWait::default();
        loop {
            let plan = self.plan_beside_others(&agent.pricing, None, agent.fair_shares, &wait);
            if wait.has_given_up || !self.run().waits_for_others(&plan) {
                return Flow::On;
            }
            if Box::pin(self.look_at_others(&mut wait)).await != Flow::On {
                return self.flow();
            }
        }
    }

    /// Begins a call once others in flight leave enough for it; `None` if the run stops or pauses, or if the step ends for
    /// the wrap-up.
    pub(super) async fn begin_beside_others(
        &mut self,
        mut trial: Trial,
        pricing: &Pricing,
        messages: Option<&[Message]>,
        takes_share: bool,
    ) -> Option<(Box<OpenCall>, Trial)> {
        let (mut wait, mut account_wait) = (OthersWait::default(), ShownAccountWait::default());
        loop {
            let plan = self.plan_beside_others(pricing, messages, takes_share, &wait);
            match self.run().begin_call(&plan) {
                Ok(call) => return Some((Box::new(call), trial)),
                Err(NotBegun::OthersHold) => {
                    // Other runs need not wait until this one has tried whether the model answers again.
                    drop(trial);
                    account_wait.end();
                    if Box::pin(self.look_at_others(&mut wait)).await != Flow::On {
                        return None;
                    }
                    trial = self.breaker_lets().await?;
                }
                Err(NotBegun::AwaitsAccount(account)) if account.is_over() => {
                    self.run().give_up_on_account(&account);
                    return None;
                }
                Err(NotBegun::AwaitsAccount(account)) => {
                    drop(trial);
                    account_wait.show(self.run(), &account);
                    if Box::pin(self.run().wait_for_account(&account)).await == Waited::Aborted
                        || self.checkpoint().await != Flow::On
                    {
                        return None;
                    }
                    trial = self.breaker_lets().await?;
                }
                Err(NotBegun::Over(_) | NotBegun::WrapUpDue) => return None,
            }
        }
    }

    fn plan_beside_others<'p>(
        &mut self,
        pricing: &'p Pricing,
        messages: Option<&[Message]>,
        takes_share: bool,
        wait: &OthersWait,
    ) -> CallPlan<'p> {
        let plan = self.plan(pricing, messages);
        // Room is kept for one wrap-up, and none for its repetition.
        let takes_share =
            takes_share && !plan.is_wrap_up && self.run().calls_at_root().in_flight > 0;
        CallPlan { is_final: !wait.has_given_up, takes_share, ..plan }
    }

    /// Waits a moment for calls in flight. Stops waiting if that has not helped for long, or if the holds of others
    /// do not belong to calls.
    async fn look_at_others(&mut self, wait: &mut OthersWait) -> Flow {
        let calls = self.run().calls_at_root();
        let is_alone = calls.in_flight == 0;
        if is_alone {
            wait.has_given_up = std::mem::replace(&mut wait.was_alone, true);
            return self.flow();
        }
        wait.was_alone = false;
        wait.has_given_up = wait.standstill.since(calls.settled) >= MAX_QUIET_WAIT;
        if wait.has_given_up {
            return self.flow();
        }
        wait.looks = wait.looks.wrapping_add(1);
        let waited = self.run().wait_for_others(pending(), CancelOn::Any).await;
        if waited == Waited::Aborted || wait.looks.is_multiple_of(RECHECKS_PER_CHECKPOINT) {
            return self.checkpoint().await;
        }
        self.flow()
    }

    /// Whether an answer that is cut off is requested once more: other calls in flight cut it, and there is room for a
    /// longer one. A wrap-up is not, since it might be left without any answer.
    pub(super) async fn is_worth_repeating(
        &mut self,
        answer: &AttemptResult,
        call: &OpenCall,
    ) -> bool {
        let finish = answer.end.as_ref().and_then(|end| end.finish.as_deref());
        if !call.is_cut_by_others(finish) || self.checkpoint().await != Flow::On {
            return false;
        }
        let is_wrap_up = self.state.execution.steps.last().is_some_and(|step| step.is_wrap_up);
        let once_more = EventKind::AttemptBegin { next_cost: None };
        !is_wrap_up && call.can_be_repeated() && self.run().would_admit(&once_more)
    }

    /// Settles an answer that is requested once more: its usage is spent, and the conversation does not get it.
    pub(super) async fn discard(&mut self, mut answer: Box<AttemptResult>, mut attempt: Attempt) {
        attempt.trial.record(true);
        let end = answer.end.take().unwrap_or_default();
        let charge = answer.charge(&attempt.call, &end);
        let message = "other calls in flight cut the response off";
        let error = ModelError::new(ModelErrorKind::Truncated, message);
        attempt.call.failed_at(&error, charge);
        self.count_spent(&charge);
        if let Some(step) = self.state.execution.steps.last_mut() {
            step.errors.push(error.to_string());
        }
        self.flush().await;
    }
}
