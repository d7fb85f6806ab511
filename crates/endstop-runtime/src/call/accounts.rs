//! Calls on accounts: held before the call is fitted and without the locks of the run, because a store may wait for other
//! processes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::policy::OnUnpriced;
use endstop_core::units::{Cost, Money};

use super::admission::NotAdmitted;
use super::plan::{CallPlan, PlannedCall};
use crate::account::{AccountHold, AccountWait, BudgetStoreError, DrawnAccounts, RunAccounts};
use crate::cancel::{Urgency, kill_signal};
use crate::clock::system_wall_time;
use crate::ledger::Amounts;
use crate::limits::{ACCOUNT_RECHECK, RESET_RECHECK, STORE_RECHECK};
use crate::run::{CancelOn, RunHandle, Waited};

impl RunHandle {
    /// Returns whether the calls of the run draw on these accounts too.
    #[must_use]
    pub fn draws_on(&self, accounts: &RunAccounts) -> bool {
        self.node().accounts().is_some_and(|own| own.covers(accounts))
    }

    /// Returns the budgets over time that the tree of the run draws on.
    #[must_use]
    pub fn accounts(&self) -> Option<RunAccounts> {
        self.node().accounts()
    }

    /// Replaces the budgets over time that the tree of the run draws on, from its next call on. The holds of calls in flight
    /// are settled on the old ones.
    pub fn set_accounts(&self, accounts: Option<RunAccounts>) {
        self.node().set_accounts(accounts);
    }

    /// Returns the name of the client's key, if one was set.
    #[must_use]
    pub fn key(&self) -> Option<Arc<str>> {
        self.node().key()
    }

    /// Sets the name of the key of the client whose calls begin from here on, for observers
    /// ([`SettledCall::key`](crate::observe::SettledCall::key)). It is that of the whole tree.
    pub fn set_key(&self, name: &str) {
        self.node().set_key(name);
    }

    /// Looks whether the definitions of the budgets over time have changed. A reservation does so itself; a driver that decides
    /// before it whether a call has to be bounded ([`is_metered`](Self::is_metered)) calls this first, and hands on what it
    /// returns ([`CallPlan::accounts`]). `None` if the calls of the run draw on no such budgets.
    pub fn refresh_accounts(&self) -> Option<DrawnAccounts> {
        self.node().accounts().map(|accounts| accounts.now())
    }

