//! Runs that are stored in a directory: their spend survives the end of the process, `kill -9` included.
//!
//! ```text
//! kept/
//!   nightly-17.jsonl    the events of a root run, as an Endstop trace
//!   ~locks/             one process per directory
//! ```
//!
//! The gateway logs each call before sending it, and logs its cost before the client can send another; each is one
//! `write` to the end of the file. The system has it then, but the disk may not: a loss of power may take the last
//! events. A run that is named and not in memory continues from its file. [`TraceLog`] only appends lines, each with
//! a checksum, and replaces nothing but the number of lines in the first. A run whose file was removed begins again,
//! with a full budget.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::Program;
use endstop_runtime::ledger::Amounts;
use endstop_runtime::observe::{Observation, Observer, RunInfo};
use endstop_runtime::store::{FileStore, RunId, RunLock, Store as _, StoreError};
use endstop_runtime::trace::{
    Replayed, TraceBuffer, TraceFile, TraceFileError, TraceHole, TraceLog,
};
use thiserror::Error;
use tokio::task::JoinError;

use crate::limits::{MAX_OPEN_LOGS, MAX_UNWRITTEN};

/// The ending of a run's file.
const SUFFIX: &str = ".jsonl";
/// The directory's lock has a name among the locks of runs.
const LOCK: &str = "gateway";

/// The directory of stored runs. It is locked as long as one of its runs is in memory.
#[derive(Debug)]
pub(super) struct RunLogDir {
    directory: PathBuf,
    /// The version of the price table, for the headers.
    prices: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    _lock: RunLock,
    open: AtomicUsize,
}

/// Why stored runs cannot be read back.
#[derive(Debug, Error)]
pub(crate) enum OpenLogError {
    /// Another process uses the directory.
    #[error("{} stores its runs there", owner(*pid))]
    Locked {
        /// Its number, if that is known.
        pid: Option<u32>,
    },
    /// The directory cannot be used.
    #[error("{error}{}", cause(error))]
    Directory {
        /// The error of the store that holds the lock.
        error: StoreError,
    },
    /// The system does not let a file be read or shortened.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file cannot be read back.
    #[error("`{}`: {error}; nothing was changed: restore the file, or remove it to begin its run with a full budget", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        error: TraceFileError,
    },
    /// The spend of all runs is more than can be counted.
    #[error("the spend is too large to count")]
    TooMuchSpent,
    /// The thread that reads has failed.
    #[error(transparent)]
    Thread(#[from] JoinError),
}

impl OpenLogError {
    /// The problem as a client may see it: where the gateway stores its runs is no concern of theirs.
    pub(crate) fn without_paths(&self) -> String {
        match self {
            Self::Directory { .. } => "its directory cannot be used".to_owned(),
            Self::File { error, .. } => error.to_string(),
            _ => self.to_string(),
        }
    }
}

