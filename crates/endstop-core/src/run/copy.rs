//! A copy of a run, for whoever looks at it while the run itself goes on.

use alloc::sync::Arc;

use super::Run;

impl Run {
    /// A copy that reads as the run does now, and can be saved if the run can. It is to be looked at: its probes
    /// keep what they have told and take in nothing more. O(state), which the policy bounds.
    #[must_use]
    pub fn frozen(&self) -> Self {
        Self {
            program: Arc::clone(&self.program),
            meter: self.meter.clone(),
            status: self.status,
            raised: self.raised.clone(),
            overrides: self.overrides.clone(),
            finishing: self.finishing,
            finish_signal: self.finish_signal.clone(),
            ahead: self.ahead,
            warned: self.warned.clone(),
            disarmed: self.disarmed.clone(),
            retries_in_row: self.retries_in_row,
            notices: self.notices.clone(),
            ended: self.ended.clone(),
            judged: self.judged,
        }
    }
}
