//! Calls in flight of a run, and whether they wait for each other: streams that no client reads may hold what another
//! call of the same run waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use endstop_runtime::Standstill;

/// The calls of a run that are in flight, and how many of them make no progress.
#[derive(Debug, Default)]
pub(crate) struct CallTraffic {
    calls: AtomicUsize,
    /// Calls that wait for others.
    waiting: AtomicUsize,
    /// Streams with data that the client does not read.
    unread: AtomicUsize,
    /// Increases whenever a client reads further data.
    reads: AtomicU64,
}

impl CallTraffic {
    /// Counts one more call, unless there are `max` already.
    pub(super) fn enter(&self, max: usize) -> bool {
        let enters = self.calls.fetch_add(1, Ordering::AcqRel) < max;
        if !enters {
            self.leave();
        }
        enters
    }

    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }
}

/// A call that waits for others, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    traffic: Arc<CallTraffic>,
    /// Of the number of reads by clients.
    standstill: Standstill,
}

impl WaitingCall {
    pub(super) fn new(traffic: &Arc<CallTraffic>) -> Self {
        traffic.waiting.fetch_add(1, Ordering::AcqRel);
        Self { traffic: Arc::clone(traffic), standstill: Standstill::default() }
    }

    /// Returns for how long every other call of the run has been waiting too, or has had a client that does not read.
    /// The time starts with the first call of this function that finds it so.
    pub(crate) fn stuck_for(&mut self) -> Duration {
        let of = |counter: &AtomicUsize| counter.load(Ordering::Acquire);
        let unread = of(&self.traffic.unread);
        // Other runs settle their reservations without help.
        let is_stuck = unread > 0 && self.traffic.calls() <= of(&self.traffic.waiting) + unread;
        if !is_stuck {
            self.standstill.reset();
            return Duration::ZERO;
        }
        self.standstill.since(self.traffic.reads.load(Ordering::Acquire))
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.traffic.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether the client of a stream reads it.
#[derive(Debug)]
pub(crate) struct ReadProgress {
    traffic: Arc<CallTraffic>,
    is_unread: bool,
}

impl ReadProgress {
    pub(super) fn new(traffic: &Arc<CallTraffic>) -> Self {
        Self { traffic: Arc::clone(traffic), is_unread: false }
    }

    /// The client reads further data.
    pub(crate) fn reads_on(&mut self) {
        if std::mem::take(&mut self.is_unread) {
            self.traffic.unread.fetch_sub(1, Ordering::AcqRel);
            self.traffic.reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The client was given something, and the call is not settled.
    pub(crate) fn was_given(&mut self) {
        if !std::mem::replace(&mut self.is_unread, true) {
            self.traffic.unread.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for ReadProgress {
    fn drop(&mut self) {
        self.reads_on();
    }
}
