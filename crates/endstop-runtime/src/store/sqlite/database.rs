//! Tables and statements.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::super::page::{Page, lines_of};
use super::super::{
    Durability, RunId, RunSummary, StoreError, StoredState, Version, label, newest_first,
    next_version, now_millis,
};
use crate::clock::millis;
use crate::limits::SQLITE_BUSY;
use crate::sqlite_file::{self, FileKind, OpenError, is_busy, signed, unsigned};

/// Distinguishes the file from other programs' databases: `ends` in ASCII.
const APPLICATION_ID: i64 = 0x656e_6473;

const SCHEMA: &str = "
CREATE TABLE state (
    run TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    saved_at INTEGER NOT NULL,
    label TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE trace (
    run TEXT NOT NULL,
    line INTEGER NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (run, line)
) STRICT;
";

/// Opens the database with its tables.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let synchronous = if durability >= Durability::Power { "FULL" } else { "NORMAL" };
    let kind =
        FileKind { application_id: APPLICATION_ID, schema: SCHEMA, migrations: &[], synchronous };
    sqlite_file::open(path, &kind, SQLITE_BUSY).map_err(|error| match error {
        OpenError::Foreign => {
            let why = "it is a database of another program".to_owned();
            StoreError::Damaged { path: path.to_owned(), why }
        }
        OpenError::Newer { found, known } => {
            StoreError::Newer { path: path.to_owned(), found, known }
        }
        OpenError::Failed(error) => self::error("open the store".to_owned(), path, &error),
    })
}

/// Saves a state, if the stored version is the expected one.
pub(super) fn save(
    connection: &Connection,
    id: &RunId,
    state: &str,
    expected: Option<Version>,
) -> rusqlite::Result<Result<Version, StoreError>> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT version FROM state WHERE run = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    let version = match next_version(id, expected, Version(found.map_or(0, unsigned))) {
        Ok(version) => version,
        conflict => return Ok(conflict),
    };
    connection
        .prepare_cached(
            "INSERT INTO state (run, version, saved_at, label, bytes, text)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (run) DO UPDATE SET version = ?2, saved_at = ?3, label = ?4, bytes = ?5, text = ?6",
        )?
        .execute(params![
            id.as_str(),
            signed(version.0),
            signed(now_millis()),
            label::of_state(state),
            i64::try_from(state.len()).unwrap_or(i64::MAX),
            state,
        ])?;
    Ok(Ok(version))
}

/// The stored state.
pub(super) fn load(connection: &Connection, id: &RunId) -> rusqlite::Result<Option<StoredState>> {
    connection
        .prepare_cached("SELECT version, saved_at, text FROM state WHERE run = ?1")?
        .query_row([id.as_str()], |row| {
            Ok(StoredState {
                version: Version(unsigned(row.get(0)?)),
                saved_at: unsigned(row.get(1)?),
                text: row.get(2)?,
            })
        })
        .optional()
}

/// Appends lines, each as a row with its number.
pub(super) fn append(connection: &Connection, id: &RunId, lines: &str) -> rusqlite::Result<()> {
    let first: i64 = connection
        .prepare_cached("SELECT coalesce(max(line) + 1, 0) FROM trace WHERE run = ?1")?
        .query_row([id.as_str()], |row| row.get(0))?;
    let mut insert =
        connection.prepare_cached("INSERT INTO trace (run, line, text) VALUES (?1, ?2, ?3)")?;
    for (line, text) in (first..).zip(lines_of(lines)) {
        insert.execute(params![id.as_str(), line, text])?;
    }
    Ok(())
}

/// Lines from a number on, up to a page.
pub(super) fn read_trace(
    connection: &Connection,
    id: &RunId,
    from_line: u64,
) -> rusqlite::Result<Vec<String>> {
    let mut select = connection
        .prepare_cached("SELECT text FROM trace WHERE run = ?1 AND line >= ?2 ORDER BY line")?;
    let mut rows = select.query(params![id.as_str(), signed(from_line)])?;
    let mut page = Page::default();
    while !page.is_full()
        && let Some(row) = rows.next()?
    {
        page.push(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned());
    }
    Ok(page.into_lines())
}

/// The runs that have a state.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<RunSummary>> {
    let mut select =
        connection.prepare_cached("SELECT run, version, saved_at, label, bytes FROM state")?;
    let mut rows = select.query(())?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        // Only another program can have put in what is no id.
        let Ok(id) = row.get::<_, String>(0)?.parse() else { continue };
        runs.push(RunSummary {
            id,
            version: Version(unsigned(row.get(1)?)),
            saved_at: unsigned(row.get(2)?),
            label: row.get(3)?,
            bytes: unsigned(row.get(4)?),
            problem: None,
        });
    }
    newest_first(&mut runs);
    Ok(runs)
}

/// Removes state and trace; whether there was either.
pub(super) fn remove(connection: &Connection, id: &RunId) -> rusqlite::Result<bool> {
    let states = connection.execute("DELETE FROM state WHERE run = ?1", [id.as_str()])?;
    let lines = connection.execute("DELETE FROM trace WHERE run = ?1", [id.as_str()])?;
    Ok(states > 0 || lines > 0)
}

/// Converts an error of the database to one for the caller.
pub(super) fn error(doing: String, path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    if is_busy(error) {
        let waited_ms = millis(SQLITE_BUSY);
        return StoreError::Busy { doing, path, waited_ms };
    }
    let damaged = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    ) || matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::Utf8Error(..)
    );
    if damaged {
        return StoreError::Damaged { path, why: error.to_string() };
    }
    StoreError::Failed { doing, path, source: error.to_string().into() }
}
