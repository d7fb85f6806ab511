//! The file of a trace: a header, and the lines that were appended under a lock.
//!
//! An appended line that is a JSON object gets its seal as two more keys. Any other text is stored as the object
//! `{"line":"…"}`, because the contract of a store is any line. Readers get the lines as they were appended.

use std::io::{self, ErrorKind};
use std::path::Path;

use endstop_core::wire::v1::trace::{Header, VERSION};
use serde::{Deserialize, Serialize};

use super::super::page::{Page, lines_of};
use super::super::sealed_file::{self, SealedLines, TraceFileError};
use super::super::{RunId, StoreError, disk, seal};

/// How every line begins.
const OBJECT: &[u8] = b"{";
/// How the object begins that holds a line which is no object. Lines that begin so themselves are held by one too.
const QUOTED: &str = "{\"line\":";

/// A line that is stored as a text.
#[derive(Serialize, Deserialize)]
struct Quoted {
    line: String,
}

/// A run's trace on the disk.
pub(super) struct TraceAt<'p> {
    pub(super) id: &'p RunId,
    pub(super) path: &'p Path,
    /// Locked while the file is created.
    pub(super) guard: &'p Path,
    /// The directory of the store if appends wait for the disk.
    pub(super) wait_in: Option<&'p Path>,
}

impl TraceAt<'_> {
    /// Appends lines, and takes them back after an error. With a store's directory it waits until the disk has the lines,
    /// and the names of a new file and its directory.
    pub(super) fn append(&self, lines: &str) -> Result<(), StoreError> {
        let failed =
            |error| StoreError::failed(format!("append to run `{}`", self.id), self.path, error);
        let file = loop {
            match disk::open_existing_locked(self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.create().map_err(failed)?
                }
                file => break file.map_err(failed)?,
            }
        };
        let mut end = sealed_file::find_end(&file, self.path, self.id, OBJECT)
            .map_err(|error| self.error(error, "append to"))?;
        let stored: Vec<_> = lines_of(lines).map(stored).collect();
        let stored = stored.iter().map(String::as_bytes);
        sealed_file::append(&file, &mut end, stored, self.wait_in.is_some()).map_err(failed)
    }

    /// Creates the file with its header.
    fn create(&self) -> io::Result<()> {
        let _guard = disk::open_locked(self.guard, true)?;
        let run = self.id.as_str().into();
        let header =
            Header { endstop_trace: VERSION, run, model: None, cost_is: None, prices: None };
        let header = serde_json::to_vec(&header)?;
        match sealed_file::create(self.path, [header.as_slice()], self.wait_in.is_some()) {
            // Another process was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            created => drop(created?),
        }
        if let Some(store) = self.wait_in {
            disk::sync_directory(self.path.parent().unwrap_or(store))?;
            disk::sync_directory(store)?;
        }
        Ok(())
    }

    /// Whole lines from a line on, up to a page. Every line up to the last of them is checked, and at the end of the file
    /// that none is missing.
    pub(super) fn read(&self, from_line: u64) -> Result<Vec<String>, StoreError> {
        self.page(from_line).map_err(|error| self.error(error, "read the trace of"))
    }

    fn page(&self, from_line: u64) -> Result<Vec<String>, TraceFileError> {
        let mut page = Page::default();
        let Some(mut lines) = SealedLines::open(self.path, self.id, OBJECT)? else {
            return Ok(page.into_lines());
        };
        let mut number = 0;
        while !page.is_full()
            && let Some(line) = lines.advance()?
        {
            if number >= from_line {
                let line = appended(line).map_err(|error| lines.unread(error.into()))?;
                page.push(line);
            }
            number = number.saturating_add(1);
        }
        Ok(page.into_lines())
    }

    fn error(&self, error: TraceFileError, doing: &str) -> StoreError {
        let (doing, path) = (format!("{doing} run `{}`", self.id), self.path.to_owned());
        match error {
            TraceFileError::Io(error) => StoreError::failed(doing, &path, error),
            damage => StoreError::Damaged { path, why: damage.to_string() },
        }
    }

    /// Removes the file once no process appends to it. Returns whether there was one.
    pub(super) fn remove(&self) -> io::Result<bool> {
        disk::remove_file(&sealed_file::draft(self.path))?;
        match disk::open_existing_locked(self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            held => {
                let held = held?;
                let was_there = disk::remove_file(self.path);
                drop(held);
                was_there
            }
        }
    }
}

/// The object that a line is stored as.
fn stored(line: &str) -> String {
    let is_object = line.starts_with('{') && line.ends_with('}') && line.len() > 2;
    if is_object && !line.starts_with(QUOTED) && !line.bytes().any(|byte| byte.is_ascii_control()) {
        return line.to_owned();
    }
    match serde_json::to_string(&Quoted { line: line.to_owned() }) {
        Ok(quoted) => quoted,
        Err(error) => unreachable!("a text can be written to memory: {error}"),
    }
}

/// The line that was appended, from the sealed one.
fn appended(line: &[u8]) -> serde_json::Result<String> {
    if line.starts_with(QUOTED.as_bytes()) {
        return serde_json::from_slice(line).map(|quoted: Quoted| quoted.line);
    }
    let line = seal::unsealed(line).unwrap_or_else(|| line.to_owned());
    Ok(String::from_utf8_lossy(&line).into_owned())
}
