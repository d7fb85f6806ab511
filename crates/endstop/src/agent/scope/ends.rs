//! Telling observers of the end of a run, while nothing of the run is locked.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use endstop_core::run::Run;

use super::Scope;

/// Ends that are not told yet, in their order.
#[derive(Default)]
pub(super) struct Ends(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    ends: VecDeque<Run>,
    /// Somebody is telling, and goes on until none is left.
    is_telling: bool,
}

impl Ends {
    /// Whether whoever has this end has to tell it, and all that come meanwhile.
    fn add(&self, end: Run) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.ends.push_back(end);
        !std::mem::replace(&mut waiting.is_telling, true)
    }

    fn next(&self) -> Option<Run> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.ends.pop_front();
        waiting.is_telling = next.is_some();
        next
    }
}

impl Scope {
    /// Tells every observer that the run is over, or paused, as it stands now. Called without any lock of it.
    pub(in super::super) fn tell_end(&self) {
        {
            // Ends are told in the order in which they were seen.
            let core = self.core();
            if !self.ends.add(core.run.frozen()) {
                return;
            }
        }
        while let Some(end) = self.ends.next() {
            for observer in &self.shared.observers {
                // A sink that fails must not end what it watches.
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    observer.run_ended(&self.info, &end, &self.budget);
                }));
            }
        }
    }
}
