//! Ends of a run that its observers have not seen yet, in their order.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use endstop_core::run::Run;

/// Ends of one run. One that comes while another is being reported, by an observer or in another thread, is reported
/// by the caller that reports that one.
#[derive(Default)]
pub(super) struct EndQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    ends: VecDeque<Run>,
    /// A caller reports, and continues until no end is left.
    is_reporting: bool,
}

impl EndQueue {
    /// Adds an end. Returns `true` if the caller has to report it, and every end that is added in the meantime.
    pub(super) fn add(&self, end: Run) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.ends.push_back(end);
        !std::mem::replace(&mut waiting.is_reporting, true)
    }

    pub(super) fn next(&self) -> Option<Run> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.ends.pop_front();
        waiting.is_reporting = next.is_some();
        next
    }
}
