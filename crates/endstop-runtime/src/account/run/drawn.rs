//! The accounts of a handle at one moment, and what a call asks of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use endstop_core::units::Money;

use super::super::refused::AccountRefused;
use super::super::spec::{Account, OnFull};
use super::super::store::{BudgetStoreError, HoldTerms};
use super::super::tables::AccountTables;
use super::super::warning::AccountWarning;
use super::{AccountBlock, AccountHold, AccountWait, AccountsState, RunAccounts};
use crate::ledger::{Amounts, Dimension, Limits};
use crate::limits::{HOLD_TTL, MAX_GRANT_TRIES, WORTH_A_PART};
use crate::store::RunId;

/// The accounts that calls draw on, by the definitions of one moment: every question of one call is answered by the same ones.
///
/// [`RunHandle::refresh_accounts`](crate::RunHandle::refresh_accounts) returns them, and
/// [`CallPlan::accounts`](crate::CallPlan::accounts) takes them.
#[derive(Debug)]
pub struct DrawnAccounts {
    of: RunAccounts,
    tables: Arc<AccountTables>,
}

impl DrawnAccounts {
    pub(super) fn new(of: RunAccounts, tables: Arc<AccountTables>) -> Self {
        Self { of, tables }
    }

    fn shared(&self) -> &Arc<AccountsState> {
        &self.of.shared
    }

    fn names(&self) -> Vec<&str> {
        let names = self.of.names.as_deref().unwrap_or(&self.tables.names);
        names.iter().map(String::as_str).collect()
    }

    fn is_counted_elsewhere(&self, account: &Account) -> bool {
        let mut elsewhere = self.of.counted_elsewhere.iter().chain(&self.tables.counted_elsewhere);
        elsewhere.any(|name| *name == account.name)
    }

    /// See [`RunAccounts::drawn_names`].
    pub(super) fn drawn_names(&self) -> Vec<String> {
        let elsewhere = self.of.counted_elsewhere.iter().chain(&self.tables.counted_elsewhere);
        let mut drawn: BTreeSet<String> = elsewhere.cloned().collect();
        drawn.extend(self.tables.set.of_any_call(&self.names()).iter().map(|it| it.name.clone()));
        drawn.into_iter().collect()
    }

    /// The names of the accounts of a call, also of those that another process counts it on.
    pub(crate) fn names_of_call(&self, provider: &str, model: &str) -> Vec<&str> {
        let accounts = self.tables.set.of_call(&self.names(), provider, model);
        accounts.into_iter().map(|account| account.name.as_str()).collect()
    }

    /// Whether every call draws on the account of this name, whatever its model.
    pub(crate) fn draws_always(&self, name: &str) -> bool {
        let mut elsewhere = self.of.counted_elsewhere.iter().chain(&self.tables.counted_elsewhere);
        let is_by_model = || self.tables.set.get(name).is_some_and(Account::is_by_model);
        self.names_of_call("", "").contains(&name)
            || elsewhere.any(|it| it == name) && !is_by_model()
    }

    /// See [`RunAccounts::covers`]; both are of the same store.
    pub(super) fn covers(&self, others: &Self) -> bool {
        let is_same = |own: &Account, account: &Account| {
            own.name == account.name
                && own.limits == account.limits
                && own.models == account.models
                && own.providers == account.providers
        };
        let own = self.of_call("", "");
        let mut named = others.of_call("", "").into_iter();
        let mut by_model = others.tables.set.iter().filter(|account| account.is_by_model());
        named.all(|account| own.iter().any(|own| is_same(own, account)))
            && by_model.all(|account| self.tables.set.iter().any(|own| is_same(own, account)))
    }

    /// Whether calls without a price are refused if money is limited for them, whatever the policy says.
    pub(crate) fn refuses_unpriced(&self) -> bool {
        self.shared().refuses_unpriced
    }

    fn of_call(&self, provider: &str, model: &str) -> Vec<&Account> {
        let is_left_out = |account: &Account| self.is_counted_elsewhere(account);
        self.tables.set.of_call_without(&self.names(), (provider, model), is_left_out)
    }

    /// Whether a call is counted on any account here.
    pub(crate) fn counts(&self, provider: &str, model: &str) -> bool {
        !self.of_call(provider, model).is_empty()
    }

