//! Runs that are stored: their spend survives the end of the process, `kill -9` included.
//!
//! The gateway logs each call before sending it, and logs its cost before the client can send another. A run that is named
//! and not in memory continues from its lines ([`RunLog`]). In a log that gateways share, this one writes a run as long as it
//! serves it ([`Serving`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use endstop_core::Program;
use endstop_runtime::account::BudgetStoreError;
use endstop_runtime::ledger::Amounts;
use endstop_runtime::observe::{Observation, Observer, RunInfo};
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{
    AppendError, DirectoryRunLog, OpenRun, Replayed, RunLines, RunLog, RunLogError, SharedRunLog,
    TraceBuffer, TraceHole,
};
use thiserror::Error;
use tokio::task::JoinError;

use crate::config::StoredRuns;
use crate::limits::{MAX_UNWRITTEN, WANTED_FOR};

/// Why the lines of a run end here.
const MOVED: &str = "another gateway serves the run now";

/// Where the runs of the gateway are stored.
#[derive(Debug)]
pub(super) struct RunLogs {
    log: Arc<dyn RunLog>,
    /// The version of the price table, for the headers.
    prices: String,
}

/// Why stored runs cannot be read back.
#[derive(Debug, Error)]
pub(crate) enum OpenLogError {
    /// The log of runs, or a run in it, cannot be used.
    #[error(transparent)]
    Log(#[from] RunLogError),
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
            Self::Log(error) => error.without_paths(),
            _ => self.to_string(),
        }
    }

    /// Whether the store that gateways share is away, or refuses for now.
    pub(super) const fn is_away(&self) -> bool {
        let Self::Log(RunLogError::Store(error)) = self else { return false };
        matches!(error, BudgetStoreError::Away { .. } | BudgetStoreError::Failed { .. })
    }
}

impl RunLogs {
    /// Opens the log. Locks a directory, and creates it if it is missing.
    pub(super) async fn open(stored: &StoredRuns, prices: &str) -> Result<Self, OpenLogError> {
        let log: Arc<dyn RunLog> = match stored {
            StoredRuns::Directory(directory) => Arc::new(DirectoryRunLog::open(directory).await?),
            StoredRuns::Log(log) => Arc::clone(log),
        };
        Ok(Self { log, prices: prices.to_owned() })
    }

    /// How other gateways share the runs, if they do.
    pub(super) fn shared(&self) -> Option<&dyn SharedRunLog> {
        self.log.shared()
    }

    /// Whether there are lines of the run.
    pub(super) fn has(&self, id: &RunId) -> Result<bool, OpenLogError> {
        Ok(self.log.has(id)?)
    }

    /// Returns what writes a run from here on, and the run so far. Nothing is written yet.
    pub(super) fn writer(
        &self,
        info: &RunInfo,
        program: &Arc<Program>,
    ) -> Result<(RunLogWriter, Option<Replayed>), OpenLogError> {
        let OpenRun { replayed, lines } = self.log.open(&info.id, program)?;
        let buffer = TraceBuffer::new();
        match &replayed {
            None => buffer.push_header(info, Some(&self.prices)),
            Some(replayed) => replayed.added().iter().for_each(|event| buffer.push(event)),
        }
        let writer = RunLogWriter {
            epoch: lines.epoch(),
            buffer,
            lines: Mutex::new(lines),
            serving: Mutex::new(Serving::Here),
            is_shared: self.shared().is_some(),
            is_away: AtomicBool::new(false),
        };
        Ok((writer, replayed))
    }

    /// The stored runs, at most some.
    pub(super) fn ids(&self, most: usize) -> Result<Vec<RunId>, OpenLogError> {
        Ok(self.log.ids(most)?)
    }

    /// Returns the spend of all stored runs, as the ledger counts it.
    pub(super) fn spent(&self, program: &Arc<Program>) -> Result<Amounts, OpenLogError> {
        let mut sum = Amounts::ZERO;
        for id in self.ids(usize::MAX)? {
            let OpenRun { replayed, .. } = self.log.open(&id, program)?;
            let spent = replayed.map_or(Amounts::ZERO, |replayed| replayed.spent());
            sum = sum.checked_add(&spent).ok_or(OpenLogError::TooMuchSpent)?;
        }
        Ok(sum)
    }
}

/// Which gateway serves a run of a shared log, as far as is known here. Without sharing it is always this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    /// This one.
    Here,
    /// This one, until its calls in flight have ended: another gateway waits for the run, and last asked at this time.
    Wanted(Instant),
    /// None, or another one since then.
    Resting,
    /// Another one: nothing of this copy counts from here on.
    Elsewhere,
}

/// Why something of a run is not logged.
#[derive(Debug)]
pub(crate) enum NotLogged {
    /// The store is away: the lines wait.
    Away(String),
    /// Another gateway serves the run.
    Moved,
    /// The run can no longer be stored.
    Lost(TraceHole),
}

/// Writes the events of one root run.
#[derive(Debug)]
pub(super) struct RunLogWriter {
    epoch: u64,
    /// Events that are not written yet.
    buffer: TraceBuffer,
    /// Locked for as long as the store takes to answer.
    lines: Mutex<Box<dyn RunLines>>,
    serving: Mutex<Serving>,
    is_shared: bool,
    /// Lines wait for a store that is away.
    is_away: AtomicBool,
}

