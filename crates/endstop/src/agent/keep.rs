//! Keeping a run: its trace as it goes, its state after every step.

use std::sync::Arc;

use super::drive::{Drive, Flow};
use super::scope::Scope;
use endstop_runtime::store::{RunLock, Store, Version};

/// Where a run is kept.
pub(super) struct Stored {
    /// That of the agent that began: another one may have another, or none.
    pub(super) store: Arc<dyn Store>,
    pub(super) version: Option<Version>,
    pub(super) _lock: RunLock,
}

/// Hands the trace of a root run to a store. All runs of the tree do: what a sub-agent spends must not wait
/// for its end.
pub(super) struct Keeper {
    store: Arc<dyn Store>,
    /// Held while lines are appended, so that they keep their order. With what the store said when it did
    /// not take some: nothing is appended after a hole.
    problem: tokio::sync::Mutex<Option<String>>,
}

impl Keeper {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, problem: tokio::sync::Mutex::default() }
    }
}

impl Scope {
    /// Hands the trace of the root run so far to the store, if it has one: what was spent survives a crash
    /// from here on.
    pub(super) async fn keep_trace(&self) -> Result<(), String> {
        let Some(keeper) = &self.shared.keeper else { return Ok(()) };
        let mut root = self;
        while let Some(parent) = root.parent.as_deref() {
            root = parent;
        }
        let mut problem = keeper.problem.lock().await;
        if let Some(problem) = &*problem {
            return Err(problem.clone());
        }
        let lines = root.core().journal.as_mut().map(std::mem::take).unwrap_or_default();
        if lines.is_empty() {
            return Ok(());
        }
        let kept = keeper.store.append(&root.info.id, &lines).await;
        kept.map_err(|error| problem.insert(error.to_string()).clone())
    }
}

impl Drive {
    /// Hands the trace so far to the store: what was spent survives a crash from here on.
    pub(super) async fn flush(&mut self) {
        let Err(error) = self.scope.keep_trace().await else { return };
        if self.stored.take().is_some() || self.scope.parent.is_some() && self.flow() != Flow::Stop
        {
            self.error(&format!("the run cannot be kept: {error}"), "store");
        }
    }

    /// Saves the state, if there is a store.
    pub(super) async fn save(&mut self) {
        self.snapshot();
        self.flush().await;
        let Some(stored) = &self.stored else { return };
        let saved = stored.store.save(&self.state.id, &self.state.to_json(), stored.version).await;
        match (saved, &mut self.stored) {
            (Ok(version), Some(stored)) => stored.version = Some(version),
            (Err(error), _) => {
                self.stored = None;
                self.error(&format!("the run cannot be saved: {error}"), "store");
                self.snapshot();
            }
            (Ok(_), None) => {}
        }
    }

    /// Saves the state after a step, if there is a store.
    pub(super) async fn save_after_step(&mut self) {
        if self.stored.is_some() {
            self.save().await;
        } else {
            self.sync();
        }
    }
}