    /// The names of the accounts that a call is counted on here, and not by another process.
    pub(crate) fn counting_names(&self, provider: &str, model: &str) -> Vec<String> {
        self.of_call(provider, model).into_iter().map(|it| it.name.clone()).collect()
    }

    /// Whether tokens or money can be limited for some call: then every call has to be bounded.
    pub(crate) fn is_metered(&self) -> bool {
        self.limits_any(|dimension| dimension != Dimension::Steps)
    }

    /// Whether money can be limited for a call of this model.
    pub(crate) fn limits_money(&self, provider: &str, model: &str) -> bool {
        let limits = self.of_call(provider, model).into_iter().flat_map(|it| &it.limits);
        limits.into_iter().any(|limit| limit.dimension == Dimension::Cost)
    }

    fn limits_any(&self, is_meant: impl Fn(Dimension) -> bool) -> bool {
        let accounts = self.tables.set.of_any_call(&self.names());
        accounts.iter().flat_map(|it| &it.limits).any(|limit| is_meant(limit.dimension))
    }

    /// Whether an account is so full that the least of a call does not fit, and does not wait: then its step does not begin.
    pub(crate) fn check(
        &self,
        provider: &str,
        model: &str,
        least: &Amounts,
    ) -> Result<(), AccountBlock> {
        let accounts = self.of_call(provider, model);
        if accounts.is_empty() {
            return Ok(());
        }
        let states = match self.shared().store.read(&accounts) {
            Ok(states) => states,
            Err(error) => match self.shared().failed(&error) {
                // The reservation waits for it.
                AccountBlock::Wait(_) => return Ok(()),
                block => return Err(block),
            },
        };
        self.shared().tell_of_clock(&states);
        let is_full = states.iter().flat_map(|state| &state.limits).any(|limit| {
            let asked = least.get(limit.limit.dimension);
            let whole = limit.settled.saturating_add(limit.held).saturating_add(asked);
            asked > 0 && whole > limit.limit.amount
        });
        if !is_full {
            return Ok(());
        }
        // The refusal in full is what a reservation says; if it succeeds after all, nothing is in the way.
        match self.reserve(provider, model, *least, *least) {
            Ok(hold) => {
                hold.into_iter().for_each(|hold| hold.settle(Amounts::ZERO));
                Ok(())
            }
            Err(AccountBlock::Wait(_)) => Ok(()),
            Err(block) => Err(block),
        }
    }

    /// The wait for a store that has failed and still does: then no step begins for a call that would wait.
    pub(crate) fn store_wait(&self, provider: &str, model: &str) -> Option<AccountWait> {
        self.shared().open().outage?;
        let accounts = self.of_call(provider, model);
        let asked = match accounts.is_empty() {
            true => self.shared().store.admit(),
            false => self.shared().store.read(&accounts).map(drop),
        };
        let Err(error) = asked else {
            self.shared().open().outage = None;
            return None;
        };
        match self.shared().failed(&error) {
            AccountBlock::Wait(wait) => Some(wait),
            // The reservation reports it.
            _ => None,
        }
    }

    /// The tokens and money that the settled calls leave to a call, to know whether it is worth counting its input. It admits
    /// nothing: if the store cannot be read, it is unlimited here, and the reservation waits for the store.
    pub(crate) fn unheld_room(&self, provider: &str, model: &str) -> Limits {
        let accounts = self.of_call(provider, model);
        let mut room = Limits::unlimited();
        if accounts.is_empty() {
            return room;
        }
        let Ok(states) = self.shared().store.read(&accounts) else { return room };
        for state in states.iter().flat_map(|state| &state.limits) {
            let left = state.limit.amount.saturating_sub(state.settled);
            let least = |room: Option<u64>| Some(room.map_or(left, |room| room.min(left)));
            match state.limit.dimension {
                Dimension::Tokens => room.tokens = least(room.tokens),
                Dimension::Cost => {
                    let picos = least(room.cost.map(Money::picos));
                    room.cost = picos.map(Money::from_picos);
                }
                _ => {}
            }
        }
        room
    }

