//! The accounts that runs draw on, and the life of a call's holds on them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use endstop_core::units::WallTime;
use tokio::time::Instant;

use super::limit::Window;
use super::refused::AccountRefused;
use super::spec::{Account, AccountError, AccountSet};
use super::store::{AccountState, BudgetStore, BudgetStoreError, HoldTerms, LimitState};
use super::tables::{AccountSource, AccountTables};
use super::warning::{AccountThreshold, AccountWarning};
use crate::clock::millis;
use crate::ledger::{Amounts, Dimension};
use crate::limits::{CLOCK_JUMP, HOLD_HEARTBEAT, HOLD_TTL, MAX_UNCHARGED, STORE_PATIENCE};
use crate::store::RunId;

mod drawn;

pub use drawn::DrawnAccounts;

/// Takes warnings about accounts.
type Warn = Arc<dyn Fn(&AccountWarning) + Send + Sync>;

/// The accounts that the runs of a tree draw on. Clones are the same accounts.
///
/// Their definitions can change while runs draw on them, by [`RunAccounts::replace`] or by a source
/// ([`RunAccounts::with_source`]). The next reservation is under the new ones; calls in flight settle where they were reserved.
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
    shared: Arc<AccountsState>,
    /// `None` for those that the definitions name.
    names: Option<Arc<[String]>>,
    /// Accounts on which another process counts the same calls.
    counted_elsewhere: Arc<[String]>,
}

/// The id of a hold, and what its call has spent.
type Unsettled = (String, Amounts);
/// The accounts of a cost, and the cost.
type Uncharged = (Vec<Account>, Amounts);
/// Settlements and costs that a store did not take.
type NotTaken = (Vec<Unsettled>, Vec<Uncharged>);

struct AccountsState {
    store: Arc<dyn BudgetStore>,
    owner: String,
    warn: Option<Warn>,
    source: Option<Arc<dyn AccountSource>>,
    /// See [`RunAccounts::refusing_unpriced`].
    refuses_unpriced: bool,
    /// The time between two signs that the owner of the holds lives.
    heartbeat: Duration,
    tables: RwLock<Arc<AccountTables>>,
    changes: Mutex<Changes>,
    open: Mutex<OpenHolds>,
}

/// The names that a change of the definitions has to keep. Locked from reading the source until its definitions are in use:
/// otherwise older ones could replace newer ones.
#[derive(Default)]
struct Changes {
    /// The names of [`RunAccounts::named`], as long as runs have them.
    named: Vec<Weak<[String]>>,
    /// Accounts that the definitions lack, and that are drawn on.
    kept: BTreeSet<String>,
}

/// A hold that has begun here and has not ended in the store.
#[derive(Default)]
struct OpenHolds {
    holds: BTreeSet<String>,
    /// Settlements that the store did not take: repeated until it does.
    unsettled: Vec<Unsettled>,
    /// Costs that nothing was held for and that the store did not take, with their accounts: repeated until it does.
    uncharged: Vec<Uncharged>,
    /// How many threads repeat entries, which are in neither list until then.
    repeating: usize,
    has_heartbeat: bool,
    /// Limits of which a warning was given, by account and text, until no further one is given. `None` if never again.
    warned: HashMap<(String, String), Option<WallTime>>,
    /// A warning was given that the clock is behind.
    has_warned_of_clock: bool,
    /// While the store fails.
    outage: Option<Outage>,
}

impl OpenHolds {
    /// Whether the owner has to show that it lives, or something is repeated.
    fn has_more(&self) -> bool {
        let waits = !self.unsettled.is_empty() || !self.uncharged.is_empty();
        !self.holds.is_empty() || waits || self.repeating > 0
    }
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

impl AccountBlock {
    /// The refusal or the error, for people.
    fn why(&self) -> String {
        match self {
            Self::Wait(AccountWait::Room { refused, .. }) | Self::Refused { refused, .. } => {
                refused.to_string()
            }
            Self::Wait(AccountWait::Store { why, .. }) | Self::Store(why) => why.clone(),
        }
    }
}

impl AccountWait {
    /// Returns whether waiting is no longer worth it: the store has failed for ten seconds. The driver then fails the call,
    /// or stops its run by [`RunHandle::give_up_on_account`](crate::RunHandle::give_up_on_account).
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Store { lasts, .. } if *lasts >= STORE_PATIENCE)
    }
}

