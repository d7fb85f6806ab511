//! Where requests to cancel a run come from.

use endstop_core::signal::StopSignal;
use futures_util::future::BoxFuture;

use super::state::AgentState;
use endstop_runtime::cancel::InMemoryCancellationSource;

/// A source that is checked at every checkpoint and may end the run.
///
/// ```
/// use endstop::agent::{AgentLoop, AgentState, CancellationSource};
/// use endstop::core::condition::named::max_steps;
/// use endstop::core::signal::{StopReason, StopSignal};
/// use endstop::model::{ScriptedModel, ScriptedResponse};
/// use futures_util::future::BoxFuture;
///
/// /// Cancels the runs of a list.
/// struct Revoked(Vec<&'static str>);
///
/// impl CancellationSource for Revoked {
///     fn cancellation_signals<'a>(&'a self, state: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>> {
///         let mut signals = Vec::new();
///         if self.0.contains(&state.label.as_str()) {
///             signals.push(StopSignal::new(StopReason::UserRequested));
///         }
///         Box::pin(async { signals })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = AgentLoop::builder("worker")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done.")))
///     .stop_when(max_steps(5))
///     .cancellation(Revoked(vec!["Work."]))
///     .build()?;
/// assert_eq!(agent.run("Work.").await?.stop_reason(), Some(StopReason::UserRequested));
/// # Ok(())
/// # }
/// ```
pub trait CancellationSource: Send + Sync {
    /// The signals to stop by, the earliest first; none to continue. The first decides, later ones are recorded, and
    /// equal ones count once, so a source may return them at each checkpoint. Cooperative: work in flight finishes.
    /// The state is that of the run at the checkpoint: the agent's own, or that of a sub-agent.
    ///
    /// # Cancel safety
    ///
    /// The loop drops the future if the run is aborted before it resolves, and makes another at the next checkpoint.
    fn cancellation_signals<'a>(&'a self, state: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>>;

    /// Resolves when an abort is requested, so that calls in flight are aborted at once. Never, unless the source can
    /// tell.
    ///
    /// # Cancel safety
    ///
    /// The loop drops the future at the end of the run. Each run makes its own.
    fn aborted(&self) -> BoxFuture<'_, StopSignal> {
        Box::pin(std::future::pending())
    }
}

impl CancellationSource for InMemoryCancellationSource {
    fn cancellation_signals<'a>(&'a self, _: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>> {
        Box::pin(std::future::ready(self.signals()))
    }

    fn aborted(&self) -> BoxFuture<'_, StopSignal> {
        Box::pin(Self::aborted(self))
    }
}