    /// Holds amounts of a call on all its accounts: what is wanted, or as much as is left if that is at least the least.
    /// `None` if it draws on no account; then the store only checks for kills.
    pub(crate) fn reserve(
        &self,
        provider: &str,
        model: &str,
        wanted: Amounts,
        least: Amounts,
    ) -> Result<Option<Box<AccountHold>>, AccountBlock> {
        let accounts = self.of_call(provider, model);
        if accounts.is_empty() {
            return match self.shared().store.admit() {
                Ok(()) => {
                    self.shared().open().outage = None;
                    Ok(None)
                }
                Err(error) => Err(self.shared().failed(&error)),
            };
        }
        let shared = self.shared();
        shared.settle_again();
        let id = RunId::new().to_string();
        let terms = HoldTerms { id: &id, owner: &shared.owner, ttl: HOLD_TTL };
        let mut amounts = wanted;
        // A refusal after which only the smallest amount is requested, so that the next refusal says when that fits.
        let mut asked_least = None;
        let mut by_others = Vec::new();
        for _ in 0..MAX_GRANT_TRIES {
            let refused = match shared.store.reserve(&accounts, amounts, &terms) {
                Ok(()) => {
                    let mut hold = AccountsState::hold(shared, id, &accounts, amounts);
                    hold.by_others = by_others;
                    let Some(refused) = asked_least else { return Ok(Some(hold)) };
                    // Others have settled in between: the least is not all that fits now.
                    hold.settle(Amounts::ZERO);
                    return Err(AccountBlock::Wait(AccountWait::Room { refused, until: None }));
                }
                Err(BudgetStoreError::Refused(refused)) => {
                    shared.open().outage = None;
                    refused
                }
                Err(error) => return Err(shared.failed(&error)),
            };
            let dimension = refused.limit.dimension;
            let (left, least) = (refused.left(), least.get(dimension));
            let alone = refused.asked.min(left.saturating_add(refused.held));
            let is_worth = left >= alone.div_ceil(WORTH_A_PART);
            let can_be_less = dimension != Dimension::Steps;
            if left >= least && is_worth && can_be_less && left < refused.asked {
                // The last account that lowers it is what limits it.
                by_others.retain(|it| *it != dimension);
                if refused.held > 0 {
                    by_others.push(dimension);
                }
                amounts = with(amounts, dimension, left);
                continue;
            }
            if left < least && can_be_less && least < refused.asked {
                asked_least = Some(refused);
                amounts = with(amounts, dimension, least);
                continue;
            }
            return Err(self.block(*refused, least));
        }
        // Others are always quicker.
        Err(shared.failed_for("the budget changes too fast"))
    }

    /// Charges the named accounts for a cost that nothing was held for, such as that of a tool that did not declare one. If the
    /// store is away or fails, it is charged later, as long as this process lives. A cost that is lost is warned of.
    pub(crate) fn charge(&self, actual: Amounts) {
        let accounts = self.of_call("", "");
        if accounts.is_empty() {
            return;
        }
        // Nothing is asked, so no limit refuses it.
        match self.reserve("", "", Amounts::ZERO, Amounts::ZERO) {
            Ok(hold) => hold.into_iter().for_each(|hold| hold.settle(actual)),
            Err(AccountBlock::Wait(_))
                if AccountsState::charge_later(self.shared(), &accounts, actual) => {}
            Err(block) => {
                if let Some(warn) = &self.shared().warn {
                    warn(&AccountWarning::Uncounted { why: block.why() });
                }
            }
        }
    }

    fn block(&self, refused: AccountRefused, least: u64) -> AccountBlock {
        let refused = Box::new(AccountRefused { asked: least, ..refused });
        if refused.is_only_held() {
            return AccountBlock::Wait(AccountWait::Room { refused, until: None });
        }
        if refused.on_full == OnFull::Pause
            && least <= refused.limit.amount
            && let Some(until) = refused.resets_at
        {
            return AccountBlock::Wait(AccountWait::Room { refused, until: Some(until) });
        }
        let account = self.tables.set.get(&refused.account);
        let is_by_model = account.is_some_and(Account::is_by_model);
        AccountBlock::Refused { refused, is_by_model }
    }
}

/// Amounts with another one in one dimension.
fn with(amounts: Amounts, dimension: Dimension, amount: u64) -> Amounts {
    match dimension {
        Dimension::Tokens => Amounts { tokens: amount, ..amounts },
        Dimension::Cost => Amounts { cost: Money::from_picos(amount), ..amounts },
        _ => amounts,
    }
}
