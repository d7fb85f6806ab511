//! SQLite files of Endstop: opened, checked and created by one function.
//!
//! A separate file because the store of runs, that of budgets and the history share it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::limits::SQLITE_PAUSE;

/// A kind of file.
#[derive(Clone, Copy)]
pub(crate) struct FileKind {
    /// The number that distinguishes the file from databases of other programs.
    pub(crate) application_id: i64,
    /// The statements that create the tables of version 1.
    pub(crate) schema: &'static str,
    /// The statements that make the tables of each version into those of the next.
    pub(crate) migrations: &'static [&'static str],
    /// The level of `PRAGMA synchronous`.
    pub(crate) synchronous: &'static str,
}

impl FileKind {
    /// The version of the tables that is written, and the last that is read.
    fn version(&self) -> i64 {
        signed(self.migrations.len() as u64).saturating_add(1)
    }
}

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// A database of another program.
    Foreign,
    /// Written by a later version.
    Newer {
        found: u64,
        known: u64,
    },
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

/// Opens a file with its tables, waiting at most `busy` for other processes.
pub(crate) fn open(path: &Path, kind: &FileKind, busy: Duration) -> Result<Connection, OpenError> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(busy)?;
    // Otherwise SQLite plans a kept statement again for each new value in a comparison, which takes longer than the statement.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    check_owner(&mut connection, kind)?;
    keep_a_log(&connection, busy)?;
    connection.pragma_update(None, "synchronous", kind.synchronous)?;
    create_tables(&mut connection, kind)?;
    Ok(connection)
}

/// Refuses a file that this program may not change. It reads in one transaction: another process may be creating the tables, and
/// a file without our number and with tables is a file of another program.
fn check_owner(connection: &mut Connection, kind: &FileKind) -> Result<(), OpenError> {
    let transaction = connection.transaction()?;
    let owner = number(&transaction, "application_id")?;
    let version = number(&transaction, "user_version")?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    if owner != kind.application_id && (tables > 0 || owner != 0 || version != 0) {
        return Err(OpenError::Foreign);
    }
    known_version(&transaction, kind)?;
    Ok(transaction.commit()?)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Turns write-ahead logging on. SQLite's own timeout does not cover this.
fn keep_a_log(connection: &Connection, busy: Duration) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && begun.elapsed() < busy => thread::sleep(SQLITE_PAUSE),
            done => return done,
        }
    }
}

/// Creates the tables, or makes those of an earlier version into those of this one.
fn create_tables(connection: &mut Connection, kind: &FileKind) -> Result<(), OpenError> {
    if number(connection, "user_version")? == kind.version() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been first, even one of a later version.
    let version = known_version(&transaction, kind)?;
    if version == 0 {
        transaction.execute_batch(kind.schema)?;
        transaction.pragma_update(None, "application_id", kind.application_id)?;
    }
    for step in kind.migrations.iter().skip(version.saturating_sub(1)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", kind.version())?;
    Ok(transaction.commit()?)
}

/// The version of the tables, 0 without any. Refuses one that this program does not know.
fn known_version(connection: &Connection, kind: &FileKind) -> Result<usize, OpenError> {
    let (version, known) = (number(connection, "user_version")?, kind.version());
    if version > known {
        return Err(OpenError::Newer { found: unsigned(version), known: unsigned(known) });
    }
    usize::try_from(version).map_err(|_| OpenError::Foreign)
}

/// Whether other processes kept the file busy.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// SQLite has no unsigned numbers; ours do not reach 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
