//! Databases of tools, opened so that nothing is written next to them and no file can make a reader run what it says.
//!
//! A database on disk is opened as immutable: SQLite takes no lock, makes no file, and leaves alone a tool that has
//! it open. Data that the tool has not yet moved from its log (`-wal`) into the database is not read; a warning
//! reports that.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Params, Row};

use super::head::Head;
use super::limits::{MAX_DATABASE_BYTES, MAX_LINE_BYTES};
use super::reading::Reading;
use super::warning::WarningKind;

/// How a database begins.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The length of a database's header, in bytes.
const HEADER_BYTES: usize = 100;

/// Whether a file is a database whose beginning has all of these texts.
pub(super) fn is_with(head: &Head<'_>, texts: &[&str]) -> bool {
    head.bytes().starts_with(MAGIC) && texts.iter().all(|text| head.mentions(text))
}

/// A database that is only read.
pub(super) struct Database<'s> {
    reading: Reading<'s>,
    connection: Connection,
}

impl<'s> Database<'s> {
    /// Opens the file, if it has a table of each of these sets. Whatever is wrong with it is a warning.
    pub(super) fn open(reading: Reading<'s>, tables: &[&[&str]]) -> Option<Self> {
        warn_if_cut(reading);
        let opened = match reading.part.path() {
            Some(path) => open_file(reading, path),
            None => open_bytes(reading),
        };
        let warn = |error: &rusqlite::Error| {
            reading.warn(WarningKind::Malformed, || format!("not a database: {error}"));
        };
        let connection = opened.inspect_err(warn).ok()??;
        let set = connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
            .and_then(|_| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false))
            .and_then(|_| {
                connection.execute_batch("PRAGMA query_only = ON; PRAGMA cell_size_check = ON;")
            });
        set.inspect_err(warn).ok()?;
        let database = Self { reading, connection };
        let missing = tables.iter().find(|any| !any.iter().any(|table| database.has_table(table)));
        if let Some(any) = missing {
            let names = any.join("` or `");
            let message = || format!("the database has no table `{names}`");
            reading.warn(WarningKind::Malformed, message);
            return None;
        }
        Some(database)
    }

    /// Whether it has a table of this name. A view could be anything, and take forever.
    pub(super) fn has_table(&self, name: &str) -> bool {
        let mut found = false;
        let query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 \
                     AND sql NOT LIKE 'create virtual%'";
        self.each(query, [name], &mut |_| {
            found = true;
            Ok(())
        });
        found
    }

    /// Hands over the rows that a query gives. A fault ends them, and is a warning.
    pub(super) fn each(
        &self,
        query: &str,
        params: impl Params,
        take: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) {
        let read = || {
            let mut statement = self.connection.prepare_cached(query)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        };
        if let Err(error) = read() {
            let error: rusqlite::Error = error;
            self.reading
                .warn(WarningKind::Malformed, || format!("cannot be read further: {error}"));
        }
    }

    /// The text of a column, which may be stored as bytes; `None` and a warning if it is longer than any record.
    pub(super) fn text(&self, row: &Row<'_>, column: usize) -> Option<String> {
        let bytes = row.get_ref(column).ok()?.as_bytes().ok()?;
        if bytes.len() > MAX_LINE_BYTES {
            let limit = MAX_LINE_BYTES >> 20;
            self.reading.warn(WarningKind::TooLarge, || {
                format!("a record of more than {limit} MiB is skipped")
            });
            return None;
        }
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

fn open_file(reading: Reading<'_>, path: &Path) -> rusqlite::Result<Option<Connection>> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if Path::new(&log).metadata().is_ok_and(|log| log.len() > 0) {
        reading.warn(WarningKind::LowerBound, || {
            "the tool has the database open: its last changes are not read".to_owned()
        });
    }
    if let Err(error) = reading.part.open() {
        reading.warn(WarningKind::Unreadable, || format!("cannot be opened: {error}"));
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri_of(path), flags).map(Some)
}

/// The path as an address whose every unusual byte is escaped.
fn uri_of(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let text = path.to_string_lossy().replace('\\', "/");
    let mut uri = String::from("file:");
    if !text.starts_with('/') {
        uri.push('/');
    }
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~:".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?mode=ro&immutable=1"
}

fn open_bytes(reading: Reading<'_>) -> rusqlite::Result<Option<Connection>> {
    let length = reading.part.length().and_then(|length| usize::try_from(length).ok());
    let (Ok(file), Some(length)) = (reading.part.open(), length) else {
        reading.warn(WarningKind::Unreadable, || "a database has to be a file".to_owned());
        return Ok(None);
    };
    if length > MAX_DATABASE_BYTES {
        let limit = MAX_DATABASE_BYTES >> 20;
        reading.warn(WarningKind::TooLarge, || format!("larger than {limit} MiB"));
        return Ok(None);
    }
    if length == 0 {
        return Ok(None);
    }
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact("main", file, length, true)?;
    Ok(Some(connection))
}

/// Warns if the file is shorter than its header says.
fn warn_if_cut(reading: Reading<'_>) {
    let mut header = Vec::new();
    if let Ok(file) = reading.part.open() {
        use std::io::Read as _;
        let _ = file.take(HEADER_BYTES as u64).read_to_end(&mut header);
    } else {
        return;
    }
    let number = |at: usize, length: usize| {
        let bytes = header.get(at..at + length).unwrap_or_default();
        bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let page = match number(16, 2) {
        1 => 65_536,
        bytes => bytes,
    };
    let whole = page.saturating_mul(number(28, 4));
    let is_short = reading.part.length().is_some_and(|length| length < whole);
    if header.len() < HEADER_BYTES || is_short {
        reading
            .warn(WarningKind::Truncated, || "the file is shorter than its header says".to_owned());
    }
}
