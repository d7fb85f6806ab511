//! Locks of runs: who drives a run holds its lock.

use std::fmt::{self, Debug};
use std::fs::File;
use std::path::{Path, PathBuf};

use super::{RunId, StoreError, disk};
use crate::limits::MAX_LOCK_BYTES;

/// The lock of a run, held until it is dropped or the process ends.
///
/// ```
/// use endstop_runtime::store::{RunId, RunLock};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let free = Arc::new(AtomicBool::new(false));
/// let on_release = Arc::clone(&free);
/// let lock = RunLock::new(RunId::new(), move || on_release.store(true, Ordering::Relaxed));
/// assert!(!free.load(Ordering::Relaxed));
/// drop(lock);
/// assert!(free.load(Ordering::Relaxed));
/// ```
#[must_use = "the lock ends when it is dropped"]
pub struct RunLock {
    run: RunId,
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl RunLock {
    /// Creates the lock of `run`, which `release` gives back. For those who write a store.
    pub fn new(run: RunId, release: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { run, release: Some(Box::new(release)) }
    }

    /// Returns the run that is locked.
    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }
}

impl Debug for RunLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunLock").field(&self.run).finish()
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// A directory with a file for each run that is locked. The lock is the operating system's, so that it ends
/// with the process; the file says which process that is.
#[derive(Clone, Debug)]
pub(super) struct LockDirectory {
    path: PathBuf,
}

impl LockDirectory {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Takes the lock of a run, without waiting.
    pub(super) fn take(&self, id: &RunId) -> Result<RunLock, StoreError> {
        let path = self.path.join(format!("{id}.lock"));
        let failed = |error| StoreError::failed(format!("lock run `{id}`"), &path, error);
        let Some(file) = disk::open_locked(&path, false).map_err(failed)? else {
            return Err(StoreError::Locked { run: id.clone(), pid: holder(&path) });
        };
        let pid = std::process::id().to_string();
        disk::set_len(&file, 0)
            .and_then(|()| disk::write_all(&file, pid.as_bytes()))
            .map_err(failed)?;
        Ok(RunLock::new(id.clone(), move || release(file, &path)))
    }
}

/// The process that holds the lock. Windows does not let others read a locked file.
fn holder(path: &Path) -> Option<u32> {
    let text = disk::read_at_most(path, MAX_LOCK_BYTES).ok()?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

fn release(file: File, path: &Path) {
    // Removed while it is still held, so that it is not another process's file; one that stays behind does no harm.
    if cfg!(unix) {
        drop(disk::remove_file(path));
    }
    drop(file);
}
