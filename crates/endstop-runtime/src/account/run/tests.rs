//! Holds that are never settled, and settlements that no store takes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::account::{Adjustment, HoldTerms, MemoryBudgetStore, PastAdjustment};

#[test]
fn a_hold_that_is_dropped_is_not_extended() {
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &["me"], "test").unwrap();
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let reserve = || accounts.now().reserve("", "", step, step).unwrap().unwrap();
    let (dropped, settled) = (reserve(), reserve());
    assert_eq!(accounts.shared.open().holds.len(), 2);
    drop(dropped);
    assert_eq!(accounts.shared.open().holds.len(), 1);
    settled.settle(step);
    assert!(accounts.shared.open().holds.is_empty());
    let limit = accounts.read().unwrap().remove(0).limits.remove(0);
    assert_eq!((limit.settled, limit.held), (1, 1), "it expires and is charged");
}

#[test]
fn a_clock_that_is_set_back_is_told_once() {
    let now = Arc::new(std::sync::atomic::AtomicU64::new(1_700_000_000_000));
    let wall = Arc::clone(&now);
    let store =
        MemoryBudgetStore::with_clock(Arc::new(move || WallTime(wall.load(Ordering::SeqCst))));
    let set = AccountSet::new([Account::new("me", &["9 steps per day"]).unwrap()]).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let accounts = RunAccounts::new(Arc::new(store), set, &["me"], "test")
        .unwrap()
        .with_warnings(move |warning| telling.lock().unwrap().push(warning.clone()));
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let call = || {
        accounts.now().check("", "", &step).unwrap();
        accounts.now().reserve("", "", step, step).unwrap().unwrap().settle(step);
    };
    call();
    // Less than the clocks of machines differ.
    now.fetch_sub(30_000, Ordering::SeqCst);
    call();
    assert!(told.lock().unwrap().is_empty());
    now.fetch_sub(2 * 60 * 60 * 1000, Ordering::SeqCst);
    (0..3).for_each(|_| call());
    let told = told.lock().unwrap();
    let is_clock = matches!(told.as_slice(), [AccountWarning::ClockBehind(_)]);
    assert!(is_clock && told[0].to_string().starts_with("the clock is 2h"), "{told:?}");
}

/// A store that takes no settlement, and counts how often it is asked.
#[derive(Debug, Default)]
struct Stuck {
    store: MemoryBudgetStore,
    asked: AtomicU32,
}

impl BudgetStore for Stuck {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        self.store.reserve(accounts, amounts, terms)
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        self.store.grow(accounts, id, by, ttl)
    }

    fn settle(&self, _id: &str, _actual: Amounts) -> Result<(), BudgetStoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let why = "fails on purpose".to_owned();
        Err(BudgetStoreError::Failed { doing: "settle", path: "test".into(), why })
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.store.read(accounts)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.store.adjust(adjustment)
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        self.store.adjustments(account, most)
    }
}

#[test]
fn a_store_that_takes_nothing_is_asked_once_for_all_settlements() {
    let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
    let store = Arc::new(Stuck::default());
    let shared: Arc<dyn BudgetStore> = Arc::<Stuck>::clone(&store);
    let accounts = RunAccounts::new(shared, set, &["me"], "test").unwrap();
    let step = Amounts { steps: 1, ..Amounts::ZERO };
    let reserve = || accounts.now().reserve("", "", step, step).unwrap().unwrap();
    let holds = [reserve(), reserve(), reserve()];
    holds.into_iter().for_each(|hold| hold.settle(step));
    assert_eq!(store.asked.load(Ordering::SeqCst), 3);
    drop(reserve());
    assert_eq!(store.asked.load(Ordering::SeqCst), 4);
    assert_eq!(accounts.shared.open().unsettled.len(), 3);
}

#[test]
fn names_of_handles_that_are_gone_keep_no_account() {
    let both = ["a", "b"].map(|name| Account::new(name, &["9 steps"]).unwrap());
    let set = AccountSet::new(both).unwrap();
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, set, &[], "test").unwrap();
    let stays = accounts.named(&["a"]).unwrap();
    for _ in 0..99 {
        drop(accounts.named(&["b"]).unwrap());
    }
    assert!(accounts.shared.changes().named.len() < 9);
    assert_eq!(accounts.replace(AccountTables::default()), ["a"]);
    assert_eq!(stays.drawn_names(), ["a"]);
    assert_eq!(accounts.read().unwrap().len(), 1);
}
