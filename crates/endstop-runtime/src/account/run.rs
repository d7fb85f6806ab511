//! The accounts that runs draw on, and the life of a call's holds on them.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use endstop_core::human::Rounding;
use endstop_core::signal::{BUDGET_SOURCE, StopReason, StopSignal};
use endstop_core::units::{Millis, Money, WallTime};
use tokio::time::Instant;

use super::refused::AccountRefused;
use super::spec::{Account, AccountError, AccountSet, OnFull};
use super::store::{AccountState, BudgetStore, BudgetStoreError, HoldTerms, LimitState};
use crate::ledger::{Amounts, Dimension, Limits};
use crate::limits::{
    CLOCK_JUMP, HOLD_HEARTBEAT, HOLD_TTL, MAX_GRANT_TRIES, STORE_PATIENCE, WORTH_A_PART,
};
use crate::store::RunId;

/// Takes a warning of an account whose spend has reached its threshold.
type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The accounts that the runs of a tree draw on. Clones are the same accounts.
///
/// ```
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::account::{Account, AccountSet, MemoryBudgetStore, RunAccounts};
/// use std::sync::Arc;
///
/// let set = AccountSet::new([Account::new("me", &["$5 per day"])?])?;
/// let store = Arc::new(MemoryBudgetStore::new());
/// let accounts = RunAccounts::new(store, set, &["me"], "example")?;
/// assert_eq!(accounts.read()?[0].account, "me");
/// let environment = RunEnvironment { accounts: Some(accounts), ..RunEnvironment::default() };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RunAccounts {
    shared: Arc<Shared>,
    names: Arc<[String]>,
    /// Accounts on which another process counts the same calls.
    counted_elsewhere: Arc<[String]>,
}

struct Shared {
    store: Arc<dyn BudgetStore>,
    set: AccountSet,
    owner: String,
    warn: Option<Warn>,
    open: Mutex<Open>,
}

/// A hold that has begun here and has not ended in the store.
#[derive(Default)]
struct Open {
    holds: BTreeSet<String>,
    /// Settlements that the store did not take: repeated until it does.
    unsettled: Vec<(String, Amounts)>,
    has_heartbeat: bool,
    /// Limits of which a warning was given, with the end of their window.
    warned: HashSet<(String, String, Option<WallTime>)>,
    /// A warning was given that the clock is behind.
    has_warned_of_clock: bool,
    /// While the store fails.
    outage: Option<Outage>,
}

/// The time in which a store fails: of its first and of its last failure.
#[derive(Clone, Copy, Debug)]
struct Outage {
    begun: Instant,
    last: Instant,
}

/// Why a call does not begin for its accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccountBlock {
    /// It may begin later: once others have settled, when the window resets and the account says so, or once the store is
    /// back.
    Wait(AccountWait),
    /// It does not fit.
    Refused { refused: Box<AccountRefused>, is_by_model: bool },
    /// The store refuses permanently; nothing is sent that it cannot count.
    Store(String),
}

/// A wait for room on an account, or for its store.
///
/// See [`RunHandle::wait_for_account`](crate::RunHandle::wait_for_account).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountWait {
    /// The call does not fit now, and will.
    Room {
        /// The refusal, for people.
        refused: Box<AccountRefused>,
        /// When the window resets; `None` if calls in flight are in the way.
        until: Option<WallTime>,
    },
    /// The store is away or fails, and nothing is sent that it cannot count.
    Store {
        /// The error.
        why: String,
        /// How long it has failed, by the calls of this process.
        lasts: Duration,
    },
}

impl AccountWait {
    /// Returns whether waiting is no longer worth it: the store has failed for ten seconds. The driver then fails the call,
    /// or stops its run by [`RunHandle::give_up_on_account`](crate::RunHandle::give_up_on_account).
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Store { lasts, .. } if *lasts >= STORE_PATIENCE)
    }

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
pub(crate) fn uncounted(why: &str) -> StopSignal {
    let message = format!("nothing is sent that no budget can count: {why}");
    StopSignal::new(StopReason::ErrorForbade).with_message(message).with_source(BUDGET_SOURCE)
}

