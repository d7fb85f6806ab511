//! Accounts in one SQLite file, shared by all processes of a user.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_core::units::WallTime;
use rusqlite::{Connection, TransactionBehavior};

use self::rows::SqliteRows;
use super::counters;
use super::spec::Account;
use super::store::{
    AccountState, Adjustment, BudgetStore, BudgetStoreError, HoldTerms, PastAdjustment,
};
use crate::clock::{WallClock, millis, system_wall_time};
use crate::ledger::Amounts;
use crate::limits::{ACCOUNTS_BUSY_ROUNDS, SQLITE_PAUSE, TIDY_EVERY};
use crate::sqlite_file::is_busy;
use crate::store::disk;

mod rows;

/// Accounts in one SQLite file (SQLite is built in). Any number of handles and processes may use it at a time; it has to be
/// on a local disk.
///
/// An operation that returned has happened, whatever kills the process. A loss of power can take back what the system has not
/// written to the disk yet, usually up to half a minute: waiting for the disk at every call would cost more than the call.
///
/// Holds are deleted a week after their end; windows that are over, and corrections, after 400 days. That happens when the file
/// is opened, and once a day while it is in use.
///
/// ```
/// use endstop_runtime::account::{Account, BudgetStore, HoldTerms, SqliteBudgetStore};
/// use endstop_runtime::ledger::Amounts;
/// use std::time::Duration;
///
/// # let directory = std::env::temp_dir().join(format!("endstop-{}", endstop_runtime::store::RunId::new()));
/// let store = SqliteBudgetStore::open(directory.join("budgets.sqlite"))?;
/// let me = Account::new("me", &["1000 steps per day"])?;
/// let steps = |steps| Amounts { steps, ..Amounts::ZERO };
/// store.reserve(&[&me], steps(2), &HoldTerms { id: "a", owner: "run-1", ttl: Duration::from_secs(60) })?;
///
/// // Another process sees it.
/// let other = SqliteBudgetStore::open(directory.join("budgets.sqlite"))?;
/// assert_eq!(other.read(&[&me])?[0].limits[0].held, 2);
/// # drop((store, other));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteBudgetStore {
    path: PathBuf,
    connection: Mutex<Connection>,
    wall: WallClock,
    /// When old rows were last deleted, in milliseconds.
    tidied: AtomicU64,
}

impl SqliteBudgetStore {
    /// Returns the store in a file, which is created if it is missing, with its directory.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created, belongs to another program, or was written by a later version.
    pub fn open(file: impl AsRef<Path>) -> Result<Self, BudgetStoreError> {
        Self::open_with_clock(file, Arc::new(system_wall_time))
    }

    /// Like [`SqliteBudgetStore::open`], with a clock.
    ///
    /// # Errors
    /// Returns the errors of [`SqliteBudgetStore::open`].
    pub fn open_with_clock(
        file: impl AsRef<Path>,
        wall: WallClock,
    ) -> Result<Self, BudgetStoreError> {
        let path = file.as_ref().to_owned();
        let failed = |error: std::io::Error| BudgetStoreError::Failed {
            doing: "open the store of budgets",
            path: path.clone(),
            why: error.to_string(),
        };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty())
        {
            disk::create_directory(directory).map_err(failed)?;
        }
        // SQLite gives the files that it creates next to this one the same permissions.
        disk::create_file(&path).map_err(failed)?;
        let now = wall().0;
        let connection = Mutex::new(rows::open(&path, now)?);
        Ok(Self { path, connection, wall, tidied: AtomicU64::new(now) })
    }

    fn locked(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one operation in a transaction, which is taken back if the operation fails.
    fn write(
        &self,
        doing: &'static str,
        operation: impl FnOnce(&mut SqliteRows<'_>, WallTime) -> Result<(), BudgetStoreError>,
    ) -> Result<(), BudgetStoreError> {
        let failed = |error| rows::failed(doing, &self.path, &error);
        let mut rounds = 1;
        let wall = loop {
            {
                let mut connection = self.locked();
                match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
                    Err(error) if is_busy(&error) && rounds < ACCOUNTS_BUSY_ROUNDS => {}
                    begun => {
                        let transaction = begun.map_err(failed)?;
                        // Read once all others have written: time does not run backwards because one waited.
                        let wall = (self.wall)();
                        operation(&mut SqliteRows::new(&transaction, doing, &self.path), wall)?;
                        transaction.commit().map_err(failed)?;
                        break wall;
                    }
                }
            }
            rounds += 1;
            std::thread::sleep(SQLITE_PAUSE);
        };
        self.tidy(wall.0);
        Ok(())
    }

    /// Deletes old rows once a day: a gateway can run for months.
    fn tidy(&self, now: u64) {
        let last = self.tidied.load(Ordering::Relaxed);
        // In both directions: a clock that was ahead for once must not put it off.
        if now.abs_diff(last) < millis(TIDY_EVERY) {
            return;
        }
        self.tidied.store(now, Ordering::Relaxed);
        // The operation before it has happened. If this fails, it is done on another day.
        let _ = rows::forget(&self.locked(), now);
    }
}

impl fmt::Debug for SqliteBudgetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBudgetStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BudgetStore for SqliteBudgetStore {
    fn reserve(
        &self,
        accounts: &[&Account],
        amounts: Amounts,
        terms: &HoldTerms<'_>,
    ) -> Result<(), BudgetStoreError> {
        self.write("reserve on a budget", |rows, wall| {
            counters::reserve(rows, wall, accounts, &amounts, terms)
        })
    }

    fn grow(
        &self,
        accounts: &[&Account],
        id: &str,
        by: Amounts,
        ttl: Duration,
    ) -> Result<(), BudgetStoreError> {
        self.write("extend a hold", |rows, wall| counters::grow(rows, wall, accounts, id, &by, ttl))
    }

    fn settle(&self, id: &str, actual: Amounts) -> Result<(), BudgetStoreError> {
        self.write("settle a hold", |rows, wall| counters::settle(rows, wall, id, &actual))
    }

    fn read(&self, accounts: &[&Account]) -> Result<Vec<AccountState>, BudgetStoreError> {
        let doing = "read the budgets";
        let failed = |error| rows::failed(doing, &self.path, &error);
        let mut connection = self.locked();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(failed)?;
        let mut rows = SqliteRows::new(&transaction, doing, &self.path);
        counters::read(&mut rows, (self.wall)(), accounts)
    }

    fn adjust(&self, adjustment: &Adjustment<'_>) -> Result<(), BudgetStoreError> {
        self.write("correct a budget", |rows, wall| counters::adjust(rows, wall, adjustment))
    }

    fn adjustments(
        &self,
        account: &str,
        most: usize,
    ) -> Result<Vec<PastAdjustment>, BudgetStoreError> {
        let read = rows::adjustments(&self.locked(), account, most);
        read.map_err(|error| rows::failed("read the corrections of a budget", &self.path, &error))
    }
}

#[cfg(test)]
mod tests;
