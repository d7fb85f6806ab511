//! Pausing a run from outside, with its descendants.
//!
//! A separate file because it needs none of the private fields of [`RunHandle`], which are seen by one file.

use endstop_core::event::EventKind;
use endstop_core::run::{Run, Status};
use endstop_core::trip_record::PauseRequest;

use super::handle::RunHandle;
use super::wait::{CancelOn, Waited};

impl RunHandle {
    /// Pauses the run for someone outside: until [`RunHandle::resume`] no step, model request or tool call of the run or a
    /// descendant begins. Calls in flight end as usual. The clock `active` stands still, the others do not.
    /// `by` says who asks, `why` may be empty.
    ///
    /// Returns `false` if nothing changed: the run has stopped or is paused from outside already.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
    /// # use endstop_runtime::{RunEnvironment, RunHandle, observe::RunInfo, store::RunId};
    /// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
    /// # let id = RunId::new();
    /// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
    /// # let policy = Policy::from(max_steps(9));
    /// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
    /// # let run = RunHandle::root(info, program, RunEnvironment::default());
    /// use endstop_core::{Directive, EventKind};
    ///
    /// assert!(run.pause("ann", "lunch"));
    /// assert_eq!(run.record_plain(&EventKind::StepBegin), Directive::Pause);
    /// assert!(run.resume("ann", ""));
    /// assert_eq!(run.record_plain(&EventKind::StepBegin), Directive::Proceed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self, by: &str, why: &str) -> bool {
        let can_be_paused = |run: &Run| {
            let has_stopped = matches!(run.status(), Status::Stopped | Status::Failed);
            !has_stopped && run.pause_request().is_none()
        };
        let is_new = self.look(can_be_paused);
        if is_new {
            self.record_plain(&EventKind::PauseRequested { by, why });
            self.node().notify_pause_changed();
        }
        is_new
    }

    /// Ends the pause from outside. Rules that pause the run are not affected. `by` says who asks, `why` may be empty.
    ///
    /// Returns `false` if nothing changed: the run is not paused from outside, or it is paused with an ancestor, which has to
    /// be resumed.
    pub fn resume(&self, by: &str, why: &str) -> bool {
        let is_resumed = {
            let mut chain = self.node().chain();
            chain.share_pause();
            chain.resume(by, why)
        };
        if is_resumed {
            self.node().notify_pause_changed();
        }
        is_resumed
    }

    /// Returns the request that paused the run from outside, or paused an ancestor.
    #[must_use]
    pub fn pause_request(&self) -> Option<PauseRequest> {
        let mut chain = self.node().chain();
        chain.share_pause();
        chain.pause_request()
    }

    /// Waits while the run is paused from outside, itself or with an ancestor. A cancellation or a time limit ends the wait.
    ///
    /// # Panics
    ///
    /// Like [`RunHandle::wait`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is recorded.
    pub async fn wait_while_paused(&self) -> Waited<()> {
        loop {
            let mut notified = Box::pin(self.node().pause_changed());
            if self.pause_request().is_none() {
                return Waited::Done(());
            }
            if self.wait(&mut notified, CancelOn::Any).await == Waited::Aborted {
                return Waited::Aborted;
            }
        }
    }
}