/// The holds of a call on its accounts. [`AccountHold::settle`] ends it; if that never happens, it expires and is
/// charged.
pub(crate) struct AccountHold {
    shared: Arc<Shared>,
    id: String,
    names: Vec<String>,
    amounts: Amounts,
    by_others: Vec<Dimension>,
}

impl RunAccounts {
    /// Returns the accounts of a set that runs draw on: those that are named, those that name the model of a call, and
    /// all their parents. `owner` says in the store whose holds they are.
    ///
    /// # Errors
    /// Returns an error if a name is not one of the set: it would limit nothing.
    pub fn new(
        store: Arc<dyn BudgetStore>,
        set: AccountSet,
        names: &[&str],
        owner: &str,
    ) -> Result<Self, AccountError> {
        set.check_names(names)?;
        let owner = owner.to_owned();
        let shared = Shared { store, set, owner, warn: None, open: Mutex::default() };
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Ok(Self { shared: Arc::new(shared), names, counted_elsewhere: Arc::default() })
    }

    /// Leaves out accounts on which another process of the same store counts the same calls, such as the gateway that the
    /// calls of this process go through: they would count twice, and the two would wait for each other.
    #[must_use]
    pub fn counted_elsewhere(self, names: &[&str]) -> Self {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Self { counted_elsewhere: names, ..self }
    }

