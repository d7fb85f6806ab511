//! The one place that turns what a budget, an account or a core has refused into a stop reason.

use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::signal::{BUDGET_SOURCE, StopReason, StopSignal};

use super::admission::NotAdmitted;
use crate::account::{AccountBlock, AccountRefused, AccountWait, RESET_KEY};
use crate::ledger::Refused;
use crate::observe::{ALL_RUNS, Detail, OWNER_KEY};
use crate::run::{RunHandle, StopReach};

impl RunHandle {
    /// Stops the run for a budget that refused, and as far above it as the tree's [`StopReach`] says.
    pub(super) fn refused_by_budget(&self, refused: &Refused) -> Directive {
        let mut owner = self.node();
        while owner.budget.id() != refused.budget
            && let Some(parent) = &owner.parent
        {
            owner = parent;
        }
        let is_of_all_runs = owner.budget.id() != refused.budget;
        let signal = signal_of(refused, is_of_all_runs);
        if self.node().reach() == StopReach::Tree && !Arc::ptr_eq(owner, self.node()) {
            Self::of(Arc::clone(owner)).raise(&signal);
        }
        self.raise(&signal);
        Directive::Stop
    }

    /// Stops the run for an account that refused; and the outermost run, unless only calls of one model draw on it.
    fn refused_by_account(&self, refused: &AccountRefused, is_by_model: bool) {
        let signal = refused.signal();
        if self.node().reach() == StopReach::Tree && !is_by_model {
            let mut owner = self.node();
            while let Some(parent) = &owner.parent {
                owner = parent;
            }
            if !Arc::ptr_eq(owner, self.node()) {
                Self::of(Arc::clone(owner)).raise(&signal);
            }
        }
        self.raise(&signal);
    }

    /// Stops the run because it waits no longer for an account: by [`AccountWait::signal`].
    pub fn give_up_on_account(&self, wait: &AccountWait) {
        self.node().set_out_of_budget(true);
        self.raise_with(&wait.signal());
    }

    /// Stops the run for a call that was not admitted, unless a core has stopped it already.
    pub(crate) fn not_admitted(&self, why: &NotAdmitted, model: &str) {
        match why {
            NotAdmitted::Core(Directive::Refuse) => {
                self.raise_own(StopReason::StopRequested, "no request can begin now");
            }
            NotAdmitted::Core(_)
            | NotAdmitted::OthersHold
            | NotAdmitted::WrapUpDue
            | NotAdmitted::Account(AccountBlock::Wait(_)) => {}
            NotAdmitted::Account(AccountBlock::Refused { refused, is_by_model }) => {
                self.node().set_out_of_budget(true);
                self.refused_by_account(refused, *is_by_model);
            }
            NotAdmitted::Account(AccountBlock::Store(why)) => {
                self.node().set_out_of_budget(true);
                self.raise_with(&uncounted(why));
            }
            NotAdmitted::Killed(why) => self.kill_tree(why),
            NotAdmitted::Both => self.node().set_out_of_budget(true),
            NotAdmitted::Ledger(refused) => {
                self.node().set_out_of_budget(true);
                self.refused_by_budget(refused);
            }
            NotAdmitted::Unpriced => {
                self.node().set_out_of_budget(true);
                let message = format!(
                    "the budget limits money, and `{model}` has no price: set `on_unpriced` in the policy, or \
                     `--unpriced 3,15` in the command"
                );
                let signal = StopSignal::new(StopReason::CostLimitReached).with_message(message);
                self.raise_with(&signal.with_source(BUDGET_SOURCE));
            }
        }
    }

    /// Raises a signal of the driver's own.
    pub(super) fn raise_own(&self, reason: StopReason, message: &str) -> Directive {
        let signal = StopSignal::new(reason).with_message(message);
        self.raise_with(&match self.node().driver() {
            Some(driver) => signal.with_source(driver),
            None => signal,
        })
    }

    /// A driver that has a name reports its own signals as errors too.
    pub(super) fn raise_with(&self, signal: &StopSignal) -> Directive {
        let detail = match self.node().driver() {
            Some(_) => Detail::Error { message: &signal.message },
            None => Detail::None,
        };
        self.record(&EventKind::StopRaised { signal }, detail)
    }
}

impl AccountRefused {
    /// Returns the stop signal of a run that it stops. Its source is `budget:NAME`.
    #[must_use]
    pub fn signal(&self) -> StopSignal {
        StopSignal::new(self.limit.dimension.reason())
            .with_message(self.to_string())
            .with_context("limit", self.limit.amount)
            .with_context("settled", self.settled)
            .with_context("held", self.held)
            .with_context("asked", self.asked)
            .with_context(RESET_KEY, self.resets_at.map(|at| at.0))
            .with_source(format!("{BUDGET_SOURCE}:{}", self.account))
    }
}

impl AccountWait {
    /// Returns the signal that stops a run which does not wait.
    #[must_use]
    pub fn signal(&self) -> StopSignal {
        match self {
            Self::Room { refused, .. } => refused.signal(),
            Self::Store { why, .. } => uncounted(why),
        }
    }
}

/// The signal of a run whose calls no store can count.
fn uncounted(why: &str) -> StopSignal {
    let message = format!("nothing is sent that no budget can count: {why}");
    StopSignal::new(StopReason::ErrorForbade).with_message(message).with_source(BUDGET_SOURCE)
}

/// The stop signal of a budget that refused.
fn signal_of(refused: &Refused, is_of_all_runs: bool) -> StopSignal {
    let (message, owner) = match is_of_all_runs {
        true => (refused.text_of("all runs have"), ALL_RUNS),
        false => (refused.to_string(), "run"),
    };
    StopSignal::new(refused.dimension.reason())
        .with_message(message)
        .with_context(OWNER_KEY, owner)
        .with_context("limit", refused.limit)
        .with_context("settled", refused.settled)
        .with_context("held", refused.held)
        .with_context("asked", refused.asked)
        .with_source(BUDGET_SOURCE)
}
