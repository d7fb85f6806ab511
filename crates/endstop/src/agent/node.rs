//! The loop's part of a run in its tree: the runtime's handle, and what the loop adds to it.

use std::fmt;
use std::sync::Arc;

use endstop_runtime::RunHandle;

use super::journal::Journal;
use super::source::CancellationSource;
use crate::tool::ToolContext;

/// One run of the loop among the runs of its tree.
pub(crate) struct AgentNode {
    pub(super) run: RunHandle,
    /// Asked at the checkpoints of the run and of its descendants.
    pub(super) sources: Vec<Arc<dyn CancellationSource>>,
    pub(super) parent: Option<Arc<Self>>,
    /// Keeps the trace of the root run, if a store keeps it.
    pub(super) journal: Option<Arc<Journal>>,
}

impl AgentNode {
    /// The run that calls a tool; `None` for a tool that is called outside every run.
    pub(super) fn caller(context: &ToolContext) -> Option<Arc<Self>> {
        context.caller.clone()?.downcast().ok()
    }
}

impl fmt::Debug for AgentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentNode").field("run", &self.run).finish_non_exhaustive()
    }
}
