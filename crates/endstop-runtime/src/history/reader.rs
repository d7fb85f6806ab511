//! Reading the history, and removing what is old.

use std::fmt;
use std::path::{Path, PathBuf};

use endstop_core::units::WallTime;
use rusqlite::Connection;

use super::rows::{self, Which};
use super::{HistoryError, Pruned, RecordedCall, RecordedRun};
use super::{journal, writer};
use crate::limits::HISTORY_OPENING;

/// The history in a file. Processes may write it at the same time.
///
/// See the example of [`HistoryRecorder`](super::HistoryRecorder).
pub struct History {
    path: PathBuf,
    connection: Connection,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("path", &self.path).finish_non_exhaustive()
    }
}

impl History {
    /// Opens the history in a file. `None` if the file is missing and no journal is next to it: it is not created.
    ///
    /// It takes over the journals of processes that ended, and waits up to two seconds until living processes have written theirs
    /// into the file. That blocks the thread.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, belongs to another program, or was written by a later version; and once for a
    /// journal with lines that cannot be read, which is kept with the ending `damaged`.
    pub fn open(file: impl AsRef<Path>) -> Result<Option<Self>, HistoryError> {
        let path = file.as_ref().to_owned();
        let is_there = path.try_exists().map_err(|error| HistoryError::Failed {
            doing: "open the history",
            path: path.clone(),
            why: error.to_string(),
        })?;
        // A process can have ended before it wrote more than its journal.
        if !is_there && !journal::beside(&path).is_ok_and(|found| !found.is_empty()) {
            return Ok(None);
        }
        let mut connection = match is_there {
            true => rows::open(&path, HISTORY_OPENING)?,
            false => writer::create(&path, HISTORY_OPENING)?,
        };
        if let Some(damaged) = journal::take_over(&mut connection, &path)?.into_iter().next() {
            return Err(damaged);
        }
        journal::wait_for_others(&connection, &path);
        Ok(Some(Self { path, connection }))
    }

    fn failed(&self, error: &rusqlite::Error) -> HistoryError {
        HistoryError::of("read the history", &self.path, error)
    }

    /// Returns whether the history has no call.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn is_empty(&self) -> Result<bool, HistoryError> {
        rows::is_empty(&self.connection).map_err(|error| self.failed(&error))
    }

    /// Returns the time of the first call, act or end of a run: earlier ones are not recorded, or were removed. `None` if
    /// the history is empty.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn begins(&self) -> Result<Option<WallTime>, HistoryError> {
        rows::begins(&self.connection).map_err(|error| self.failed(&error))
    }

    /// Hands each call to `take`, in order of time; with `since`, those that were settled then or later.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn each_call(
        &self,
        since: Option<WallTime>,
        take: impl FnMut(RecordedCall),
    ) -> Result<(), HistoryError> {
        let read = rows::each_call(&self.connection, &Which::Since(since), take);
        read.map_err(|error| self.failed(&error))
    }

    /// Hands each call of a run to `take`, in their order; those of its descendants too if no other run began it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn each_call_of(
        &self,
        run: &RecordedRun,
        take: impl FnMut(RecordedCall),
    ) -> Result<(), HistoryError> {
        let read = rows::each_call(&self.connection, &Which::Of(run), take);
        read.map_err(|error| self.failed(&error))
    }

    /// Returns the run of this name, the last one if several had it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn run(&self, name: &str) -> Result<Option<RecordedRun>, HistoryError> {
        rows::run(&self.connection, name).map_err(|error| self.failed(&error))
    }

    /// Returns the names of runs that begin with `begin` and that no other run began, in their order, each once.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn names_beginning_with(&self, begin: &str) -> Result<Vec<String>, HistoryError> {
        rows::beginning_with(&self.connection, begin).map_err(|error| self.failed(&error))
    }

    /// Removes calls and acts from before a time, and the runs that are older and have none left. A dry run removes
    /// nothing, and counts the same.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. Nothing is removed then.
    pub fn prune(&mut self, before: WallTime, is_dry_run: bool) -> Result<Pruned, HistoryError> {
        rows::prune(&mut self.connection, before, is_dry_run)
            .map_err(|error| HistoryError::of("prune the history", &self.path, &error))
    }
}
