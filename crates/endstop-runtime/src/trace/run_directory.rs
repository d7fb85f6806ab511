//! Runs that are stored in a directory: their spend survives the end of the process, `kill -9` included.
//!
//! ```text
//! kept/
//!   nightly-17.jsonl    the events of a root run, as an Endstop trace
//!   ~locks/             one process per directory
//! ```
//!
//! Each append is one `write` to the end of the file. The system has it then, but the disk may not: a loss of power may
//! take the last events. [`TraceLog`] only appends lines, each with a checksum, and replaces nothing but the number of lines
//! in the first. A run whose file was removed begins again, with a full budget.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use endstop_core::Program;

use super::file::TraceFile;
use super::log::TraceLog;
use super::run_log::{AppendError, OpenRun, RunLines, RunLog, RunLogError};
use crate::limits::MAX_OPEN_LOGS;
use crate::store::{FileStore, RunId, RunLock, Store as _, StoreError};

/// The ending of a run's file.
const SUFFIX: &str = ".jsonl";
/// The directory's lock has a name among the locks of runs.
const LOCK: &str = "gateway";

/// Runs in a directory of one process. It is locked as long as the log or the lines of a run are in memory.
///
/// See the example of [`RunLog`].
#[derive(Debug)]
pub struct DirectoryRunLog {
    directory: PathBuf,
    shared: Arc<DirectoryUse>,
}

#[derive(Debug)]
struct DirectoryUse {
    _lock: RunLock,
    open: AtomicUsize,
}

impl DirectoryRunLog {
    /// Locks the directory. Creates it if it is missing.
    ///
    /// # Errors
    /// Returns an error if it cannot be used, or another process uses it.
    pub async fn open(directory: &Path) -> Result<Self, RunLogError> {
        let locked = match FileStore::open(directory) {
            Err(error) => Err(error),
            Ok(store) => match RunId::parse(LOCK) {
                Ok(id) => store.lock(&id).await,
                Err(error) => unreachable!("the name of the lock is an id: {error}"),
            },
        };
        let lock = locked.map_err(|error| match error {
            StoreError::Locked { pid, .. } => RunLogError::Locked { pid },
            error => RunLogError::Directory { error },
        })?;
        let shared = Arc::new(DirectoryUse { _lock: lock, open: AtomicUsize::new(0) });
        Ok(Self { directory: directory.to_owned(), shared })
    }

    /// Removes the runs that were last written to before a time, and returns how many there were. A run that is named again
    /// after that has its full budget. Meant for the start: a run that is open here must not lose its file.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read, or a file cannot be removed.
    pub fn forget(&self, before: SystemTime) -> Result<u64, RunLogError> {
        let mut removed = 0u64;
        for id in self.ids(usize::MAX)? {
            let path = self.path(&id);
            let found = fs::symlink_metadata(&path)?;
            // Only files are runs.
            if found.is_file() && found.modified()? < before {
                fs::remove_file(&path)?;
                removed = removed.saturating_add(1);
            }
        }
        Ok(removed)
    }

    fn path(&self, id: &RunId) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }
}

impl RunLog for DirectoryRunLog {
    fn open(&self, id: &RunId, program: &Arc<Program>) -> Result<OpenRun, RunLogError> {
        let path = self.path(id);
        let read = TraceFile::read(&path, id, program);
        let TraceFile { replayed, log } =
            read.map_err(|error| RunLogError::File { path, error })?;
        let lines = FileLines { shared: Arc::clone(&self.shared), log };
        Ok(OpenRun { replayed, lines: Box::new(lines) })
    }

    fn has(&self, id: &RunId) -> Result<bool, RunLogError> {
        Ok(fs::symlink_metadata(self.path(id)).is_ok())
    }

    /// Those that come first by their names.
    fn ids(&self, most: usize) -> Result<Vec<RunId>, RunLogError> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            found.extend(stem.and_then(|stem| RunId::parse(stem).ok()));
            if found.len() > most {
                found.pop_last();
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// Writes the file of one run.
#[derive(Debug)]
struct FileLines {
    shared: Arc<DirectoryUse>,
    log: TraceLog,
}

impl RunLines for FileLines {
    fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        let was_open = self.log.is_open();
        let written: io::Result<()> = self.log.write_all(lines);
        match (was_open, self.log.is_open()) {
            (false, true) => self.shared.open.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.shared.open.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        if written.is_err() || self.shared.open.load(Ordering::Relaxed) > MAX_OPEN_LOGS {
            self.close();
        }
        Ok(written?)
    }

    fn close(&mut self) {
        if self.log.is_open() {
            self.log.close();
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for FileLines {
    fn drop(&mut self) {
        self.close();
    }
}
