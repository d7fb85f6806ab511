//! Waiting for hooks and cancellation sources.

use std::future::Future;

use endstop_runtime::Waited;
use futures_util::FutureExt as _;

use super::agent_run::AgentRun;
use super::hooks::Trigger;
use crate::limits::HOOK_GRACE;

impl AgentRun {
    /// Waits for hooks, or for a source (`None`): an abort of the run ends that wait too. Hooks that begin in a run that
    /// is aborted or out of time have some time left, those after everything all that they need.
    pub(super) async fn wait_for_hooks<F: Future + Unpin>(
        &self,
        hooks: &mut F,
        trigger: Option<Trigger>,
    ) -> Waited<F::Output> {
        if let Some(output) = (&mut *hooks).now_or_never() {
            return Waited::Done(output);
        }
        if trigger == Some(Trigger::AfterExecution) {
            return Waited::Done(hooks.await);
        }
        self.run().wait_in_grace(hooks, trigger.map(|_| HOOK_GRACE)).await
    }
}
