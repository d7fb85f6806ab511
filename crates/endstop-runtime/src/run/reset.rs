//! The windows of a subscription: what providers report of them, and waiting for their reset.
//!
//! A separate file because it needs none of the private fields of [`RunHandle`], which are seen by one file.

use std::future::pending;
use std::time::Duration;

use endstop_core::condition::gauge::{quota_fact, reset_fact};
use endstop_core::event::EventKind;
use endstop_core::run::{Run, WindowReset};
use endstop_core::units::WallTime;

use super::handle::RunHandle;
use crate::clock::millis;
use crate::limits::{AFTER_RESET, MAX_RESET_WAIT, RESET_RECHECK};

impl RunHandle {
    /// Returns the wall time of the run's clock.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        self.node().wall()
    }

    /// Records a report of the used part of a subscription's window, in hundredths of a percent, and of its reset if
    /// the provider reports it: the gauge `quota("window")`.
    pub fn report_quota(&self, window: &str, used: u64, resets_at: Option<WallTime>) {
        if let Some(WallTime(at)) = resets_at {
            let name = reset_fact(window);
            self.record_plain(&EventKind::Fact { name: &name, value: at });
        }
        let name = quota_fact(window);
        self.record_plain(&EventKind::Fact { name: &name, value: used });
    }

    /// Returns the reset for which the paused run waits ([`Run::next_reset`]). `None` if a person has to decide, and
    /// for a reset that is so far away that no window is as long.
    #[must_use]
    pub fn next_reset(&self) -> Option<WindowReset> {
        let reset = self.look(Run::next_reset)?;
        let longest = millis(MAX_RESET_WAIT);
        (reset.at.0 <= self.wall().0.saturating_add(longest)).then_some(reset)
    }

    /// Waits until a window has reset for which the paused run waits, and returns its name: the caller reports its use as
    /// zero ([`RunHandle::report_quota`]). It never resolves while the run waits for none.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is recorded.
    pub async fn window_reset(&self) -> String {
        let after = millis(AFTER_RESET);
        loop {
            let Some(reset) = self.next_reset() else { return pending().await };
            let left = reset.at.0.saturating_add(after).saturating_sub(self.wall().0);
            if left == 0 {
                return reset.window;
            }
            // The wall clock may be set, and the machine may sleep.
            tokio::time::sleep(Duration::from_millis(left).min(RESET_RECHECK)).await;
        }
    }
}
