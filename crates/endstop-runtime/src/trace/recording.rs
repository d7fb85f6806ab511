//! The events of runs, kept in memory: for tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::Run;
use endstop_core::run::{Directive, Notice, Status};
use endstop_core::signal::StopReason;

use crate::json::json_of;
use crate::ledger::Budget;
use crate::limits::DEFAULT_RECORDING;
use crate::observe::{Observation, Observer, RunInfo};
use crate::store::RunId;

/// Something that an observer received.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// An event.
    Event {
        /// Whose event.
        run: RunId,
        /// The event as one line of a trace, without a line feed.
        line: String,
        /// The core's directive.
        directive: Directive,
    },
    /// A warn rule began to hold.
    Warned {
        /// In which run.
        run: RunId,
        /// The rule, and what it observed.
        notice: Notice,
    },
    /// A run is over or paused.
    Ended {
        /// Which run.
        run: RunId,
        /// The status.
        status: Status,
        /// The reason why it ended; `None` while it is paused.
        reason: Option<StopReason>,
    },
}

/// Keeps everything it receives, oldest first, up to a bound; later entries are counted.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// use endstop_runtime::RunEnvironment;
/// use endstop_runtime::trace::Recording;
///
/// let seen = Arc::new(Recording::new());
/// let environment = RunEnvironment { observers: vec![seen.clone()], ..RunEnvironment::default() };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// let lines = seen.lines(&run.info().id);
/// assert!(lines.len() == 1 && lines[0].contains("run_begin"), "{lines:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recording {
    bound: usize,
    kept: Mutex<RecordedEntries>,
}

#[derive(Debug, Default)]
struct RecordedEntries {
    entries: Vec<Recorded>,
    dropped: u64,
}

impl Default for Recording {
    fn default() -> Self {
        Self::new()
    }
}

impl Recording {
    /// Creates an empty recording of at most 100,000 entries.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(DEFAULT_RECORDING)
    }

    /// Creates an empty recording of at most `bound` entries.
    #[must_use]
    pub fn bounded(bound: usize) -> Self {
        Self { bound, kept: Mutex::default() }
    }

    /// Returns the kept entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> Vec<Recorded> {
        self.lock().entries.clone()
    }

    /// Returns the trace lines of one run.
    #[must_use]
    pub fn lines(&self, id: &RunId) -> Vec<String> {
        let lines = self.entries().into_iter().filter_map(|entry| match entry {
            Recorded::Event { run, line, .. } if run == *id => Some(line),
            _ => None,
        });
        lines.collect()
    }

    /// Returns how many entries found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, RecordedEntries> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, entry: impl FnOnce() -> Recorded) {
        let mut kept = self.lock();
        if kept.entries.len() < self.bound {
            kept.entries.push(entry());
        } else {
            kept.dropped = kept.dropped.saturating_add(1);
        }
    }
}

impl Observer for Recording {
    fn observe(&self, observation: &Observation<'_>) {
        self.push(|| Recorded::Event {
            run: observation.info.id.clone(),
            line: json_of(&observation.line()),
            directive: observation.directive,
        });
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, _run: &Run) {
        self.push(|| Recorded::Warned { run: info.id.clone(), notice: notice.clone() });
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, _budget: &Budget) {
        self.push(|| Recorded::Ended {
            run: info.id.clone(),
            status: run.status(),
            reason: run.stop_reason(),
        });
    }
}