/// The holds of a call on its accounts. [`AccountHold::settle`] ends it; if that never happens, it expires and is
/// charged. It is boxed where a call has it: most calls draw on no account, and a call is handed on several times.
pub(crate) struct AccountHold {
    shared: Arc<AccountsState>,
    id: String,
    names: Vec<String>,
    amounts: Amounts,
    /// Whether tokens or money of the call are limited by them.
    is_metered: bool,
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
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let tables = AccountTables { set, names, ..AccountTables::default() };
        let shared = Arc::new(AccountsState {
            store,
            owner: owner.to_owned(),
            warn: None,
            source: None,
            refuses_unpriced: false,
            heartbeat: HOLD_HEARTBEAT,
            tables: RwLock::new(Arc::new(tables)),
            changes: Mutex::default(),
            open: Mutex::default(),
        });
        Ok(Self { shared, names: None, counted_elsewhere: Arc::default() })
    }

    /// The same accounts with other settings, and with no calls in flight yet.
    fn with(self, change: impl FnOnce(&mut AccountsState)) -> Self {
        let of = &*self.shared;
        let mut shared = AccountsState {
            store: Arc::clone(&of.store),
            owner: of.owner.clone(),
            warn: of.warn.clone(),
            source: of.source.clone(),
            refuses_unpriced: of.refuses_unpriced,
            heartbeat: of.heartbeat,
            tables: RwLock::new(of.tables()),
            changes: Mutex::default(),
            open: Mutex::default(),
        };
        change(&mut shared);
        shared.changes().named.extend(self.names.as_ref().map(Arc::downgrade));
        Self { shared: Arc::new(shared), ..self }
    }

    /// Leaves out accounts on which another process of the same store counts the same calls, such as the gateway that the
    /// calls of this process go through: they would count twice, and the two would wait for each other.
    #[must_use]
    pub fn counted_elsewhere(self, names: &[&str]) -> Self {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Self { counted_elsewhere: names, ..self }
    }

    /// Sets the source in which the definitions are looked for before each reservation: people lower a budget while runs use it, and
    /// it should bound the next call. The first look comes then, so the source should begin with the definitions that these
    /// accounts have.
    #[must_use]
    pub fn with_source(self, source: Arc<dyn AccountSource>) -> Self {
        self.with(|shared| shared.source = Some(source))
    }

    /// Refuses calls of models without a price for which an account limits money, although the policy of the run counts them
    /// as nothing: for runs whose policy was made before the account was defined.
    #[must_use]
    pub fn refusing_unpriced(self) -> Self {
        self.with(|shared| shared.refuses_unpriced = true)
    }

    /// Returns the names of all accounts that some call draws on, or would if it were not counted elsewhere.
    #[must_use]
    pub fn drawn_names(&self) -> Vec<String> {
        self.current().drawn_names()
    }

    /// Sets the receiver of warnings, such as those about accounts whose spend has reached their threshold: each once per window
    /// and process. A rolling limit warns again after its spend was below the threshold, and after its length.
    #[must_use]
    pub fn with_warnings(self, warn: impl Fn(&AccountWarning) + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.warn = Some(Arc::new(warn)))
    }

    /// Returns the same accounts of the same store, for runs that draw on others of them.
    ///
    /// # Errors
    /// Returns an error if a name is not one of the set: it would limit nothing.
    pub fn named(&self, names: &[&str]) -> Result<Self, AccountError> {
        let mut changes = self.shared.changes();
        self.shared.tables().set.check_names(names)?;
        let names: Arc<[String]> = names.iter().map(|&name| name.to_owned()).collect();
        if changes.named.len() == changes.named.capacity() {
            changes.named.retain(|names| names.strong_count() > 0);
        }
        changes.named.push(Arc::downgrade(&names));
        drop(changes);
        Ok(Self { names: Some(names), ..self.clone() })
    }

    /// Replaces the definitions, from the next reservation on. Calls in flight settle where they were reserved. An account
    /// that runs draw on by name and that the new definitions lack keeps its last definition: nothing becomes unlimited by that.
    /// Returns the names of such accounts, those of earlier replacements included.
    pub fn replace(&self, tables: AccountTables) -> Vec<String> {
        let mut changes = self.shared.changes();
        self.shared.replace(&mut changes, tables);
        changes.kept.iter().cloned().collect()
    }

    /// Looks for new definitions in the source. Reservations do so themselves; a driver that decides before one whether a call
    /// has to be bounded calls it first. If another thread is looking, waits until its definitions are in use.
    pub fn refresh(&self) {
        self.look(self.shared.changes());
    }

    /// Like [`RunAccounts::refresh`], but if another thread is looking, uses the definitions as they are: a source can be
    /// slow, and calls do not wait for it one after the other.
    fn refresh_if_free(&self) {
        match self.shared.changes.try_lock() {
            Ok(changes) => self.look(changes),
            Err(TryLockError::Poisoned(poisoned)) => self.look(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn look(&self, mut changes: MutexGuard<'_, Changes>) {
        let Some(source) = &self.shared.source else { return };
        let Some(tables) = source.look() else { return };
        let kept = self.shared.replace(&mut changes, tables);
        drop(changes);
        if !kept.is_empty() {
            source.kept(&kept);
        }
    }

    /// Whether the store admits calls, by what this process knows of it: see [`BudgetStore::admit`].
    pub(crate) fn admit(&self) -> Result<(), BudgetStoreError> {
        self.shared.store.admit()
    }

    /// The accounts by the definitions as they are now.
    pub(crate) fn now(&self) -> DrawnAccounts {
        self.refresh_if_free();
        self.current()
    }

    /// The accounts by the definitions as they were last seen.
    pub(crate) fn current(&self) -> DrawnAccounts {
        DrawnAccounts::new(self.clone(), self.shared.tables())
    }

    /// Returns whether a run that draws on these draws on the others as well, for every model of a call: the same store
    /// has the same limits for them.
    #[must_use]
    pub fn covers(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.shared.store, &others.shared.store)
            && self.current().covers(&others.current())
    }

    /// Returns the current states of all accounts of the set.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn read(&self) -> Result<Vec<AccountState>, BudgetStoreError> {
        let tables = self.shared.tables();
        self.shared.store.read(&tables.set.iter().collect::<Vec<_>>())
    }
}

