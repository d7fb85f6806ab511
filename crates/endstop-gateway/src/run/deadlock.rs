//! Whether calls in flight wait for each other: what one of them waits for is held by streams that nobody reads on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{RunEntry, count};

/// A call that waits for others, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    run: Arc<RunEntry>,
    /// Since when nothing has moved, and how often clients had read on by then.
    since: Option<(Instant, u64)>,
}

impl Waiting {
    pub(crate) fn new(run: &Arc<RunEntry>) -> Self {
        run.waiting.fetch_add(1, Ordering::AcqRel);
        Self { run: Arc::clone(run), since: None }
    }

    /// How long it has been so that every other call of the run waits too, or has a client that does not read on. To
    /// be asked again and again.
    pub(crate) fn stuck_for(&mut self) -> Duration {
        let of = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Acquire);
        let unread = of(&self.run.unread);
        // What other runs hold is theirs to give back.
        let is_stuck = unread > 0 && of(&self.run.calls) <= of(&self.run.waiting) + unread;
        let reads = self.run.reads.load(Ordering::Acquire);
        match self.since {
            Some((since, then)) if is_stuck && then == reads => since.elapsed(),
            _ => {
                self.since = is_stuck.then(|| (Instant::now(), reads));
                Duration::ZERO
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.run.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream, as its client reads it.
#[derive(Debug)]
pub(crate) struct Reading {
    run: Arc<RunEntry>,
    is_unread: bool,
}

impl Reading {
    pub(crate) fn new(run: &Arc<RunEntry>) -> Self {
        Self { run: Arc::clone(run), is_unread: false }
    }

    /// The client reads on.
    pub(crate) fn goes_on(&mut self) {
        if std::mem::take(&mut self.is_unread) {
            self.run.unread.fetch_sub(1, Ordering::AcqRel);
            count(&self.run.reads);
        }
    }

    /// The client was given something, and the call is not settled.
    pub(crate) fn has_given(&mut self) {
        if !std::mem::replace(&mut self.is_unread, true) {
            self.run.unread.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.goes_on();
    }
}
