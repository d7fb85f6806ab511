//! Tables and statements of accounts.

use std::path::Path;

use endstop_core::units::WallTime;
use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};

use super::super::counters::{Counter, FULL, HoldState, Place, Rows, StoredHold};
use super::super::store::{Adjustment, BudgetStoreError, PastAdjustment};
use crate::clock::millis;
use crate::json::json_of;
use crate::ledger::Amounts;
use crate::limits::{
    ACCOUNTS_BUSY, ACCOUNTS_OPENING, KEEP_ADJUSTMENTS, KEEP_COUNTERS, MAX_PAST_ADJUSTMENTS,
    REMEMBER_HOLDS,
};
use crate::sqlite_file::{self, FileKind, OpenError, signed, unsigned};

const KIND: FileKind = FileKind {
    // `endb` in ASCII.
    application_id: 0x656e_6462,
    schema: SCHEMA,
    migrations: &[],
    synchronous: "NORMAL",
};

const SCHEMA: &str = "
CREATE TABLE clock (latest INTEGER NOT NULL) STRICT;
INSERT INTO clock (latest) VALUES (0);
CREATE TABLE counter (
    account TEXT NOT NULL, kind TEXT NOT NULL, ended INTEGER NOT NULL, begun INTEGER NOT NULL,
    settled_steps INTEGER NOT NULL, settled_tokens INTEGER NOT NULL, settled_picos INTEGER NOT NULL,
    held_steps INTEGER NOT NULL, held_tokens INTEGER NOT NULL, held_picos INTEGER NOT NULL,
    unconfirmed_steps INTEGER NOT NULL, unconfirmed_tokens INTEGER NOT NULL,
    unconfirmed_picos INTEGER NOT NULL,
    PRIMARY KEY (account, kind, ended, begun)
) STRICT, WITHOUT ROWID;
CREATE TABLE hold (
    id TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, expires INTEGER NOT NULL, state INTEGER NOT NULL,
    steps INTEGER NOT NULL, tokens INTEGER NOT NULL, picos INTEGER NOT NULL, places TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX held ON hold (expires) WHERE state = 0;
CREATE TABLE adjustment (
    id TEXT PRIMARY KEY NOT NULL, at INTEGER NOT NULL, account TEXT NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
    spent TEXT NOT NULL, returned TEXT NOT NULL
) STRICT;
";

const COUNTERS: &str = "
SELECT ended, begun, settled_steps, settled_tokens, settled_picos, held_steps, held_tokens, held_picos,
    unconfirmed_steps, unconfirmed_tokens, unconfirmed_picos
FROM counter WHERE account = ?1 AND kind = ?2 AND ended > ?3 ORDER BY ended, begun";

const ADD: &str = "
INSERT INTO counter VALUES (?1, ?2, ?3, ?4, max(?5, 0), max(?6, 0), max(?7, 0), max(?8, 0), max(?9, 0),
    max(?10, 0), max(?11, 0), max(?12, 0), max(?13, 0))
ON CONFLICT DO UPDATE SET
    settled_steps = min(max(settled_steps + ?5, 0), ?14),
    settled_tokens = min(max(settled_tokens + ?6, 0), ?14),
    settled_picos = min(max(settled_picos + ?7, 0), ?14),
    held_steps = min(max(held_steps + ?8, 0), ?14),
    held_tokens = min(max(held_tokens + ?9, 0), ?14),
    held_picos = min(max(held_picos + ?10, 0), ?14),
    unconfirmed_steps = min(max(unconfirmed_steps + ?11, 0), ?14),
    unconfirmed_tokens = min(max(unconfirmed_tokens + ?12, 0), ?14),
    unconfirmed_picos = min(max(unconfirmed_picos + ?13, 0), ?14)";

const LATEST: &str = "SELECT latest FROM clock";

const HOLD: &str =
    "SELECT id, owner, expires, state, steps, tokens, picos, places FROM hold WHERE id = ?1";

const EXPIRED: &str = "
SELECT id, owner, expires, state, steps, tokens, picos, places FROM hold WHERE state = 0 AND expires <= ?1";

const ADJUSTMENTS: &str = "
SELECT at, spent, returned, who, why FROM adjustment WHERE account = ?1 ORDER BY at DESC, rowid DESC LIMIT ?2";

const NOTED: &str = "SELECT 1 FROM adjustment WHERE id = ?1";

/// Opens the file with its tables, and deletes old rows.
pub(super) fn open(path: &Path, now: u64) -> Result<Connection, BudgetStoreError> {
    let failed = |error| failed("open the store of budgets", path, &error);
    let opened = sqlite_file::open(path, &KIND, ACCOUNTS_OPENING).map_err(|error| match error {
        OpenError::Foreign => {
            let why = "it is a database of another program".to_owned();
            BudgetStoreError::Damaged { path: path.to_owned(), why }
        }
        OpenError::Newer { found, known } => {
            BudgetStoreError::Newer { path: path.to_owned(), found, known }
        }
        OpenError::Failed(error) => failed(error),
    });
    let connection = opened?;
    forget(&connection, now).map_err(failed)?;
    connection.busy_timeout(ACCOUNTS_BUSY).map_err(failed)?;
    Ok(connection)
}

/// Removes holds that ended, windows that were over, and corrections that were made, long ago.
pub(super) fn forget(connection: &Connection, now: u64) -> rusqlite::Result<()> {
    // A clock that is wrong for once makes nothing old.
    let latest = connection.query_row(LATEST, (), |row| row.get(0)).map(unsigned)?;
    let now = now.min(latest);
    let ago = |length| signed(now.saturating_sub(millis(length)));
    // Without old rows a command that only reads does not write.
    let old = "
        SELECT EXISTS (SELECT 1 FROM hold WHERE state IN (1, 2) AND expires < ?1)
            OR EXISTS (SELECT 1 FROM adjustment WHERE at < ?2)";
    let ends = [ago(REMEMBER_HOLDS), ago(KEEP_ADJUSTMENTS)];
    let has_old: bool = connection.query_row(old, ends, |row| row.get(0))?;
    if has_old {
        let remove = "DELETE FROM hold WHERE state IN (1, 2) AND expires < ?1";
        connection.execute(remove, [ago(REMEMBER_HOLDS)])?;
        connection.execute("DELETE FROM counter WHERE ended < ?1", [ago(KEEP_COUNTERS)])?;
        connection.execute("DELETE FROM adjustment WHERE at < ?1", [ago(KEEP_ADJUSTMENTS)])?;
    }
    Ok(())
}

/// The rows within one transaction.
#[derive(Clone, Copy)]
pub(super) struct SqliteRows<'c> {
    connection: &'c Connection,
    doing: &'static str,
    path: &'c Path,
}

