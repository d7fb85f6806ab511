//! Trace lines that are not written yet. Stores, the gateway's files and recorders write traces from
//! here, so that one rule holds for all: nothing is written after a hole.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::event::Event;
use thiserror::Error;

use super::lines::{push_header, push_seen, push_trace_line};
use super::run_log::{AppendError, RunLines};
use crate::limits::MAX_WAITING_LINES;
use crate::observe::{Observation, Observer, RunInfo};

/// Why nothing more of a trace is written: some of its lines could not be, and without them the rest would replay as
/// another run. The text is the error of the writer.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct TraceHole(Arc<str>);

/// Collects the trace lines of a run until they are taken or written.
///
/// As an observer it collects those of a root run, which sees what its descendants do too.
///
/// ```
/// use endstop_core::event::{Event, EventKind};
/// use endstop_core::units::Millis;
/// use endstop_runtime::trace::TraceBuffer;
///
/// let buffer = TraceBuffer::new();
/// buffer.push(&Event::new(Millis(5), EventKind::StepBegin));
/// let mut file = Vec::new();
/// buffer.write_to(&mut file, 0)?;
/// assert!(buffer.is_empty() && file.ends_with(b"\n"));
///
/// // Once a line is lost, later ones are refused with the same reason.
/// buffer.break_off("the disk is full");
/// buffer.push(&Event::new(Millis(6), EventKind::StepBegin));
/// let hole = buffer.write_to(&mut file, 0).unwrap_err();
/// assert_eq!(hole.to_string(), "the disk is full");
/// # Ok::<(), endstop_runtime::trace::TraceHole>(())
/// ```
#[derive(Debug, Default)]
pub struct TraceBuffer {
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    hole: Option<TraceHole>,
}

impl TraceBuffer {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the line that a run's trace begins with. `prices` is the version of the price table.
    pub fn push_header(&self, info: &RunInfo, prices: Option<&str>) {
        self.add(|lines| push_header(lines, info, prices));
    }

    /// Adds an event that no observer sees, such as one of a [`Replayed`](super::Replayed) run.
    pub fn push(&self, event: &Event<'_>) {
        self.add(|lines| push_trace_line(lines, event));
    }

    /// Adds what an observer sees of whichever run.
    pub(super) fn push_seen(&self, seen: &Observation<'_>) {
        self.add(|lines| push_seen(lines, seen));
    }

    fn add(&self, line: impl FnOnce(&mut Vec<u8>)) {
        let mut pending = self.pending();
        if pending.hole.is_none() {
            line(&mut pending.lines);
        }
    }

    /// Returns the bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending().lines.len()
    }

    /// Returns whether there are no lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending().lines.is_empty()
    }

    /// Returns why nothing more is recorded, or `None`.
    #[must_use]
    pub fn hole(&self) -> Option<TraceHole> {
        self.pending().hole.clone()
    }

    /// Drops the lines so far and records no more. Returns the reason: this one, or an earlier one.
    pub fn break_off(&self, why: impl Display) -> TraceHole {
        self.pending().break_off(&why)
    }

    /// Takes the lines so far, each with its line feed. A caller that fails to write them calls [`TraceBuffer::break_off`].
    ///
    /// # Errors
    ///
    /// The hole that the trace has already.
    pub fn take(&self) -> Result<String, TraceHole> {
        let mut pending = self.pending();
        if let Some(hole) = &pending.hole {
            return Err(hole.clone());
        }
        match String::from_utf8(std::mem::take(&mut pending.lines)) {
            Ok(lines) => Ok(lines),
            Err(error) => unreachable!("serde_json writes UTF-8: {error}"),
        }
    }

    /// Writes the lines so far in one write, and forgets them. At most `room` bytes of memory stay reserved for the
    /// next ones.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`, now or earlier: then the trace has a hole.
    pub fn write_to(&self, mut out: impl Write, room: usize) -> Result<(), TraceHole> {
        let mut pending = self.pending();
        if let Some(hole) = &pending.hole {
            return Err(hole.clone());
        }
        out.write_all(&pending.lines).map_err(|error| pending.break_off(&error))?;
        pending.lines.clear();
        pending.lines.shrink_to(room);
        Ok(())
    }

    /// Appends the lines so far to a stored run, and forgets them once that is done. At most `room` bytes of memory
    /// stay reserved for the next ones. Lines wait while a store is away, up to a bound.
    ///
    /// # Errors
    /// Returns the error of `lines`. Unless it is [`AppendError::Away`], the trace has a hole from then on.
    pub fn append_to(&self, lines: &mut dyn RunLines, room: usize) -> Result<(), AppendError> {
        let mut pending = self.pending();
        if let Some(hole) = &pending.hole {
            return Err(io::Error::other(hole.clone()).into());
        }
        if pending.lines.is_empty() {
            return Ok(());
        }
        match lines.append(&pending.lines) {
            Ok(()) => {}
            Err(error @ AppendError::Away(_)) if pending.lines.len() <= MAX_WAITING_LINES => {
                return Err(error);
            }
            Err(error) => {
                let hole = pending.break_off(&error);
                let is_moved = matches!(error, AppendError::Moved);
                return Err(if is_moved { error } else { io::Error::other(hole).into() });
            }
        }
        pending.lines.clear();
        pending.lines.shrink_to(room);
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn break_off(&mut self, why: &dyn Display) -> TraceHole {
        self.lines = Vec::new();
        self.hole.get_or_insert_with(|| TraceHole(why.to_string().into())).clone()
    }
}

impl Observer for TraceBuffer {
    fn observe(&self, seen: &Observation<'_>) {
        if seen.info.parent.is_none() {
            self.push_seen(seen);
        }
    }
}
