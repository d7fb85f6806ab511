//! Where requests to cancel a run come from.

use endstop_core::signal::StopSignal;
use futures_util::future::BoxFuture;

use super::state::AgentState;
use endstop_runtime::cancel::InMemoryCancellationSource;

/// Asked at every checkpoint whether the run is to end.
pub trait CancellationSource: Send + Sync {
    /// The signal to stop by, if there is one. Cooperative: what is in flight finishes. The state is that of the run
    /// whose checkpoint it is: the agent's own, or one below it.
    fn cancellation_signal<'a>(
        &'a self,
        state: &'a AgentState,
    ) -> BoxFuture<'a, Option<StopSignal>>;

    /// Resolves when an abort is requested, so that calls in flight are aborted at once. Never, unless the source can
    /// tell.
    fn aborted(&self) -> BoxFuture<'_, StopSignal> {
        Box::pin(std::future::pending())
    }
}

impl CancellationSource for InMemoryCancellationSource {
    fn cancellation_signal<'a>(&'a self, _: &'a AgentState) -> BoxFuture<'a, Option<StopSignal>> {
        Box::pin(std::future::ready(self.signal()))
    }

    fn aborted(&self) -> BoxFuture<'_, StopSignal> {
        Box::pin(Self::aborted(self))
    }
}