impl<'c> SqliteRows<'c> {
    pub(super) const fn new(
        connection: &'c Connection,
        doing: &'static str,
        path: &'c Path,
    ) -> Self {
        Self { connection, doing, path }
    }

    fn done<T>(&self, result: rusqlite::Result<T>) -> Result<T, BudgetStoreError> {
        result.map_err(|error| failed(self.doing, self.path, &error))
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, BudgetStoreError> {
        let run = || self.connection.prepare_cached(sql)?.execute(values);
        self.done(run())
    }
}

impl Rows for SqliteRows<'_> {
    fn latest(&mut self) -> Result<u64, BudgetStoreError> {
        let read = || {
            let mut select = self.connection.prepare_cached(LATEST)?;
            select.query_row((), |row| row.get(0)).map(unsigned)
        };
        self.done(read())
    }

    fn set_latest(&mut self, now: u64) -> Result<(), BudgetStoreError> {
        self.execute("UPDATE clock SET latest = ?1", [signed(now)]).map(|_| ())
    }

    fn counters(
        &mut self,
        account: &str,
        kind: &str,
        after: u64,
    ) -> Result<Vec<(Place, Counter)>, BudgetStoreError> {
        let read = || {
            let mut select = self.connection.prepare_cached(COUNTERS)?;
            let rows = select.query_map(params![account, kind, signed(after)], |row| {
                let place = Place {
                    account: account.to_owned(),
                    kind: kind.to_owned(),
                    end: unsigned(row.get(0)?),
                    start: unsigned(row.get(1)?),
                };
                let three = |at: usize| -> rusqlite::Result<[i64; 3]> {
                    Ok([row.get(at)?, row.get(at + 1)?, row.get(at + 2)?])
                };
                let (settled, held, unconfirmed) = (three(2)?, three(5)?, three(8)?);
                Ok((place, Counter { settled, held, unconfirmed }))
            })?;
            rows.collect()
        };
        self.done(read())
    }

