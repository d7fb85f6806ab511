//! SQLite files of Endstop: opened, checked and created by one function.
//!
//! A separate file because the store of runs and that of budgets share it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::limits::SQLITE_PAUSE;

/// A kind of file.
#[derive(Clone, Copy)]
pub(crate) struct FileKind {
    /// The number that distinguishes the file from databases of other programs.
    pub(crate) application_id: i64,
    /// The version of the tables that is written, and the last that is read.
    pub(crate) version: i64,
    /// The statements that create the tables.
    pub(crate) schema: &'static str,
    /// The level of `PRAGMA synchronous`.
    pub(crate) synchronous: &'static str,
}

/// Why a file was not opened.
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
    check_owner(&connection, kind)?;
    keep_a_log(&connection, busy)?;
    connection.pragma_update(None, "synchronous", kind.synchronous)?;
    create_tables(&mut connection, kind)?;
    Ok(connection)
}

/// Refuses a file that this program may not change.
fn check_owner(connection: &Connection, kind: &FileKind) -> Result<(), OpenError> {
    let owner = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    if owner != kind.application_id && (tables > 0 || owner != 0 || version != 0) {
        return Err(OpenError::Foreign);
    }
    if version > kind.version {
        return Err(OpenError::Newer { found: unsigned(version), known: unsigned(kind.version) });
    }
    Ok(())
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

fn create_tables(connection: &mut Connection, kind: &FileKind) -> rusqlite::Result<()> {
    if number(connection, "user_version")? != 0 {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been first.
    if number(&transaction, "user_version")? == 0 {
        transaction.execute_batch(kind.schema)?;
        transaction.pragma_update(None, "application_id", kind.application_id)?;
        transaction.pragma_update(None, "user_version", kind.version)?;
    }
    transaction.commit()
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
