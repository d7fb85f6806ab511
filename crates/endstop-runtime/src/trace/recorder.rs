//! Records runs as Endstop traces: the events that the core of a run processed, in that order.
//!
//! Replaying such a file through the core under the same policy gives the same decisions. Its lines are those
//! of [`endstop_core::wire::v1::trace`], and `endstop-transcript` reads it as the format `endstop`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::Run;
use endstop_core::event::EventKind;
use endstop_core::run::Status;

use super::buffer::TraceBuffer;
use super::lines::trace_header;
use crate::ledger::Budget;
use crate::limits::{MAX_OPEN_TRACES, MAX_PAUSED_RUNS, TRACE_ROOM_BYTES};
use crate::observe::{Observation, Observer, RunInfo};
use crate::store::RunId;

/// Which runs are recorded, and where.
enum Places {
    /// The root runs, one after the other, in one file.
    Roots(Option<Box<dyn Write + Send>>),
    /// Each run in a separate file.
    Each(OpenFile),
}

/// Opens the file of one run.
type OpenFile = Box<dyn Fn(&RunInfo) -> io::Result<Box<dyn Write + Send>> + Send>;

/// The moment at which a buffering writer passes on its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flush {
    /// After every line.
    #[default]
    Line,
    /// After every step, and at the end.
    Step,
    /// At the end, or at a pause.
    End,
}

/// Problems during recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceProblems {
    /// The first error: of which run, and what the system said.
    pub first: Option<(RunId, String)>,
    /// Runs whose trace is cut short, or was not begun.
    pub runs: u64,
    /// Events that are missing for that.
    pub events: u64,
}

/// Writes every event of runs as a line of a trace, each line in one write.
///
/// An error of a writer stops no run: the trace of that run ends there, for one with a hole would replay as
/// something else, and [`TraceRecorder::problems`] reports it.
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
/// use endstop_runtime::trace::TraceRecorder;
///
/// # let path = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// let recorder = Arc::new(TraceRecorder::one_file(std::fs::File::create(&path)?));
/// let environment = RunEnvironment { observers: vec![recorder.clone()], ..RunEnvironment::default() };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// run.ended();
/// assert_eq!(recorder.problems().runs, 0);
/// assert!(std::fs::read_to_string(&path)?.starts_with("{\"endstop_trace\":1"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TraceRecorder {
    prices: Option<String>,
    flush: Flush,
    continues: bool,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    places: Places,
    /// The runs that are being recorded. In one file there is one at a time.
    open: BTreeMap<RunId, Trace>,
    /// Runs that may continue in this process: they have their header.
    paused: BTreeSet<RunId>,
    problems: TraceProblems,
}

/// The trace of one run; without a writer if it is cut short.
struct Trace {
    buffer: TraceBuffer,
    out: Option<Box<dyn Write + Send>>,
}

impl fmt::Debug for TraceRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRecorder")
            .field("prices", &self.prices)
            .field("flush", &self.flush)
            .finish_non_exhaustive()
    }
}

impl TraceRecorder {
    /// Records root runs, one after the other, in one file, with their sub-agents' acts as the root's core saw them.
    /// A root run that begins while another one is recorded is left out and counted among the problems.
    pub fn one_file(out: impl Write + Send + 'static) -> Self {
        Self::new(Places::Roots(Some(Box::new(out))))
    }

    /// Records each run, sub-agents too, in the writer that `open` opens for it. For a run that continues after a
    /// pause it is called again, and has to append.
    pub fn file_per_run(
        open: impl Fn(&RunInfo) -> io::Result<Box<dyn Write + Send>> + Send + 'static,
    ) -> Self {
        Self::new(Places::Each(Box::new(open)))
    }

    fn new(places: Places) -> Self {
        let state = RecorderState {
            places,
            open: BTreeMap::new(),
            paused: BTreeSet::new(),
            problems: TraceProblems::default(),
        };
        Self { prices: None, flush: Flush::default(), continues: false, state: Mutex::new(state) }
    }

    /// Sets the version of the price table that computes costs, for the headers.
    #[must_use]
    pub fn prices(mut self, version: impl Into<String>) -> Self {
        self.prices = Some(version.into());
        self
    }

