//! Trace lines of a root run that are not stored yet.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_core::event::Event;

use super::recorder::{push_header, push_seen, push_trace_line};
use crate::observe::{Observation, Observer, RunInfo};

/// Collects the trace lines of a root run until they are taken or written. The root sees what its descendants do too.
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
/// use endstop_runtime::trace::TraceBuffer;
///
/// let buffer = Arc::new(TraceBuffer::new());
/// buffer.push_header(&info, None);
/// let environment = RunEnvironment { observers: vec![buffer.clone()], ..RunEnvironment::default() };
/// let run = RunHandle::root(info, program, environment);
/// run.begin();
/// let lines = buffer.take();
/// assert_eq!(lines.lines().count(), 2);
/// assert!(lines.contains("\"event\":\"run_begin\""));
/// assert!(buffer.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct TraceBuffer {
    lines: Mutex<Vec<u8>>,
}

impl TraceBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the line that a run's trace begins with. `prices` is the version of the price table.
    pub fn push_header(&self, info: &RunInfo, prices: Option<&str>) {
        push_header(&mut self.lines(), info, prices);
    }

    /// Adds an event that no observer sees, such as one of a [`Replayed`](super::Replayed) run.
    pub fn push(&self, event: &Event<'_>) {
        push_trace_line(&mut self.lines(), event);
    }

    /// The bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines().len()
    }

    /// Whether there are no lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// Takes the lines so far, each with its line feed.
    #[must_use]
    pub fn take(&self) -> String {
        // They were written by serde_json, as UTF-8.
        String::from_utf8(std::mem::take(&mut *self.lines())).unwrap_or_default()
    }

    /// Writes the lines so far in one write, and forgets them. At most `room` bytes of memory stay reserved for the
    /// next ones.
    ///
    /// # Errors
    ///
    /// The error of `out`. The lines are gone all the same: a trace with a hole must not go on.
    pub fn write_to(&self, mut out: impl Write, room: usize) -> io::Result<()> {
        let mut lines = self.lines();
        let written = out.write_all(&lines);
        lines.clear();
        lines.shrink_to(room);
        written
    }

    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for TraceBuffer {
    fn observe(&self, seen: &Observation<'_>) {
        if seen.info.parent.is_none() {
            push_seen(&mut self.lines(), seen);
        }
    }
}