impl fmt::Debug for RunAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAccounts").field("names", &self.names).finish_non_exhaustive()
    }
}

impl AccountsState {
    fn open(&self) -> MutexGuard<'_, OpenHolds> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The definitions as they were last seen.
    fn tables(&self) -> Arc<AccountTables> {
        Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts definitions in use, and returns the names of accounts that they lack for the first time and that are drawn on.
    fn replace(&self, changes: &mut Changes, mut tables: AccountTables) -> Vec<String> {
        let before = self.tables();
        changes.named.retain(|names| names.strong_count() > 0);
        let named: Vec<Arc<[String]>> = changes.named.iter().filter_map(Weak::upgrade).collect();
        let drawn = before.names.iter().chain(named.iter().flat_map(|names| names.iter()));
        let kept = tables.set.keep(&before.set, drawn.map(String::as_str));
        for name in before.names.iter().filter(|name| kept.contains(*name)) {
            if !tables.names.contains(name) {
                tables.names.push(name.clone());
            }
        }
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
        let new = kept.difference(&changes.kept).cloned().collect();
        changes.kept = kept;
        new
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

    fn hold(
        this: &Arc<Self>,
        id: String,
        accounts: &[&Account],
        amounts: Amounts,
    ) -> Box<AccountHold> {
        let mut open = this.open();
        open.outage = None;
        open.holds.insert(id.clone());
        Self::begin_heartbeat(this, &mut open);
        drop(open);
        let names = accounts.iter().map(|account| account.name.clone()).collect();
        let mut limits = accounts.iter().flat_map(|account| &account.limits);
        let is_metered = limits.any(|limit| limit.dimension != Dimension::Steps);
        let shared = Arc::clone(this);
        Box::new(AccountHold { shared, id, names, amounts, is_metered, by_others: Vec::new() })
    }

    fn begin_heartbeat(this: &Arc<Self>, open: &mut OpenHolds) {
        if !open.has_heartbeat {
            let (of, interval) = (Arc::downgrade(this), this.heartbeat);
            let beat = thread::Builder::new().name("endstop-holds".to_owned());
            // Without it holds expire sooner: they are charged in full until they are settled.
            open.has_heartbeat = beat.spawn(move || heartbeat(&of, interval)).is_ok();
        }
    }

    /// Keeps a cost that the store does not take now. Returns whether there is room for it.
    fn charge_later(this: &Arc<Self>, accounts: &[&Account], actual: Amounts) -> bool {
        let mut open = this.open();
        let has_room = open.uncharged.len() < MAX_UNCHARGED;
        if has_room {
            open.uncharged.push((accounts.iter().copied().cloned().collect(), actual));
            Self::begin_heartbeat(this, &mut open);
        }
        has_room
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
        let (unsettled, uncharged) = {
            let mut open = self.open();
            if open.unsettled.is_empty() && open.uncharged.is_empty() {
                return;
            }
            // The heartbeat continues, because they can come back.
            open.repeating = open.repeating.saturating_add(1);
            (std::mem::take(&mut open.unsettled), std::mem::take(&mut open.uncharged))
        };
        let (unsettled, uncharged) = self.repeat(unsettled, uncharged);
        let mut open = self.open();
        open.unsettled.extend(unsettled);
        open.uncharged.extend(uncharged);
        open.repeating = open.repeating.saturating_sub(1);
    }

    /// Settles and charges. Returns the entries that the store did not take, with those behind them, which are not tried.
    fn repeat(&self, unsettled: Vec<Unsettled>, uncharged: Vec<Uncharged>) -> NotTaken {
        let mut unsettled = unsettled.into_iter();
        while let Some((id, actual)) = unsettled.next() {
            if !is_taken(&self.store.settle(&id, actual)) {
                return (unsettled.chain([(id, actual)]).collect(), uncharged);
            }
        }
        let mut uncharged = uncharged.into_iter();
        while let Some((accounts, actual)) = uncharged.next() {
            let id = RunId::new().to_string();
            let terms = HoldTerms { id: &id, owner: &self.owner, ttl: HOLD_TTL };
            let all: Vec<&Account> = accounts.iter().collect();
            // Nothing is asked, so no limit refuses it.
            if self.store.reserve(&all, Amounts::ZERO, &terms).is_err() {
                return (Vec::new(), uncharged.chain([(accounts, actual)]).collect());
            }
            if !is_taken(&self.store.settle(&id, actual)) {
                return (vec![(id, actual)], uncharged.collect());
            }
        }
        NotTaken::default()
    }

    /// Warns once, if the clock was set back or had been ahead when the store was used.
    fn tell_of_clock(&self, states: &[AccountState]) {
        let Some(warn) = &self.warn else { return };
        let behind = states.iter().map(|state| state.clock_behind).max().unwrap_or_default();
        if behind >= CLOCK_JUMP && !std::mem::replace(&mut self.open().has_warned_of_clock, true) {
            warn(&AccountWarning::ClockBehind(behind));
        }
    }

    /// Warns of the limits whose threshold is reached.
    fn warn_of(&self, names: &[String]) {
        let Some(warn) = &self.warn else { return };
        let tables = self.tables();
        let defined = names.iter().filter_map(|name| tables.set.get(name));
        let with_threshold = defined.filter_map(|account| Some((account, account.warn?)));
        let (accounts, thresholds): (Vec<&Account>, Vec<u8>) = with_threshold.unzip();
        if accounts.is_empty() {
            return;
        }
        let Ok(states) = self.store.read(&accounts) else { return };
        for ((account, threshold), state) in accounts.into_iter().zip(thresholds).zip(states) {
            for limit in &state.limits {
                if self.is_first_above(account, limit, threshold, state.now) {
                    warn(&AccountWarning::Threshold(AccountThreshold {
                        account: account.name.clone(),
                        limit: limit.limit,
                        spent: limit.settled,
                        threshold,
                        resets_at: limit.resets_at,
                    }));
                }
            }
        }
    }

    /// Whether the spend of a limit has reached its threshold, and no warning of that is recent; from now on one is.
    fn is_first_above(
        &self,
        account: &Account,
        state: &LimitState,
        threshold: u8,
        now: WallTime,
    ) -> bool {
        let LimitState { limit, settled, resets_at, .. } = state;
        let key = (account.name.clone(), limit.to_string());
        let mut open = self.open();
        let is_reached =
            u128::from(*settled) * 100 >= u128::from(limit.amount) * u128::from(threshold);
        if !is_reached {
            // A rolling window never ends as a whole. One of the calendar that was corrected stays the same one.
            if matches!(limit.window, Window::Rolling(_)) {
                open.warned.remove(&key);
            }
            return false;
        }
        let is_recent = open.warned.get(&key).is_some_and(|until| until.is_none_or(|it| now < it));
        if !is_recent {
            let until = match limit.window {
                Window::Rolling(length) => Some(WallTime(now.0.saturating_add(millis(length)))),
                _ => *resets_at,
            };
            open.warned.insert(key, until);
        }
        !is_recent
    }
}

/// Whether nothing is left to settle.
const fn is_taken(settled: &Result<(), BudgetStoreError>) -> bool {
    matches!(settled, Ok(()) | Err(BudgetStoreError::UnknownHold(_)))
}

/// Extends the hold, as long as it has amounts.
fn heartbeat(of: &Weak<AccountsState>, interval: Duration) {
    loop {
        thread::sleep(interval);
        let Some(shared) = of.upgrade() else { return };
        shared.settle_again();
        let held: Vec<String> = {
            let mut open = shared.open();
            if !open.has_more() {
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

    /// Whether one of its accounts limits tokens or money: then the call needs an output cap.
    pub(crate) const fn is_metered(&self) -> bool {
        self.is_metered
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

#[cfg(test)]
mod tests;
