//! The store of budgets, opened when something is counted in it for the first time: a process whose calls draw on no budget
//! leaves no file behind, and budgets can be defined while it runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use endstop::account::{
    Account, AccountState, Adjustment, BudgetStore, BudgetStoreError, HoldTerms, PastAdjustment,
    RedisBudgetStore, SqliteBudgetStore,
};
use endstop::ledger::Amounts;

use super::{LOCAL_STORE, state_directory};

/// The file of the user's budgets, or a store that is shared with other machines.
#[derive(Debug)]
pub(super) struct LazyStore {
    /// `None` without a state directory.
    file: Option<PathBuf>,
    opened: OnceLock<Arc<dyn BudgetStore>>,
    /// Locked while it is opened, which can wait for other processes.
    opening: Mutex<()>,
}

impl LazyStore {
    /// The store of the user, or the remote one.
    pub(super) fn new(remote: Option<&Arc<RedisBudgetStore>>) -> Self {
        let file = state_directory().map(|directory| directory.join(LOCAL_STORE));
        let opened = OnceLock::new();
        if let Some(remote) = remote {
            opened.get_or_init(|| Arc::clone(remote) as Arc<dyn BudgetStore>);
        }
        Self { file, opened, opening: Mutex::new(()) }
    }

    /// The open store. If it cannot be opened, the next call tries again.
    pub(super) fn open(&self) -> Result<Arc<dyn BudgetStore>, BudgetStoreError> {
        if let Some(store) = self.opened.get() {
            return Ok(Arc::clone(store));
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = self.opened.get() {
            return Ok(Arc::clone(store));
        }
        let file = self.file.as_ref().ok_or_else(|| BudgetStoreError::Failed {
            doing: "open the store of budgets",
            path: LOCAL_STORE.into(),
            why: "neither XDG_STATE_HOME nor HOME is set".to_owned(),
        })?;
        let store: Arc<dyn BudgetStore> = Arc::new(SqliteBudgetStore::open(file)?);
        Ok(Arc::clone(self.opened.get_or_init(|| store)))
    }
}

impl BudgetStore for LazyStore {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        self.open()?.reserve(accounts, amounts, terms)
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        self.open()?.grow(accounts, id, by, ttl)
    }

    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        self.open()?.settle(id, actual)
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        self.open()?.read(accounts)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.open()?.adjust(adjustment)
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        self.open()?.adjustments(account, most)
    }

    /// A call that draws on no budget needs no file, and does not wait until another one has opened it.
    fn admit(&self) -> Result<(), BudgetStoreError> {
        self.opened.get().map_or(Ok(()), |store| store.admit())
    }
}

#[cfg(test)]
mod tests;