    fn add(&mut self, place: &Place, delta: &Counter) -> Result<(), BudgetStoreError> {
        let Counter { settled: [a, b, c], held: [d, e, f], unconfirmed: [g, h, i] } = delta;
        let (end, start) = (signed(place.end), signed(place.start));
        let (account, kind) = (&place.account, &place.kind);
        let values = params![account, kind, end, start, a, b, c, d, e, f, g, h, i, FULL];
        self.execute(ADD, values).map(|_| ())
    }

    fn hold(&mut self, id: &str) -> Result<Option<StoredHold>, BudgetStoreError> {
        let read = || self.connection.prepare_cached(HOLD)?.query_row([id], stored_hold).optional();
        self.done(read())
    }

    fn put_hold(&mut self, hold: &StoredHold) -> Result<(), BudgetStoreError> {
        let StoredHold { id, owner, expires, state, amounts: [steps, tokens, picos], places } =
            hold;
        let places = json_of(places);
        let values =
            params![id, owner, signed(*expires), *state as i64, steps, tokens, picos, places];
        let put = "INSERT OR REPLACE INTO hold VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        self.execute(put, values).map(|_| ())
    }

    fn expired(&mut self, now: u64) -> Result<Vec<StoredHold>, BudgetStoreError> {
        let read = || {
            let mut select = self.connection.prepare_cached(EXPIRED)?;
            select.query_map([signed(now)], stored_hold)?.collect()
        };
        self.done(read())
    }

    fn is_noted(&mut self, id: &str) -> Result<bool, BudgetStoreError> {
        let read = || self.connection.prepare_cached(NOTED)?.exists([id]);
        self.done(read())
    }

    fn note(&mut self, adjustment: &Adjustment<'_>, now: u64) -> Result<bool, BudgetStoreError> {
        let Adjustment { id, account, spent, returned, who, why, .. } = adjustment;
        let (spent, returned) = (json_of(spent), json_of(returned));
        let values = params![id, signed(now), account.name, who, why, spent, returned];
        let note = "INSERT OR IGNORE INTO adjustment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.execute(note, values).map(|changed| changed > 0)
    }
}

fn stored_hold(row: &Row<'_>) -> rusqlite::Result<StoredHold> {
    let places: String = row.get(7)?;
    let places = serde_json::from_str(&places)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(7, Type::Text, error.into()))?;
    Ok(StoredHold {
        id: row.get(0)?,
        owner: row.get(1)?,
        expires: unsigned(row.get(2)?),
        state: match row.get(3)? {
            0i64 => HoldState::Held,
            1 => HoldState::Expired,
            2 => HoldState::Settled,
            other => return Err(rusqlite::Error::IntegralValueOutOfRange(3, other)),
        },
        amounts: [row.get(4)?, row.get(5)?, row.get(6)?],
        places,
    })
}

/// The latest corrections of an account, the newest first.
pub(super) fn adjustments(
    connection: &Connection,
    account: &str,
    most: usize,
) -> rusqlite::Result<Vec<PastAdjustment>> {
    let most = i64::try_from(most.min(MAX_PAST_ADJUSTMENTS)).unwrap_or(0);
    let mut select = connection.prepare_cached(ADJUSTMENTS)?;
    select.query_map(params![account, most], past_adjustment)?.collect()
}

fn past_adjustment(row: &Row<'_>) -> rusqlite::Result<PastAdjustment> {
    let amounts = |at: usize| -> rusqlite::Result<Amounts> {
        let text: String = row.get(at)?;
        serde_json::from_str(&text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(at, Type::Text, error.into())
        })
    };
    Ok(PastAdjustment {
        at: WallTime(unsigned(row.get(0)?)),
        spent: amounts(1)?,
        returned: amounts(2)?,
        who: row.get(3)?,
        why: row.get(4)?,
    })
}

/// Converts an error of the database to one for the caller.
pub(super) fn failed(
    doing: &'static str,
    path: &Path,
    error: &rusqlite::Error,
) -> BudgetStoreError {
    let path = path.to_owned();
    let is_damaged = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    );
    if is_damaged {
        return BudgetStoreError::Damaged { path, why: error.to_string() };
    }
    BudgetStoreError::Failed { doing, path, why: error.to_string() }
}
