//! Slows a run down for people: simulated time passes as fast as it is computed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use endstop::core::event::EventKind;
use endstop::observe::{Observation, Observer};

/// Waits after each reply of a model, in all no longer than it was told.
#[derive(Debug)]
pub(super) struct Pace {
    each: Duration,
    left: Mutex<Duration>,
}

impl Pace {
    /// Waits `each` after a reply, and at most `in_all`.
    pub(super) const fn new(each: Duration, in_all: Duration) -> Self {
        Self { each, left: Mutex::new(in_all) }
    }
}

impl Observer for Pace {
    fn observe(&self, observation: &Observation<'_>) {
        // The root sees every reply of its descendants.
        if observation.info.parent.is_some()
            || !matches!(observation.event.kind, EventKind::Reply { .. })
        {
            return;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.each.min(*left);
        *left = left.saturating_sub(wait);
        std::thread::sleep(wait);
    }
}
