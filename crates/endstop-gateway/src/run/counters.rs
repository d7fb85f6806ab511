//! Counts of a run's requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// The outcomes of the requests of a run, in addition to the counts of its policy.
///
/// See the example of [`Gateway`](crate::Gateway).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Model calls that were sent to an upstream. Failed and cut calls, retries, and calls sent again with a lower
    /// output cap are included. For earlier processes of a stored run: its attempts.
    pub upstream_calls: u64,
    /// Requests that the gateway answered itself because the run had stopped.
    pub stop_responses: u64,
    /// Requests that were forwarded unparsed.
    pub unmetered: u64,
    /// Model calls during which the client disconnected.
    pub client_disconnects: u64,
    /// Requests that were refused although the run continues, because their cost cannot be bounded.
    pub refused: u64,
    /// Model calls that an upstream did not answer, or not successfully.
    pub failed_calls: u64,
}

/// The live [`Counts`] of a run.
#[derive(Debug, Default)]
pub(crate) struct RunCounters {
    upstream_calls: AtomicU64,
    stop_responses: AtomicU64,
    unmetered: AtomicU64,
    client_disconnects: AtomicU64,
    refused: AtomicU64,
    failed_calls: AtomicU64,
}

impl RunCounters {
    /// Counters of a run that made `upstream_calls` attempts in earlier processes.
    pub(super) fn after(upstream_calls: u64) -> Self {
        Self { upstream_calls: AtomicU64::new(upstream_calls), ..Self::default() }
    }

    pub(crate) fn upstream_call(&self) {
        count(&self.upstream_calls);
    }

    /// A call that was counted as sent did not reach an upstream.
    pub(crate) fn upstream_call_not_made(&self) {
        self.upstream_calls.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn stop_response(&self) {
        count(&self.stop_responses);
    }

    pub(crate) fn unmetered(&self) {
        count(&self.unmetered);
    }

    pub(crate) fn client_disconnect(&self) {
        count(&self.client_disconnects);
    }

    pub(crate) fn refused(&self) {
        count(&self.refused);
    }

    pub(crate) fn failed_call(&self) {
        count(&self.failed_calls);
    }

    pub(super) fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            upstream_calls: of(&self.upstream_calls),
            stop_responses: of(&self.stop_responses),
            unmetered: of(&self.unmetered),
            client_disconnects: of(&self.client_disconnects),
            refused: of(&self.refused),
            failed_calls: of(&self.failed_calls),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
