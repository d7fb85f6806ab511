//! Which runs are being started or read back: the same one never twice at a time, different ones side by side.
//!
//! A separate file because nothing else may change which they are.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use endstop_runtime::store::RunId;

/// The openings of runs, and their evictions. Locked before any other lock of the registry.
#[derive(Debug, Default)]
pub(super) struct Openings {
    state: Mutex<OpeningState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct OpeningState {
    runs: HashSet<RunId>,
    evicted: HashSet<RunId>,
    are_held_up: bool,
}

/// A run that is being opened, until this is dropped.
pub(super) struct Opening<'o> {
    of: &'o Openings,
    id: RunId,
}

/// A run that is being evicted, and not opened again until this is dropped.
pub(super) struct Evicting<'o> {
    of: &'o Openings,
    id: RunId,
}

/// No run is opened until this is dropped.
pub(super) struct NoOpening<'o>(&'o Openings);

impl Openings {
    fn state(&self) -> MutexGuard<'_, OpeningState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(
        &self,
        mut is_early: impl FnMut(&OpeningState) -> bool,
    ) -> MutexGuard<'_, OpeningState> {
        let waited = self.changed.wait_while(self.state(), |state| is_early(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to open a run. Blocks while this run is being opened or evicted.
    pub(super) fn begin(&self, id: &RunId) -> Opening<'_> {
        let mut state = self.wait_while(|state| {
            state.are_held_up || state.runs.contains(id) || state.evicted.contains(id)
        });
        state.runs.insert(id.clone());
        Opening { of: self, id: id.clone() }
    }

    /// Begins to evict a run for one that is being opened: until it is gone whole, with its stop recorded and its log closed,
    /// it is not opened again. Never blocks; `None` if the run is being opened or evicted.
    pub(super) fn evict(&self, id: &RunId) -> Option<Evicting<'_>> {
        let mut state = self.state();
        let is_new = !state.runs.contains(id) && state.evicted.insert(id.clone());
        is_new.then(|| Evicting { of: self, id: id.clone() })
    }

    /// Blocks all openings. Returns once those that have begun are done.
    pub(super) fn hold_up(&self) -> NoOpening<'_> {
        self.wait_while(|state| state.are_held_up).are_held_up = true;
        drop(self.wait_while(|state| !state.runs.is_empty()));
        NoOpening(self)
    }

    /// The number of runs that are being opened.
    pub(super) fn count(&self) -> usize {
        self.state().runs.len()
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.of.state().runs.remove(&self.id);
        self.of.changed.notify_all();
    }
}

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        self.of.state().evicted.remove(&self.id);
        self.of.changed.notify_all();
    }
}

impl Drop for NoOpening<'_> {
    fn drop(&mut self) {
        self.0.state().are_held_up = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
