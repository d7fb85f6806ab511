//! Where the traces of root runs are stored, so that a run continues: in a directory for one process, or in a store that
//! processes on many machines share.
//!
//! In a shared store a run has one process at a time that serves it, and hands it over when no call of it is in flight. Each
//! process that takes a run begins the next epoch of it, and lines of earlier epochs are refused: so a process that was
//! suspended admits nothing by what it remembers, whatever its clock says.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use thiserror::Error;

use super::replay::Replayed;
use crate::account::BudgetStoreError;
use crate::store::sealed_file::TraceFileError;
use crate::store::{RunId, StoreError, holder};

/// The lines of root runs, by their ids.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use endstop_core::{Event, EventKind, units::Millis};
/// use endstop_runtime::trace::{DirectoryRunLog, RunLog, trace_header, trace_line};
///
/// # let directory = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// let log = DirectoryRunLog::open(&directory).await?;
/// let mut new = log.open(&info.id, &program)?;
/// assert!(new.replayed.is_none());
/// let step = trace_line(&Event::new(Millis(0), EventKind::StepBegin));
/// new.lines.append((trace_header(&info, None) + &step).as_bytes())?;
///
/// let again = log.open(&info.id, &program)?;
/// assert_eq!(again.replayed.map(|replayed| replayed.run().step_count()), Some(1));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RunLog: fmt::Debug + Send + Sync {
    /// Reads a run and serves it from here on. Nothing is written to its lines yet.
    ///
    /// # Errors
    /// [`RunLogError::Held`] while another process serves the run: that one is notified. Any other error means that the run
    /// cannot be read, so its spend is not known.
    fn open(&self, id: &RunId, program: &Arc<Program>) -> Result<OpenRun, RunLogError>;

    /// Returns whether there are lines of a run.
    ///
    /// # Errors
    /// Returns an error if that cannot be read.
    fn has(&self, id: &RunId) -> Result<bool, RunLogError>;

    /// Returns the runs that have lines, at most some.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    fn ids(&self, most: usize) -> Result<Vec<RunId>, RunLogError>;

    /// Returns how runs are shared with other processes. `None` if no other process can serve them.
    fn shared(&self) -> Option<&dyn SharedRunLog> {
        None
    }
}

/// A log of runs that other processes serve as well.
///
/// See the example of [`RunLog`].
pub trait SharedRunLog: fmt::Debug + Send + Sync {
    /// Returns why the store is away, as far as is known without asking it.
    fn away(&self) -> Option<String>;

    /// Returns how long a run is served without [`SharedRunLog::renew`].
    fn lease(&self) -> Duration;

    /// Returns the name of another process that serves a run now. Nothing changes by asking.
    ///
    /// # Errors
    /// Returns an error if the store is away.
    fn served_by(&self, id: &RunId) -> Result<Option<String>, RunLogError>;

    /// Serves runs for longer, each with its epoch. Returns those that another process has taken.
    ///
    /// # Errors
    /// Returns an error if the store is away: then others can take them after the lease.
    fn renew(&self, runs: &[(RunId, u64)]) -> Result<Vec<RunId>, RunLogError>;

    /// Returns the runs served here that others wait for, each once in a while.
    ///
    /// # Errors
    /// Returns an error if the store is away.
    fn wanted(&self) -> Result<Vec<RunId>, RunLogError>;
}

/// A run that is served here.
///
/// See the example of [`RunLog`].
#[derive(Debug)]
pub struct OpenRun {
    /// The run so far, with nothing open. `None` if it has no lines: then the first one is its header.
    pub replayed: Option<Replayed>,
    /// Writes what happens from here on.
    pub lines: Box<dyn RunLines>,
}

/// The end of a run's lines.
///
/// See the example of [`RunLog`].
pub trait RunLines: fmt::Debug + Send {
    /// Appends whole lines, all or none.
    ///
    /// # Errors
    /// After [`AppendError::Away`] they may be there or not, and it is right to append the same ones again, with others behind
    /// them. Any other error is permanent.
    fn append(&mut self, lines: &[u8]) -> Result<(), AppendError>;

    /// Closes what can be opened again at the next append.
    fn close(&mut self) {}

    /// Serves the run again after [`RunLines::rest`], as it was.
    ///
    /// # Errors
    /// [`RunLogError::Moved`] if another process has served it since: then it has to be opened again.
    /// [`RunLogError::Held`] if another waits for it.
    fn hold(&mut self) -> Result<(), RunLogError> {
        Ok(())
    }

    /// No call of the run is in flight: another process may serve it at once.
    ///
    /// # Errors
    /// Returns an error if the store is away: then others can take it after the lease.
    fn rest(&mut self) -> Result<(), RunLogError> {
        Ok(())
    }

    /// Returns the number of processes that have taken the run so far. It is zero where no other can.
    fn epoch(&self) -> u64 {
        0
    }
}

/// Why lines are not appended.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The store is away: they can be appended once it is back.
    #[error("{0}")]
    Away(String),
    /// Another process serves the run.
    #[error("another gateway serves the run now")]
    Moved,
    /// They can never be appended.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

/// Why a stored run cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunLogError {
    /// Another process uses the directory.
    #[error("{} stores its runs there", holder(*pid))]
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
    /// The lines of a run in a shared store cannot be read back.
    #[error("{error}; nothing was changed: begin a run with another name")]
    Lines {
        /// The problem with them.
        error: TraceFileError,
    },
    /// Another process serves the run, or waits for it longer.
    #[error("{} serves the run", by_name(by))]
    Held {
        /// Its name.
        by: String,
    },
    /// Another process has served the run since.
    #[error("another gateway serves the run now")]
    Moved,
    /// The shared store is away, or refuses.
    #[error(transparent)]
    Store(#[from] BudgetStoreError),
}

impl RunLogError {
    /// Returns the problem as a client may see it: where runs are stored is no concern of theirs.
    #[must_use]
    pub fn without_paths(&self) -> String {
        match self {
            Self::Directory { .. } => "its directory cannot be used".to_owned(),
            Self::Store(_) => "the store of runs cannot be used".to_owned(),
            Self::File { error, .. } | Self::Lines { error } => error.to_string(),
            _ => self.to_string(),
        }
    }
}

fn by_name(name: &str) -> &str {
    if name.is_empty() { "another gateway" } else { name }
}

/// The cause of a store's error, if it has one.
fn cause(error: &StoreError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}
