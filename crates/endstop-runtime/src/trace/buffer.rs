//! Trace lines of a root run that its store does not have yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::recorder::push_seen;
use crate::observe::{Observation, Observer};

/// Collects the trace lines of a root run until they are taken. The root sees what its descendants do too.
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

    /// Takes the lines so far, each with its line feed.
    #[must_use]
    pub fn take(&self) -> String {
        // They were written by serde_json, as UTF-8.
        String::from_utf8(std::mem::take(&mut *self.lines())).unwrap_or_default()
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
