//! Runs in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::page::{Page, lines_of};
use super::{
    Durability, MAX_APPEND_BYTES, MAX_STATE_BYTES, RunId, RunLock, RunSummary, Store, StoreError,
    StoredState, Version, check_size, label, newest_first, next_version, now_millis,
};

/// Runs in memory, gone with the process. Clones share the stored runs.
///
/// It grows with every run and never removes any.
///
/// ```
/// use endstop_runtime::store::{MemoryStore, RunId, Store, StoreError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let id = RunId::new();
/// store.append(&id, "first\nsecond\n").await?;
/// assert_eq!(store.read_trace(&id, 1).await?, ["second"]);
///
/// let lock = store.lock(&id).await?;
/// assert!(matches!(store.lock(&id).await, Err(StoreError::Locked { .. })));
/// drop(lock);
/// assert!(store.lock(&id).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<MemoryRuns>>,
}

#[derive(Debug, Default)]
struct MemoryRuns {
    runs: BTreeMap<RunId, RunContent>,
    locked: BTreeSet<RunId>,
}

#[derive(Debug, Default)]
struct RunContent {
    state: Option<(StoredState, String)>,
    trace: Vec<String>,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn shared(&self) -> MutexGuard<'_, MemoryRuns> {
        // Nothing is left half done by a panic: every change below is one assignment.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save_now(
        &self,
        id: &RunId,
        state: &str,
        expected: Option<Version>,
    ) -> Result<Version, StoreError> {
        check_size(id, "state", state.len(), MAX_STATE_BYTES)?;
        let mut shared = self.shared();
        let kept = shared.runs.get(id).and_then(|kept| kept.state.as_ref());
        let version = next_version(id, expected, kept.map_or(Version(0), |(old, _)| old.version))?;
        let stored = StoredState { version, saved_at: now_millis(), text: state.to_owned() };
        let label = label::of_state(state);
        shared.runs.entry(id.clone()).or_default().state = Some((stored, label));
        Ok(version)
    }

    fn append_now(&self, id: &RunId, lines: &str) -> Result<(), StoreError> {
        check_size(id, "append", lines.len(), MAX_APPEND_BYTES)?;
        if !lines.is_empty() {
            let mut shared = self.shared();
            let kept = shared.runs.entry(id.clone()).or_default();
            kept.trace.extend(lines_of(lines).map(str::to_owned));
        }
        Ok(())
    }

    fn read_now(&self, id: &RunId, from_line: u64) -> Vec<String> {
        let shared = self.shared();
        let Some(kept) = shared.runs.get(id) else { return Vec::new() };
        let skipped = usize::try_from(from_line).unwrap_or(usize::MAX);
        let mut page = Page::default();
        for line in kept.trace.iter().skip(skipped) {
            if page.is_full() {
                break;
            }
            page.push(line.clone());
        }
        page.into_lines()
    }

    fn list_now(&self) -> Vec<RunSummary> {
        let shared = self.shared();
        let stored = shared.runs.iter().filter_map(|(id, kept)| Some((id, kept.state.as_ref()?)));
        let mut runs: Vec<RunSummary> = stored
            .map(|(id, (state, label))| RunSummary {
                id: id.clone(),
                version: state.version,
                saved_at: state.saved_at,
                label: label.clone(),
                bytes: u64::try_from(state.text.len()).unwrap_or(u64::MAX),
                problem: None,
            })
            .collect();
        newest_first(&mut runs);
        runs
    }

    fn remove_now(&self, id: &RunId) -> Result<bool, StoreError> {
        let mut shared = self.shared();
        if shared.locked.contains(id) {
            return Err(locked(id));
        }
        Ok(shared.runs.remove(id).is_some())
    }

    fn lock_now(&self, id: &RunId) -> Result<RunLock, StoreError> {
        if !self.shared().locked.insert(id.clone()) {
            return Err(locked(id));
        }
        let store = self.clone();
        let held = id.clone();
        Ok(RunLock::new(id.clone(), move || {
            store.shared().locked.remove(&held);
        }))
    }
}

fn locked(id: &RunId) -> StoreError {
    StoreError::Locked { run: id.clone(), pid: Some(std::process::id()) }
}

impl Store for MemoryStore {
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    fn save<'a>(
        &'a self,
        id: &'a RunId,
        state: &'a str,
        expected: Option<Version>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        async move { self.save_now(id, state, expected) }.boxed()
    }

    fn load<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Option<StoredState>, StoreError>> {
        async move {
            let shared = self.shared();
            let kept = shared.runs.get(id).and_then(|kept| kept.state.as_ref());
            Ok(kept.map(|(state, _)| state.clone()))
        }
        .boxed()
    }

    fn append<'a>(
        &'a self,
        id: &'a RunId,
        lines: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move { self.append_now(id, lines) }.boxed()
    }

    fn read_trace<'a>(
        &'a self,
        id: &'a RunId,
        from_line: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        async move { Ok(self.read_now(id, from_line)) }.boxed()
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<RunSummary>, StoreError>> {
        async move { Ok(self.list_now()) }.boxed()
    }

    fn remove<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move { self.remove_now(id) }.boxed()
    }

    fn lock<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<RunLock, StoreError>> {
        async move { self.lock_now(id) }.boxed()
    }
}
