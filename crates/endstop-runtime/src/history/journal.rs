//! Journals: entries of the history that are in a file of their process, and not yet in the tables.
//!
//! A line in a file costs a fraction of a transaction, and outlives the process as well. Each process that opens the history takes
//! over the journals of processes that ended. Each line has a number, and the transaction that writes its entry has that number
//! too: so an entry is written once, whenever a process dies.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::HistoryError;
use super::entry::{HistoryEntry, ProcessFacts};
use super::rows;
use crate::json::{push_json_line, raw_json_of, version_of_line};
use crate::limits::{JOURNAL_LOOK, JOURNAL_LOOKS, MAX_JOURNAL_BYTES, MAX_JOURNALS};
use crate::store::disk;

const ENDING: &str = ".journal";

/// The ending of a journal that has a line that cannot be read.
const DAMAGED: &str = "damaged";

/// The version of a line.
const VERSION: u64 = 1;

/// A line, as it is read.
#[derive(Debug, Deserialize)]
pub(super) struct JournalLine {
    pub(super) number: u64,
    process: ProcessFacts,
    pub(super) entry: HistoryEntry,
}

/// A line, as it is stored. Each names its process, because lines before it are removed.
#[derive(Debug, Serialize)]
struct StoredLine<'l> {
    version: u64,
    number: u64,
    process: &'l RawValue,
    entry: &'l HistoryEntry,
}

/// The journal that this process writes. It is locked as long as it is open.
#[derive(Debug)]
pub(super) struct OwnJournal {
    file: File,
    path: PathBuf,
    /// The name in the tables.
    pub(super) name: String,
    /// The process, as each line has it.
    process: Box<RawValue>,
    /// The number of the last line.
    pub(super) number: u64,
    bytes: u64,
    /// The last line. It is kept, because its memory is used again.
    line: Vec<u8>,
}

impl OwnJournal {
    /// Creates it next to the history.
    pub(super) fn create(history: &Path, process: &ProcessFacts) -> io::Result<Self> {
        let name = history.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{name}-{}{ENDING}", process.id);
        let path = history.with_file_name(&name);
        let opened = disk::open_locked(&path, false).inspect_err(|_| {
            // No other process has this name. A file system without locks creates the file anyway.
            let _ = fs::remove_file(&path);
        });
        let file = opened?.ok_or(io::ErrorKind::WouldBlock)?;
        let process = raw_json_of(process);
        Ok(Self { file, path, name, process, number: 0, bytes: 0, line: Vec::new() })
    }

    /// Appends an entry. It is there when this returns, even if the process is killed.
    pub(super) fn append(&mut self, entry: &HistoryEntry) -> io::Result<()> {
        let number = self.number.saturating_add(1);
        self.line.clear();
        let line = StoredLine { version: VERSION, number, process: &self.process, entry };
        push_json_line(&mut self.line, &line);
        let length = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        let bytes = self.bytes.saturating_add(length);
        if bytes > MAX_JOURNAL_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = disk::write_all(&self.file, &self.line) {
            // A part of a line would spoil the next one.
            disk::set_len(&self.file, self.bytes)?;
            return Err(error);
        }
        (self.number, self.bytes) = (number, bytes);
        Ok(())
    }

    /// Removes all lines: their entries are in the tables.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        disk::set_len(&self.file, 0)?;
        self.bytes = 0;
        Ok(())
    }

    /// Its length in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Removes the file, which is empty.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// The lines of a journal. The rest after the last line feed was never acknowledged.
#[derive(Default)]
pub(super) struct JournalLines {
    pub(super) lines: Vec<JournalLine>,
    /// How many others cannot be read.
    pub(super) damaged: u64,
    /// Whether a later version of this program wrote one.
    pub(super) is_later: bool,
}

impl JournalLines {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut read = Self::default();
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !text.ends_with(b"\n") {
                continue;
            }
            match version_of_line(text) {
                Ok(version) if version > VERSION => read.is_later = true,
                Ok(_) => match serde_json::from_slice(text) {
                    Ok(line) => read.lines.push(line),
                    Err(_) => read.damaged = read.damaged.saturating_add(1),
                },
                Err(_) => read.damaged = read.damaged.saturating_add(1),
            }
        }
        read
    }
}

/// The journals next to a history, at most a number of them.
pub(super) fn beside(history: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = history.file_name().and_then(|name| name.to_str()) else {
        return Ok(Vec::new());
    };
    let directory = history.parent().filter(|it| !it.as_os_str().is_empty());
    let begin = format!("{name}-");
    let mut found = Vec::new();
    for file in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
        let file = file?;
        let is_one = |name: &str| name.starts_with(&begin) && name.ends_with(ENDING);
        if file.file_name().to_str().is_some_and(is_one) {
            found.push(file.path());
        }
        if found.len() >= MAX_JOURNALS {
            break;
        }
    }
    Ok(found)
}

