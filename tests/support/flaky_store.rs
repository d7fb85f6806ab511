//! A store of budgets in memory that fails as long as a test wants.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use endstop_runtime::account::{
    Account, AccountState, Adjustment, BudgetStore, BudgetStoreError, HoldTerms, MemoryBudgetStore,
    PastAdjustment,
};
use endstop_runtime::ledger::Amounts;

/// The error of an operation.
pub(crate) type Failure = fn() -> BudgetStoreError;

/// It can come back.
pub(crate) fn away() -> BudgetStoreError {
    BudgetStoreError::Away { server: "test".to_owned(), why: "on purpose".to_owned() }
}

/// The store. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlakyStore {
    store: Arc<MemoryBudgetStore>,
    failure: Arc<Mutex<Option<Failure>>>,
    /// Of the check before a call is sent.
    lapse: Arc<Mutex<Option<Failure>>>,
}

impl FlakyStore {
    /// From here on every operation fails in this way, or none.
    pub(crate) fn fail(&self, failure: Option<Failure>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// From here on reservations succeed, and calls are no longer admitted after them, or they are again.
    #[allow(dead_code, reason = "each test has its part of these")]
    pub(crate) fn lapse(&self, failure: Option<Failure>) {
        *self.lapse.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn step(&self) -> Result<(), BudgetStoreError> {
        let failure = *self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(()), |failure| Err(failure()))
    }
}

impl BudgetStore for FlakyStore {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.store.reserve(accounts, amounts, terms)
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.store.grow(accounts, id, by, ttl)
    }

    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.store.settle(id, actual)
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.step()?;
        self.store.read(accounts)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.store.adjust(adjustment)
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        self.step()?;
        self.store.adjustments(account, most)
    }

    fn admit(&self) -> Result<(), BudgetStoreError> {
        let lapse = *self.lapse.lock().unwrap_or_else(PoisonError::into_inner);
        lapse.map_or(Ok(()), |lapse| Err(lapse()))
    }
}
