//! Storing a run: its trace as it goes, its state after every step.

use std::sync::Arc;

use endstop_runtime::store::{RunId, RunLock, Store, Version};
use endstop_runtime::trace::{TraceBuffer, TraceHole};

/// Where a run is stored.
pub(super) struct Stored {
    /// That of the agent that began: another one may have another, or none.
    pub(super) store: Arc<dyn Store>,
    pub(super) version: Option<Version>,
    pub(super) _lock: RunLock,
}

/// Hands the trace of a root run to a store. All runs of the tree do: what a sub-agent spends must not wait for its
/// end.
pub(super) struct Journal {
    run: RunId,
    buffer: Arc<TraceBuffer>,
    store: Arc<dyn Store>,
    /// Held while lines are appended, so that they keep their order.
    order: tokio::sync::Mutex<()>,
}

impl Journal {
    /// The buffer has to observe the run.
    pub(super) fn new(run: RunId, buffer: Arc<TraceBuffer>, store: Arc<dyn Store>) -> Self {
        Self { run, buffer, store, order: tokio::sync::Mutex::default() }
    }

    /// Hands the trace so far to the store: what was spent survives a crash from here on.
    pub(super) async fn append(&self) -> Result<(), TraceHole> {
        let _order = self.order.lock().await;
        let lines = self.buffer.take()?;
        if lines.is_empty() {
            return Ok(());
        }
        let appended = self.store.append(&self.run, &lines).await;
        appended.map_err(|error| self.buffer.break_off(error))
    }
}
