//! Accounts in the memory of one process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use endstop_core::units::WallTime;

use super::counters::{self, Counter, HoldState, Place, Rows, StoredHold, changed};
use super::spec::Account;
use super::store::{
    AccountState, Adjustment, BudgetStore, BudgetStoreError, HoldTerms, PastAdjustment,
};
use crate::clock::{WallClock, system_wall_time};
use crate::ledger::Amounts;
use crate::limits::{MAX_PAST_ADJUSTMENTS, MAX_REMEMBERED_HOLDS};

/// Accounts in the memory of one process: for tests, and for a gateway that alone serves its accounts. Clones are the same
/// store.
///
/// See the example of [the module](super).
#[derive(Clone)]
pub struct MemoryBudgetStore {
    rows: Arc<Mutex<MemoryRows>>,
    wall: WallClock,
}

impl MemoryBudgetStore {
    /// Creates an empty store with the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(system_wall_time))
    }

    /// Creates an empty store with a clock.
    #[must_use]
    pub fn with_clock(wall: WallClock) -> Self {
        Self { rows: Arc::default(), wall }
    }

    fn with<T>(&self, operation: impl FnOnce(&mut MemoryRows, WallTime) -> T) -> T {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        operation(&mut rows, (self.wall)())
    }
}

impl Default for MemoryBudgetStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBudgetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudgetStore").finish_non_exhaustive()
    }
}

impl BudgetStore for MemoryBudgetStore {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        self.with(|rows, wall| counters::reserve(rows, wall, accounts, &amounts, terms))
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        self.with(|rows, wall| counters::grow(rows, wall, accounts, id, &by, ttl))
    }

    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        self.with(|rows, wall| counters::settle(rows, wall, id, &actual))
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.with(|rows, wall| {
            rows.is_reading = true;
            let states = counters::read(rows, wall, accounts);
            rows.is_reading = false;
            states
        })
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.with(|rows, wall| counters::adjust(rows, wall, adjustment))
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        Ok(self.with(|rows, _| {
            let past = rows.adjustments.get(account).into_iter().flatten();
            past.take(most).cloned().collect()
        }))
    }
}

/// The rows. No operation on them fails half-way: what can refuse does so before the first change.
#[derive(Default)]
struct MemoryRows {
    latest: u64,
    /// The time of a reader is not kept: nothing is too old because of it.
    is_reading: bool,
    counters: BTreeMap<(String, String), BTreeMap<(u64, u64), Counter>>,
    holds: HashMap<String, StoredHold>,
    /// Expiry and id of the holds.
    held: BTreeSet<(u64, String)>,
    /// Ended holds, oldest first.
    ended: VecDeque<String>,
    noted: HashSet<String>,
    /// The latest corrections of each account, the newest first.
    adjustments: HashMap<String, VecDeque<PastAdjustment>>,
}

impl Rows for MemoryRows {
    fn latest(&mut self) -> Result<u64, BudgetStoreError> {
        Ok(self.latest)
    }

    fn set_latest(&mut self, now: u64) -> Result<(), BudgetStoreError> {
        self.latest = now;
        Ok(())
    }

    fn counters(
        &mut self,
        account: &str,
        kind: &str,
        after: u64,
    ) -> Result<Vec<(Place, Counter)>, BudgetStoreError> {
        let key = (account.to_owned(), kind.to_owned());
        let Some(all) = self.counters.get_mut(&key) else { return Ok(Vec::new()) };
        if !self.is_reading {
            // Counts that no window sums are removed, unless a call of them is in flight. They stay as long again for
            // holds of that time that grow.
            let oldest = after.saturating_sub(self.latest.saturating_sub(after));
            let none = counters::Counts::default();
            all.retain(|(end, _), counter| *end > oldest || counter.held != none);
        }
        let summed = all.iter().filter(|((end, _), _)| *end > after);
        let place = |end, start| {
            let (account, kind) = key.clone();
            Place { account, kind, end, start }
        };
        Ok(summed.map(|((end, start), counter)| (place(*end, *start), *counter)).collect())
    }

    fn add(&mut self, place: &Place, delta: &Counter) -> Result<(), BudgetStoreError> {
        let key = (place.account.clone(), place.kind.clone());
        let counters = self.counters.entry(key).or_default();
        let counter = counters.entry((place.end, place.start)).or_default();
        *counter = changed(counter, delta);
        Ok(())
    }

    fn hold(&mut self, id: &str) -> Result<Option<StoredHold>, BudgetStoreError> {
        Ok(self.holds.get(id).cloned())
    }

    fn put_hold(&mut self, hold: &StoredHold) -> Result<(), BudgetStoreError> {
        let before = self.holds.insert(hold.id.clone(), hold.clone());
        let was_held = before.as_ref().is_some_and(|it| it.state == HoldState::Held);
        if let Some(before) = before.filter(|_| was_held) {
            self.held.remove(&(before.expires, before.id));
        }
        if hold.state == HoldState::Held {
            self.held.insert((hold.expires, hold.id.clone()));
        } else if was_held {
            self.ended.push_back(hold.id.clone());
            if self.ended.len() > MAX_REMEMBERED_HOLDS
                && let Some(oldest) = self.ended.pop_front()
            {
                self.holds.remove(&oldest);
            }
        }
        Ok(())
    }

    fn expired(&mut self, now: u64) -> Result<Vec<StoredHold>, BudgetStoreError> {
        let passed = self.held.iter().take_while(|(expires, _)| *expires <= now);
        Ok(passed.filter_map(|(_, id)| self.holds.get(id).cloned()).collect())
    }

    fn is_noted(&mut self, id: &str) -> Result<bool, BudgetStoreError> {
        Ok(self.noted.contains(id))
    }

    fn note(&mut self, adjustment: &Adjustment<'_>, now: u64) -> Result<bool, BudgetStoreError> {
        let Adjustment { id, account, spent, returned, who, why, .. } = *adjustment;
        if !self.noted.insert(id.to_owned()) {
            return Ok(false);
        }
        let (at, who, why) = (WallTime(now), who.to_owned(), why.to_owned());
        let past = self.adjustments.entry(account.name.clone()).or_default();
        past.push_front(PastAdjustment { at, spent, returned, who, why });
        past.truncate(MAX_PAST_ADJUSTMENTS);
        Ok(true)
    }
}
