//! An attempt that is open: what it may spend is known, and counts if it is dropped before its end.

use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, TokenUsage};
use tokio::time::Instant;

use super::super::plan::CallPlan;
use super::super::pricing::amount;
use super::super::scope::Scope;
use crate::model::{ModelError, ModelErrorKind};
use crate::observe::Detail;
use endstop_runtime::ledger::{Amounts, Hold};

/// What the ledger holds for an attempt. Whoever drops a run in the middle of a request, such as a tool
/// that gives up on a sub-agent, charges the worst case to the ledger; the cores are told the same.
pub(super) struct OpenHold {
    hold: Option<Hold>,
    scope: Arc<Scope>,
    usage: TokenUsage,
    cost: Cost,
    begun: Instant,
}

impl OpenHold {
    pub(super) fn new(hold: Hold, plan: &CallPlan<'_>, scope: &Arc<Scope>) -> Self {
        let output = hold.amounts().tokens.saturating_sub(plan.input);
        let worst = plan.worst(output);
        let usage = TokenUsage { input: worst.input, output, ..TokenUsage::default() };
        let scope = Arc::clone(scope);
        Self { hold: Some(hold), scope, usage, cost: worst.cost, begun: Instant::now() }
    }

    /// The attempt has come to its end, and spent this.
    pub(super) fn settle(mut self, actual: Amounts) {
        if let Some(hold) = self.hold.take() {
            hold.settle(actual);
        }
    }
}

impl Drop for OpenHold {
    fn drop(&mut self) {
        let Some(hold) = self.hold.take() else { return };
        let error = ModelError::new(ModelErrorKind::Truncated, "dropped before its end");
        let (usage, cost) = (Some(self.usage), Some(self.cost));
        let mut chain = self.scope.chain();
        let worst = hold.amounts();
        hold.settle(worst);
        chain.add_usage(usage, true);
        let took = self.begun.elapsed();
        let detail = Detail::Failure { error: &error, is_estimate: true, took };
        chain.tell(&EventKind::AttemptFailed { usage, cost }, detail);
        chain.tell(&EventKind::StepEnd, Detail::Step { took });
    }
}

/// What the ledger settles for an attempt.
pub(in crate::agent) fn settled(usage: &TokenUsage, cost: Cost, unpriced: OnUnpriced) -> Amounts {
    Amounts {
        attempts: 1,
        tokens: usage.total(),
        cost: amount(Some(cost), usage, unpriced),
        ..Amounts::default()
    }
}

/// A price as the step's record keeps it.
pub(super) const fn known(cost: Cost) -> Option<u64> {
    match cost {
        Cost::Known(money) => Some(money.picos()),
        Cost::Unpriced => None,
    }
}