    /// Returns the names of all accounts that some call draws on, or would if it were not counted elsewhere.
    #[must_use]
    pub fn drawn_names(&self) -> Vec<&str> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut drawn: BTreeSet<&str> = self.counted_elsewhere.iter().map(String::as_str).collect();
        drawn.extend(self.shared.set.of_any_call(&names).iter().map(|it| it.name.as_str()));
        drawn.into_iter().collect()
    }

    /// Sets the receiver of warnings about accounts whose spend has reached their threshold: each once per window.
    #[must_use]
    pub fn with_warnings(self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let Shared { store, set, owner, .. } = &*self.shared;
        let (store, set, owner) = (Arc::clone(store), set.clone(), owner.clone());
        let warn: Option<Warn> = Some(Arc::new(warn));
        let shared = Shared { store, set, owner, warn, open: Mutex::default() };
        Self { shared: Arc::new(shared), ..self }
    }

    /// Returns the same accounts of the same store, for runs that draw on others of them.
    ///
    /// # Errors
    /// Returns an error if a name is not one of the set: it would limit nothing.
    pub fn named(&self, names: &[&str]) -> Result<Self, AccountError> {
        self.shared.set.check_names(names)?;
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let counted_elsewhere = Arc::clone(&self.counted_elsewhere);
        Ok(Self { shared: Arc::clone(&self.shared), names, counted_elsewhere })
    }

    /// Returns whether a run that draws on these draws on the others as well, for every model of a call: the same store
    /// has the same limits for them.
    #[must_use]
    pub fn covers(&self, others: &Self) -> bool {
        let (of, other) = (&self.shared, &others.shared);
        let is_same = |own: &Account, account: &Account| {
            own.name == account.name
                && own.limits == account.limits
                && own.models == account.models
                && own.providers == account.providers
        };
        let own = self.of_call("", "");
        let mut named = others.of_call("", "").into_iter();
        let mut by_model = other.set.iter().filter(|account| account.is_by_model());
        Arc::ptr_eq(&of.store, &other.store)
            && named.all(|account| own.iter().any(|own| is_same(own, account)))
            && by_model.all(|account| of.set.iter().any(|own| is_same(own, account)))
    }

    /// Returns the current states of all accounts of the set.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn read(&self) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.shared.store.read(&self.shared.set.iter().collect::<Vec<_>>())
    }

    fn of_call(&self, provider: &str, model: &str) -> Vec<&Account> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let mut accounts = self.shared.set.of_call(&names, provider, model);
        accounts.retain(|account| !self.counted_elsewhere.contains(&account.name));
        accounts
    }

    /// The names of the accounts that a call draws on here.
    pub(crate) fn names_of_call(&self, provider: &str, model: &str) -> Vec<String> {
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
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let accounts = self.shared.set.of_any_call(&names);
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
        let states = match self.shared.store.read(&accounts) {
            Ok(states) => states,
            Err(error) => match self.shared.failed(&error) {
                // The reservation waits for it.
                AccountBlock::Wait(_) => return Ok(()),
                block => return Err(block),
            },
        };
        self.shared.tell_of_clock(&states);
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
        self.shared.open().outage?;
        let accounts = self.of_call(provider, model);
        let asked = match accounts.is_empty() {
            true => self.shared.store.admit(),
            false => self.shared.store.read(&accounts).map(drop),
        };
        let Err(error) = asked else {
            self.shared.open().outage = None;
            return None;
        };
        match self.shared.failed(&error) {
            AccountBlock::Wait(wait) => Some(wait),
            // The reservation reports it.
            _ => None,
        }
    }

    /// The tokens and money that the settled calls leave to a call; unlimited if the store cannot be read.
    pub(crate) fn unheld_room(&self, provider: &str, model: &str) -> Limits {
        let accounts = self.of_call(provider, model);
        let states = match accounts.is_empty() {
            true => Vec::new(),
            false => self.shared.store.read(&accounts).unwrap_or_default(),
        };
        let mut room = Limits::unlimited();
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
    ) -> Result<Option<AccountHold>, AccountBlock> {
        let accounts = self.of_call(provider, model);
        if accounts.is_empty() {
            return match self.shared.store.admit() {
                Ok(()) => {
                    self.shared.open().outage = None;
                    Ok(None)
                }
                Err(error) => Err(self.shared.failed(&error)),
            };
        }
        let shared = &self.shared;
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
                    let names = accounts.iter().map(|it| it.name.clone()).collect();
                    let mut hold = Shared::hold(shared, id, names, amounts);
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

    /// Charges the named accounts for a cost that nothing was held for, such as that of a tool that did not declare one. A
    /// store that fails is warned of.
    pub(crate) fn charge(&self, actual: Amounts) {
        if self.of_call("", "").is_empty() {
            return;
        }
        // Nothing is asked, so no limit refuses it.
        match self.reserve("", "", Amounts::ZERO, Amounts::ZERO) {
            Ok(hold) => hold.into_iter().for_each(|hold| hold.settle(actual)),
            Err(block) => {
                if let Some(warn) = &self.shared.warn {
                    warn(&format!("a cost is not counted in the budgets: {block:?}"));
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
        let account = self.shared.set.get(&refused.account);
        let is_by_model = account.is_some_and(Account::is_by_model);
        AccountBlock::Refused { refused, is_by_model }
    }
}

impl fmt::Debug for RunAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAccounts").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a call does not begin for an error of the store. Calls wait for the end of an error that can end.
    fn failed(&self, error: &BudgetStoreError) -> AccountBlock {
        match error {
            BudgetStoreError::Away { .. } | BudgetStoreError::Failed { .. } => {
                self.failed_for(&error.to_string())
            }
            error => AccountBlock::Store(error.to_string()),
        }
    }

    fn failed_for(&self, why: &str) -> AccountBlock {
        let now = Instant::now();
        let mut open = self.open();
        // If nothing has failed since then, this is another outage.
        let last = open.outage.filter(|outage| now - outage.last < STORE_PATIENCE);
        let begun = last.map_or(now, |outage| outage.begun);
        open.outage = Some(Outage { begun, last: now });
        AccountBlock::Wait(AccountWait::Store { why: why.to_owned(), lasts: now - begun })
    }

    fn hold(this: &Arc<Self>, id: String, names: Vec<String>, amounts: Amounts) -> AccountHold {
        let mut open = this.open();
        open.outage = None;
        open.holds.insert(id.clone());
        if !open.has_heartbeat {
            let of = Arc::downgrade(this);
            let beat = thread::Builder::new().name("endstop-holds".to_owned());
            // Without it holds expire sooner: they are charged in full until they are settled.
            open.has_heartbeat = beat.spawn(move || heartbeat(&of)).is_ok();
        }
        drop(open);
        AccountHold { shared: Arc::clone(this), id, names, amounts, by_others: Vec::new() }
    }

    /// Settles; a settlement that the store does not take is kept. An unknown hold has nothing to settle.
    fn settle(&self, id: String, actual: Amounts) {
        let settled = self.store.settle(&id, actual);
        let mut open = self.open();
        open.holds.remove(&id);
        if !is_taken(&settled) {
            open.unsettled.push((id, actual));
        }
    }

    /// Repeats what the store did not take, up to the first that it does not take again: each may wait for it.
    fn settle_again(&self) {
        let mut unsettled = std::mem::take(&mut self.open().unsettled).into_iter();
        while let Some((id, actual)) = unsettled.next() {
            if !is_taken(&self.store.settle(&id, actual)) {
                self.open().unsettled.extend(unsettled.chain([(id, actual)]));
                return;
            }
        }
    }

    /// Warns once, if the clock was set back or had been ahead when the store was used.
    fn tell_of_clock(&self, states: &[AccountState]) {
        let Some(warn) = &self.warn else { return };
        let behind = states.iter().map(|state| state.clock_behind).max().unwrap_or_default();
        if behind >= CLOCK_JUMP && !std::mem::replace(&mut self.open().has_warned_of_clock, true) {
            let behind = Millis::from(behind);
            warn(&format!(
                "the clock is {behind} behind the time of the budgets: it was set back, or had been ahead. Windows end later \
                 by that"
            ));
        }
    }

    /// Warns of the limits whose threshold is reached.
    fn warn_of(&self, names: &[String]) {
        let Some(warn) = &self.warn else { return };
        let with_threshold = names.iter().filter_map(|name| self.set.get(name));
        let accounts: Vec<&Account> = with_threshold.filter(|it| it.warn.is_some()).collect();
        if accounts.is_empty() {
            return;
        }
        let Ok(states) = self.store.read(&accounts) else { return };
        for (account, state) in accounts.iter().zip(states) {
            let percent = u128::from(account.warn.unwrap_or(100));
            for limit in &state.limits {
                let LimitState { limit: of, settled, resets_at, .. } = limit;
                if u128::from(*settled) * 100 < u128::from(of.amount) * percent {
                    continue;
                }
                // A rolling window never ends as a whole: it warns once.
                let is_rolling = matches!(of.window, super::limit::Window::Rolling(_));
                let end = resets_at.filter(|_| !is_rolling);
                let key = (account.name.clone(), of.to_string(), end);
                if self.open().warned.insert(key) {
                    let spent = super::limit::rounded(of.dimension, *settled, Rounding::Nearest);
                    warn(&format!(
                        "budget {}: {spent} of {of} spent (warns at {percent}%)",
                        account.name
                    ));
                }
            }
        }
    }
}

/// Whether nothing is left to settle.
const fn is_taken(settled: &Result<(), BudgetStoreError>) -> bool {
    matches!(settled, Ok(()) | Err(BudgetStoreError::UnknownHold(_)))
}

/// Extends the hold, as long as it has amounts.
fn heartbeat(of: &Weak<Shared>) {
    loop {
        thread::sleep(HOLD_HEARTBEAT);
        let Some(shared) = of.upgrade() else { return };
        shared.settle_again();
        let held: Vec<String> = {
            let mut open = shared.open();
            if open.holds.is_empty() && open.unsettled.is_empty() {
                open.has_heartbeat = false;
                return;
            }
            open.holds.iter().cloned().collect()
        };
        for id in held {
            // One that has expired is corrected when it is settled.
            let _ = shared.store.grow(&[], &id, Amounts::ZERO, HOLD_TTL);
        }
    }
}

impl AccountHold {
    /// The amounts held.
    pub(crate) const fn amounts(&self) -> Amounts {
        self.amounts
    }

    /// The names of its accounts.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The units of which it is less than what was wanted for what other calls in flight hold.
    pub(crate) fn by_others(&self) -> &[Dimension] {
        &self.by_others
    }

    /// Ends the hold with the actual amounts.
    pub(crate) fn settle(mut self, actual: Amounts) {
        self.shared.settle(std::mem::take(&mut self.id), actual);
        if !actual.is_zero() {
            self.shared.warn_of(&self.names);
        }
    }
}

impl Drop for AccountHold {
    /// Without a settlement, nothing extends it from here on.
    fn drop(&mut self) {
        if !self.id.is_empty() {
            self.shared.open().holds.remove(&self.id);
        }
    }
}

impl fmt::Debug for AccountHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountHold").field("id", &self.id).finish_non_exhaustive()
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

#[cfg(test)]
mod tests;
