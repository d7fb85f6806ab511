//! Waiting for a run: while it is paused (`docs/semantics.md` section 9), or until it stops or pauses.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::run::Status;
use endstop_runtime::observe::Detail;
use endstop_runtime::{CancelOn, RunHandle};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::limits::LIMIT_RECHECK;

/// The pause of a run, and a notification of changes of its status.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// Whether the run's `active` clock stands still.
    is_recorded: AtomicBool,
    /// Notified when the run may have stopped, paused or resumed, and at the end of each call.
    changed: Notify,
}

impl Pause {
    /// Lets every waiter check the run again.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves with the next [`notify`](Self::notify) after this call.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Records that a call waits for an approval: the clock `active` stands still from here on. Returns `false` if it
    /// did so already.
    pub(super) fn record(&self, run: &RunHandle) -> bool {
        let is_new = !self.is_recorded.swap(true, Ordering::AcqRel);
        if is_new {
            run.record(&EventKind::Paused, Detail::None);
        }
        is_new
    }

    /// Records the end of the wait. Returns `false` if that is done already.
    pub(super) fn resume(&self, run: &RunHandle) -> bool {
        let is_new = self.is_recorded.swap(false, Ordering::AcqRel);
        if is_new {
            run.record(&EventKind::Resumed, Detail::None);
        }
        is_new
    }

    /// Waits until the run is no longer paused, for at most `limit`, not counting the time until a reset that it
    /// waits for. Then `on_reset` is called with the window.
    pub(super) async fn wait(
        &self,
        run: &RunHandle,
        limit: Duration,
        is_elsewhere: impl Fn() -> bool,
        on_reset: impl Fn(&str),
    ) {
        let mut until = Instant::now() + limit;
        loop {
            let notified = self.notified();
            run.checkpoint();
            if run.status() != Status::Paused || is_elsewhere() {
                return;
            }
            tokio::select! {
                () = next_change(run, notified) => {}
                window = run.window_reset() => {
                    on_reset(&window);
                    until = Instant::now() + limit;
                }
                () = tokio::time::sleep_until(until), if run.next_reset().is_none() => return,
            }
        }
    }

    /// Waits until the run is paused or `is_stopped`.
    pub(super) async fn wait_for_stop_or_pause(
        &self,
        run: &RunHandle,
        is_stopped: impl Fn() -> bool,
    ) -> Status {
        loop {
            let notified = self.notified();
            let status = run.checkpoint();
            if status == Status::Paused || is_stopped() {
                return status;
            }
            next_change(run, notified).await;
        }
    }
}

/// Waits for a notification, a cancellation, or a time limit that stops the run.
async fn next_change(run: &RunHandle, notified: Notified<'_>) {
    let mut notified = pin!(notified);
    if run.in_flight().is_cancelled() {
        // It is cancelled already, and that did not end the wait.
        let _ = tokio::time::timeout(LIMIT_RECHECK, notified).await;
    } else {
        run.wait(&mut notified, CancelOn::Any).await;
    }
}