    /// Sets when buffering writers pass on their data.
    #[must_use]
    pub const fn flush(mut self, flush: Flush) -> Self {
        self.flush = flush;
        self
    }

    /// Sets whether writers append to the trace that a resumed run has already: then it gets no second header,
    /// and the whole replays as one run.
    #[must_use]
    pub const fn continues(mut self, yes: bool) -> Self {
        self.continues = yes;
        self
    }

    /// Returns the problems so far.
    #[must_use]
    pub fn problems(&self) -> TraceProblems {
        self.lock().problems.clone()
    }

    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn header(&self, info: &RunInfo) -> String {
        if self.continues && info.is_resumed {
            return String::new();
        }
        trace_header(info, self.prices.as_deref())
    }
}

impl RecorderState {
    /// Opens the trace of a run that is not open; `false` if there is no room for another one.
    fn begin(&mut self, info: &RunInfo, header: &str) -> bool {
        if self.open.len() >= MAX_OPEN_TRACES {
            return false;
        }
        let is_further = self.paused.remove(&info.id);
        let opened = match &mut self.places {
            Places::Roots(out) => {
                // After another run's lines, a paused run needs a header again.
                self.paused.clear();
                out.take().ok_or_else(|| io::Error::other("another run is recorded in that file"))
            }
            Places::Each(open) => open(info),
        };
        let opened = opened.and_then(|mut out| {
            out.write_all(if is_further { "" } else { header }.as_bytes())?;
            Ok(out)
        });
        let out = opened.map_err(|error| self.fail(&info.id, &error)).ok();
        self.open.insert(info.id.clone(), Trace { buffer: TraceBuffer::new(), out });
        true
    }

    fn lose(&mut self) {
        self.problems.events = self.problems.events.saturating_add(1);
    }

    fn fail(&mut self, id: &RunId, error: &dyn fmt::Display) {
        self.problems.first.get_or_insert_with(|| (id.clone(), error.to_string()));
        self.problems.runs = self.problems.runs.saturating_add(1);
    }

    fn write(&mut self, seen: &Observation<'_>, flush: bool) {
        let id = &seen.info.id;
        let Some(Trace { buffer, out }) = self.open.get_mut(id) else { return };
        let Some(writer) = out else {
            self.lose();
            return;
        };
        buffer.push_seen(seen);
        let written = buffer.write_to(&mut *writer, TRACE_ROOM_BYTES).and_then(|()| {
            let flushed = if flush { writer.flush() } else { Ok(()) };
            flushed.map_err(|error| buffer.break_off(error))
        });
        if let Err(hole) = written {
            *out = None;
            self.lose();
            self.fail(id, &hole);
        }
    }
}

impl Observer for TraceRecorder {
    fn observe(&self, observation: &Observation<'_>) {
        let info = observation.info;
        let mut state = self.lock();
        if matches!(state.places, Places::Roots(_)) && info.parent.is_some() {
            return;
        }
        if !state.open.contains_key(&info.id) && !state.begin(info, &self.header(info)) {
            let begins = matches!(observation.event.kind, EventKind::RunBegin { .. });
            if begins {
                state.fail(&info.id, &io::Error::other("too many runs are recorded"));
            }
            return state.lose();
        }
        let ends_step =
            matches!(observation.event.kind, EventKind::StepEnd | EventKind::RunEnd { .. });
        let flush = self.flush == Flush::Line || (self.flush == Flush::Step && ends_step);
        state.write(observation, flush);
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, _budget: &Budget) {
        let mut state = self.lock();
        let Some(trace) = state.open.remove(&info.id) else { return };
        if run.status() == Status::Paused && trace.out.is_some() {
            if state.paused.len() >= MAX_PAUSED_RUNS {
                state.paused.pop_first();
            }
            state.paused.insert(info.id.clone());
        }
        let Some(mut out) = trace.out else { return };
        if let Err(error) = out.flush() {
            state.fail(&info.id, &error);
        }
        if let Places::Roots(place) = &mut state.places {
            *place = Some(out);
        }
    }
}

#[cfg(test)]
mod tests;
