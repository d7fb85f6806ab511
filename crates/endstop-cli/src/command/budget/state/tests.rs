//! Corrections: each counts once, and one that is made is never an error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use endstop::account::{HoldTerms, MemoryBudgetStore};

use super::*;

/// A store that cannot be read after a correction.
#[derive(Debug, Default)]
struct LostAfterwards {
    store: MemoryBudgetStore,
    is_lost: AtomicBool,
}

impl LostAfterwards {
    fn check(&self) -> Result<(), BudgetStoreError> {
        let (server, why) = ("test".to_owned(), "on purpose".to_owned());
        let is_lost = self.is_lost.load(Ordering::SeqCst);
        if is_lost { Err(BudgetStoreError::Away { server, why }) } else { Ok(()) }
    }
}

impl BudgetStore for LostAfterwards {
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

    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        self.store.settle(id, actual)
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.check()?;
        self.store.read(accounts)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.store.adjust(adjustment)?;
        self.is_lost.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        self.store.adjustments(account, most)
    }
}

fn budgets() -> AccountSet {
    AccountSet::new([Account::new("me", &["$5"]).unwrap()]).unwrap()
}

fn request(amount: &str, id: Option<&str>) -> CorrectionRequest {
    CorrectionRequest {
        amount: amount.to_owned(),
        message: "a test".to_owned(),
        by: None,
        id: id.map(str::to_owned),
    }
}

fn correct(
    store: &dyn BudgetStore,
    request: &CorrectionRequest,
) -> Result<CorrectedBudgets, SourceError> {
    let set = budgets();
    PlannedCorrection::read(&set, "me", request)?.apply(&set, store)
}

fn spent(store: &dyn BudgetStore) -> u64 {
    let set = budgets();
    let all: Vec<&Account> = set.iter().collect();
    store.read(&all).unwrap()[0].limits[0].settled
}

const DOLLAR: u64 = 1_000_000_000_000;

#[test]
fn a_correction_that_is_repeated_with_its_id_counts_once() {
    let store = MemoryBudgetStore::new();
    for _ in 0..2 {
        correct(&store, &request("+2", Some("first"))).unwrap();
    }
    assert_eq!(spent(&store), 2 * DOLLAR);
    // The repetition of a return succeeds although so much is no longer there.
    for _ in 0..2 {
        correct(&store, &request("-2", Some("second"))).unwrap();
    }
    assert_eq!(spent(&store), 0);
    // Without an id, each is a new one.
    for _ in 0..2 {
        correct(&store, &request("+1", None)).unwrap();
    }
    assert_eq!(spent(&store), 2 * DOLLAR);
}

#[test]
fn a_correction_that_is_made_is_no_error_if_the_budgets_cannot_be_read_afterwards() {
    let store = LostAfterwards::default();
    let corrected = correct(&store, &request("+2", None)).unwrap();
    assert!(corrected.budgets.is_empty(), "{corrected:?}");
    let [note] = corrected.notes.as_slice() else { panic!("{corrected:?}") };
    assert!(note.starts_with("the correction is made, and the budgets cannot be read"), "{note}");
    assert_eq!(spent(&store.store), 2 * DOLLAR);
}

#[test]
fn a_refused_correction_names_its_status() {
    let store = MemoryBudgetStore::new();
    let kind =
        |amount: &str, id: Option<&str>| correct(&store, &request(amount, id)).unwrap_err().kind;
    assert_eq!(kind("-1", None), SourceErrorKind::Refused);
    assert_eq!(kind("1", None), SourceErrorKind::Unusable);
    assert_eq!(kind("+1", Some("")), SourceErrorKind::Unusable, "an empty id");
    assert_eq!(kind("+1", Some("x".repeat(129).as_str())), SourceErrorKind::Unusable);
    assert_eq!(spent(&store), 0);
}