/// The process that uses a directory.
fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The cause of a store's error, if it has one.
fn cause(error: &StoreError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

impl RunLogDir {
    /// Locks the directory. Creates it if it is missing.
    pub(super) async fn open(directory: &Path, prices: &str) -> Result<Self, OpenLogError> {
        let locked = match FileStore::open(directory) {
            Err(error) => Err(error),
            Ok(store) => match RunId::parse(LOCK) {
                Ok(id) => store.lock(&id).await,
                Err(error) => unreachable!("the name of the lock is an id: {error}"),
            },
        };
        let lock = locked.map_err(|error| match error {
            StoreError::Locked { pid, .. } => OpenLogError::Locked { pid },
            error => OpenLogError::Directory { error },
        })?;
        let shared = Shared { _lock: lock, open: AtomicUsize::new(0) };
        let (directory, prices) = (directory.to_owned(), prices.to_owned());
        Ok(Self { directory, prices, shared: Arc::new(shared) })
    }

    fn path(&self, id: &RunId) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }

    /// Whether there is a file of the run.
    pub(super) fn has(&self, id: &RunId) -> bool {
        fs::symlink_metadata(self.path(id)).is_ok()
    }

    /// Returns the file that a run is written to from here on, and its text so far. Nothing is written yet.
    pub(super) fn file(
        &self,
        info: &RunInfo,
        program: &Arc<Program>,
    ) -> Result<(RunLogFile, Option<Replayed>), OpenLogError> {
        let read = self.read(&info.id, program)?;
        let buffer = TraceBuffer::new();
        match &read.replayed {
            None => buffer.push_header(info, Some(&self.prices)),
            Some(replayed) => replayed.added().iter().for_each(|event| buffer.push(event)),
        }
        let (shared, log) = (Arc::clone(&self.shared), Mutex::new(read.log));
        Ok((RunLogFile { shared, buffer, log }, read.replayed))
    }

    fn read(&self, id: &RunId, program: &Arc<Program>) -> Result<TraceFile, OpenLogError> {
        let path = self.path(id);
        TraceFile::read(&path, id, program).map_err(|error| OpenLogError::File { path, error })
    }

    /// The stored runs by their files, in no order.
    pub(super) fn ids(&self) -> io::Result<impl Iterator<Item = io::Result<RunId>>> {
        let entries = fs::read_dir(&self.directory)?;
        Ok(entries.filter_map(|entry| match entry {
            Err(error) => Some(Err(error)),
            Ok(entry) => {
                let name = entry.file_name();
                let stem = name.to_str()?.strip_suffix(SUFFIX)?;
                RunId::parse(stem).ok().map(Ok)
            }
        }))
    }

    /// Returns the spend of all stored runs, as the ledger counts it.
    pub(super) fn spent(&self, program: &Arc<Program>) -> Result<Amounts, OpenLogError> {
        let mut sum = Amounts::ZERO;
        for id in self.ids()? {
            let id = id?;
            let read = self.read(&id, program)?;
            let spent = read.replayed.map_or(Amounts::ZERO, |replayed| replayed.spent());
            sum = sum.checked_add(&spent).ok_or(OpenLogError::TooMuchSpent)?;
        }
        Ok(sum)
    }
}

/// Writes the events of one root run.
#[derive(Debug)]
pub(super) struct RunLogFile {
    shared: Arc<Shared>,
    /// Events that are not written yet.
    buffer: TraceBuffer,
    log: Mutex<TraceLog>,
}

impl RunLogFile {
    fn log(&self) -> MutexGuard<'_, TraceLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the waiting events. Returns why they cannot be written, now or earlier.
    pub(super) fn flush(&self) -> Result<(), TraceHole> {
        self.write(&mut self.log())
    }

    /// Returns why the run can no longer be stored.
    pub(super) fn problem(&self) -> Option<TraceHole> {
        self.buffer.hole()
    }

    /// Nothing more is written: the run is evicted, and may continue from its file.
    pub(super) fn close(&self) {
        let mut log = self.log();
        // The hole, if there is one, keeps its reason.
        drop(self.write(&mut log));
        self.buffer.break_off("the run was evicted from memory");
        self.shut(&mut log);
    }

    fn write(&self, log: &mut TraceLog) -> Result<(), TraceHole> {
        if self.buffer.hole().is_none() && self.buffer.is_empty() {
            return Ok(());
        }
        let was_open = log.is_open();
        let written = self.buffer.write_to(&mut *log, MAX_UNWRITTEN);
        match (was_open, log.is_open()) {
            (false, true) => self.shared.open.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.shared.open.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        if written.is_err() || self.shared.open.load(Ordering::Relaxed) > MAX_OPEN_LOGS {
            self.shut(log);
        }
        written
    }

    fn shut(&self, log: &mut TraceLog) {
        if log.is_open() {
            log.close();
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Observer for RunLogFile {
    fn observe(&self, seen: &Observation<'_>) {
        let mut log = self.log();
        self.buffer.observe(seen);
        if self.buffer.len() > MAX_UNWRITTEN {
            // The next flush reports the hole.
            drop(self.write(&mut log));
        }
    }
}

impl Drop for RunLogFile {
    fn drop(&mut self) {
        self.shut(&mut self.log());
    }
}