/// Writes the entries of processes that ended, each once. Journals of living ones stay as they are.
///
/// Returns the problems with those that cannot be read whole: what can be read of them is written, and they are kept under
/// another name. One that this user may not open stays, and the others are taken over.
pub(super) fn take_over(
    connection: &mut Connection,
    history: &Path,
) -> Result<Vec<HistoryError>, HistoryError> {
    let mut damaged = Vec::new();
    for path in beside(history).map_err(|error| failed(history, &error))? {
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if disk::is_link_error(&error) => continue,
            // Trying again does not help, and the calls of this process should not wait for it.
            Err(error) if is_barred(&error) => {
                damaged.push(failed(&path, &error));
                continue;
            }
            file => file.map_err(|error| failed(&path, &error))?,
        };
        match file.try_lock() {
            Ok(()) => {}
            // Its process lives, or the file system has no locks.
            Err(_) => continue,
        }
        if disk::is_at(&file, &path).map_err(|error| failed(&path, &error))? {
            damaged.extend(take(connection, history, &path, &file)?);
        }
    }
    // A process may have ended between the removal of its journal and this.
    let is_gone = |name: &str| !history.with_file_name(name).exists();
    let forgotten = rows::forget_journals(connection, is_gone);
    forgotten.map_err(|error| HistoryError::of("write the history", history, &error))?;
    Ok(damaged)
}

/// Whether a file is not one that this user can open.
fn is_barred(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory)
}

fn failed(path: &Path, why: &dyn fmt::Display) -> HistoryError {
    let doing = "take over a journal of the history";
    HistoryError::Failed { doing, path: path.to_owned(), why: why.to_string() }
}

/// Waits until what living processes have settled by now is in the tables, but not for long: one of them may hang.
pub(super) fn wait_for_others(connection: &Connection, history: &Path) {
    let last = |path: &Path| {
        let bytes = bytes_of(&open(path).ok()?).ok()?;
        JournalLines::of(&bytes).lines.last().map(|line| line.number)
    };
    let journals = beside(history).unwrap_or_default().into_iter();
    let mut others: Vec<_> = journals.filter_map(|path| Some((last(&path)?, path))).collect();
    for _ in 0..JOURNAL_LOOKS {
        others.retain(|(number, path)| {
            let written = rows::last_line(connection, &name_of(path));
            path.exists() && written.is_ok_and(|written| written < *number)
        });
        if others.is_empty() {
            return;
        }
        thread::sleep(JOURNAL_LOOK);
    }
}

/// Opens the journal of another process. It is not created: a third one may have removed it.
fn open(path: &Path) -> io::Result<File> {
    disk::not_through_links().read(true).append(true).open(path)
}

/// The contents of a journal, at most one byte more than it may have.
fn bytes_of(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_JOURNAL_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The name of a journal in the tables.
fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Takes over one whose lock this process has. Returns an error if it cannot be read whole. One of a later version stays as it is.
fn take(
    connection: &mut Connection,
    history: &Path,
    path: &Path,
    file: &File,
) -> Result<Option<HistoryError>, HistoryError> {
    let of_tables = |error: rusqlite::Error| HistoryError::of("write the history", history, &error);
    let bytes = bytes_of(file).map_err(|error| failed(path, &error))?;
    let is_too_long = u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_JOURNAL_BYTES);
    let JournalLines { lines, damaged, is_later } = JournalLines::of(&bytes);
    if is_later {
        return Ok(Some(failed(path, &"a later version of Endstop wrote it")));
    }
    let name = name_of(path);
    let written = rows::last_line(connection, &name).map_err(of_tables)?;
    let last = lines.last().map(|line| (line.number, line.process.clone()));
    if let Some((number, process)) = last {
        let new = lines.into_iter().filter(|line| line.number > written);
        let entries: Vec<_> = new.map(|line| line.entry).collect();
        if !entries.is_empty() {
            let mark = Some((&*name, number));
            rows::write(connection, &process, &entries, mark).map_err(of_tables)?;
        }
    }
    if damaged > 0 || is_too_long {
        let kept = path.with_extension(DAMAGED);
        disk::rename(path, &kept).map_err(|error| failed(path, &error))?;
        let why = match is_too_long {
            true => format!("it has more than {MAX_JOURNAL_BYTES} bytes"),
            false => format!("{damaged} of its lines cannot be read"),
        };
        return Ok(Some(failed(path, &format!("{why}; it is kept as `{}`", kept.display()))));
    }
    fs::remove_file(path).map_err(|error| failed(path, &error))?;
    rows::forget_journal(connection, &name).map_err(of_tables)?;
    Ok(None)
}

#[cfg(test)]
mod tests;