    /// The accounts that the driver has seen, or those of now, for which there is a place.
    fn seen_or_looked_at<'a>(
        &self,
        seen: Option<&'a DrawnAccounts>,
        looked: &'a mut Option<DrawnAccounts>,
    ) -> Option<&'a DrawnAccounts> {
        if seen.is_none() {
            *looked = self.refresh_accounts();
        }
        seen.or(looked.as_ref())
    }

    /// Returns whether the tree of the run draws on the budget over time of this name: because every call does, or because one
    /// has asked for a model of the budget in this process.
    #[must_use]
    pub fn draws_on_budget(&self, name: &str) -> bool {
        self.node().has_drawn_on(name)
            || self.node().accounts().is_some_and(|accounts| accounts.current().draws_always(name))
    }

    /// Kills the budget over time of this name for the tree of the run: its next call that draws on the budget is not admitted,
    /// and kills the tree like the kill switch. A call that was reserved before this is one of a tree that
    /// [draws on the budget](Self::draws_on_budget).
    pub fn kill_budget(&self, name: &str, why: &str) {
        self.node().kill_account(name, why);
    }

    /// Checks that the store of the budgets over time still admits a call that is about to be sent. After a reservation it takes
    /// no request: a process that stood still since then has heard nothing of the store for too long, and may have missed a kill.
    ///
    /// # Errors
    /// Returns an error if the call must not be sent.
    pub fn check_store(&self) -> Result<(), BudgetStoreError> {
        self.node().accounts().map_or(Ok(()), |accounts| accounts.admit())
    }

    /// Notes the accounts of a call, and refuses it for one that was killed.
    fn draw_on(
        &self,
        accounts: &DrawnAccounts,
        provider: &str,
        model: &str,
    ) -> Result<(), NotAdmitted> {
        let names = accounts.names_of_call(provider, model);
        self.node().draw_on(&names).map_or(Ok(()), |why| Err(NotAdmitted::Killed(why)))
    }

    /// Aborts the tree for a budget that was killed.
    pub(super) fn kill_tree(&self, why: &str) {
        let mut root = self.node();
        while let Some(parent) = &root.parent {
            root = parent;
        }
        let root = Self::of(Arc::clone(root));
        root.token().cancel(kill_signal(why), Urgency::Now);
        root.checkpoint();
        self.checkpoint();
    }

    /// Holds the worst case of a call on its accounts, up to the room that they have. `None` if it draws on none.
    pub(super) fn reserve_on_accounts(
        &self,
        plan: &PlannedCall<'_>,
        counts_step: bool,
    ) -> Result<Option<Box<AccountHold>>, NotAdmitted> {
        let mut looked = None;
        let accounts = self.seen_or_looked_at(plan.accounts(), &mut looked);
        let Some(accounts) = accounts else { return Ok(None) };
        let (least, wanted) = (plan.least_output(), plan.max_output());
        if is_untold_money(accounts, plan) {
            return Err(NotAdmitted::Unpriced);
        }
        let (provider, model) = (plan.provider(), plan.model());
        let is_counted = accounts.counts(provider, model);
        let amounts = |output| {
            if !is_counted {
                // Not read, and the worst case takes longer to price than all the rest.
                return Amounts::ZERO;
            }
            let amounts = plan.amounts(plan.worst(output));
            Amounts { steps: u64::from(counts_step), ..amounts }
        };
        self.draw_on(accounts, provider, model)?;
        let held = accounts.reserve(provider, model, amounts(wanted), amounts(least));
        held.map_err(NotAdmitted::Account)
    }

    /// Holds the most that a tool call can cost on the accounts of the run. `None` if it draws on none.
    pub(super) fn reserve_tool_on_accounts(
        &self,
        most: Money,
    ) -> Result<Option<Box<AccountHold>>, NotAdmitted> {
        let Some(accounts) = self.refresh_accounts() else { return Ok(None) };
        let cost = Amounts { cost: most, ..Amounts::ZERO };
        self.draw_on(&accounts, "", "")?;
        accounts.reserve("", "", cost, cost).map_err(NotAdmitted::Account)
    }

    /// Whether an account refuses even the smallest form of a call: then neither the call nor its step should begin.
    pub(super) fn check_accounts(&self, plan: &CallPlan<'_>) -> Result<(), NotAdmitted> {
        let mut looked = None;
        let accounts = self.seen_or_looked_at(plan.accounts, &mut looked);
        let Some(accounts) = accounts else { return Ok(()) };
        let planned = self.planned(plan);
        if accounts.names_of_call(planned.provider(), planned.model()).is_empty() {
            return Ok(());
        }
        // The run's own rules come first.
        if !self.would_admit(&EventKind::StepBegin) {
            return Ok(());
        }
        self.draw_on(accounts, planned.provider(), planned.model())?;
        if is_untold_money(accounts, &planned) {
            return Err(NotAdmitted::Unpriced);
        }
        let least = planned.amounts(planned.worst(planned.least_output()));
        let least = Amounts { steps: 1, ..least };
        let checked = accounts.check(planned.provider(), planned.model(), &least);
        checked.map_err(NotAdmitted::Account)
    }

    /// Waits until it is worth asking an account again ([`NotBegun::AwaitsAccount`](crate::NotBegun::AwaitsAccount)): a
    /// moment if calls of others are in flight or its store fails, and at most a second at a time until its window resets,
    /// so that a run continues within a second of it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing changes.
    pub async fn wait_for_account(&self, wait: &AccountWait) -> Waited<()> {
        let pause = match wait {
            AccountWait::Store { .. } => STORE_RECHECK,
            AccountWait::Room { until: None, .. } => ACCOUNT_RECHECK,
            AccountWait::Room { until: Some(until), .. } => {
                let left = until.0.saturating_sub(system_wall_time().0);
                Duration::from_millis(left).clamp(ACCOUNT_RECHECK, RESET_RECHECK)
            }
        };
        let mut moment = pin!(tokio::time::sleep(pause));
        self.wait(&mut moment, CancelOn::Any).await
    }

    /// Returns the wait for a store of budgets that has failed and still does. A driver that may give up on a call asks before
    /// the step of the call begins, so that calls that are never sent count as no steps.
    #[must_use]
    pub fn awaits_store(&self, plan: &CallPlan<'_>) -> Option<AccountWait> {
        let planned = self.planned(plan);
        self.node().accounts()?.current().store_wait(planned.provider(), planned.model())
    }
}

/// Whether an account limits money and the cost of the call cannot be known.
fn is_untold_money(accounts: &DrawnAccounts, plan: &PlannedCall<'_>) -> bool {
    let is_refused = match plan.unpriced() {
        OnUnpriced::Stop => true,
        OnUnpriced::Ignore => accounts.refuses_unpriced(),
        OnUnpriced::Rates(_) => false,
    };
    is_refused
        && accounts.limits_money(plan.provider(), plan.model())
        && plan.worst(0).cost == Cost::Unpriced
}