impl RunLogWriter {
    fn lines(&self) -> MutexGuard<'_, Box<dyn RunLines>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether other gateways can serve the run.
    pub(super) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The number of gateways that have taken the run, with this one.
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether this gateway serves the run; `for_call` also says that no other one waits for it.
    pub(super) fn is_here(&self, for_call: bool) -> bool {
        match *self.serving() {
            Serving::Here => true,
            Serving::Wanted(at) => !for_call || at.elapsed() >= WANTED_FOR,
            Serving::Resting | Serving::Elsewhere => false,
        }
    }

    /// Whether another gateway has taken the run.
    pub(super) fn has_moved(&self) -> bool {
        *self.serving() == Serving::Elsewhere
    }

    /// Serves the run for a call, which has the run in its hands.
    pub(super) fn hold(&self) -> Result<(), RunLogError> {
        let mut lines = self.lines();
        let now = *self.serving();
        match now {
            Serving::Here => Ok(()),
            // Those who wait ask again and again, so this one has given up.
            Serving::Wanted(at) if at.elapsed() >= WANTED_FOR => {
                *self.serving() = Serving::Here;
                Ok(())
            }
            Serving::Wanted(_) => Err(RunLogError::Held { by: String::new() }),
            Serving::Elsewhere => Err(RunLogError::Moved),
            Serving::Resting => match lines.hold() {
                Ok(()) => {
                    *self.serving() = Serving::Here;
                    Ok(())
                }
                Err(error) => {
                    if matches!(error, RunLogError::Moved) {
                        self.leave();
                    }
                    Err(error)
                }
            },
        }
    }

    /// Another gateway has taken the run.
    pub(super) fn leave(&self) {
        *self.serving() = Serving::Elsewhere;
        self.buffer.break_off(MOVED);
    }

    /// Another gateway waits for the run: no further call of it begins here.
    pub(super) fn want(&self) {
        let mut serving = self.serving();
        if matches!(*serving, Serving::Here | Serving::Wanted(_)) {
            *serving = Serving::Wanted(Instant::now());
        }
    }

    /// Nothing uses the run. Further calls hold it first.
    pub(super) fn begin_rest(&self) {
        let mut serving = self.serving();
        if matches!(*serving, Serving::Here | Serving::Wanted(_)) {
            *serving = Serving::Resting;
        }
    }

    /// Lets other gateways serve the run, unless it is used again. Returns `false` if that cannot be done now.
    pub(super) fn rest(&self) -> bool {
        let mut lines = self.lines();
        if *self.serving() != Serving::Resting {
            return true;
        }
        let written = self.write(&mut **lines);
        let rested = match written {
            Err(NotLogged::Away(_)) => false,
            Err(NotLogged::Moved) => return true,
            Ok(()) | Err(NotLogged::Lost(_)) => match lines.rest() {
                Ok(()) => true,
                Err(RunLogError::Moved) => {
                    self.leave();
                    true
                }
                Err(_) => false,
            },
        };
        if !rested {
            // Appends are still refused if another gateway takes it.
            *self.serving() = Serving::Here;
        }
        rested
    }

    /// Writes the waiting events. Returns why they cannot be written, now or earlier.
    pub(super) fn flush(&self) -> Result<(), NotLogged> {
        self.write(&mut **self.lines())
    }

    /// Whether events wait to be written.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Returns why the run can no longer be stored here.
    pub(super) fn problem(&self) -> Option<TraceHole> {
        self.buffer.hole()
    }

    /// Whether lines wait for a store that is away.
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Nothing more is written: the run is evicted, and may continue from its lines.
    pub(super) fn close(&self) {
        let mut lines = self.lines();
        // The hole, if there is one, keeps its reason.
        let written = self.write(&mut **lines);
        self.buffer.break_off("the run was evicted from memory");
        lines.close();
        let is_here = self.is_here(false);
        if self.is_shared && is_here && !matches!(written, Err(NotLogged::Away(_))) {
            // Otherwise another gateway takes it after the lease.
            let _ = lines.rest();
        }
    }

    fn write(&self, lines: &mut dyn RunLines) -> Result<(), NotLogged> {
        let written = self.buffer.append_to(lines, MAX_UNWRITTEN);
        self.is_away.store(matches!(written, Err(AppendError::Away(_))), Ordering::Relaxed);
        match written {
            Ok(()) => Ok(()),
            Err(AppendError::Away(why)) => Err(NotLogged::Away(why)),
            Err(AppendError::Moved) => {
                self.leave();
                Err(NotLogged::Moved)
            }
            Err(AppendError::Refused(_)) if self.has_moved() => Err(NotLogged::Moved),
            Err(AppendError::Refused(error)) => Err(NotLogged::Lost(self.buffer.break_off(error))),
        }
    }
}

impl Observer for RunLogWriter {
    fn observe(&self, seen: &Observation<'_>) {
        let mut lines = self.lines();
        self.buffer.observe(seen);
        if self.buffer.len() > MAX_UNWRITTEN {
            // The next flush reports the hole.
            drop(self.write(&mut **lines));
        }
    }
}
