//! Runs in a directory.
//!
//! ```text
//! runs/
//!   nightly-17.run/
//!     state           a line of JSON about the state, and the state as it was saved
//!     trace.jsonl     the trace
//!     guard           locked while a state is replaced or the trace is created
//!   ~locks/           a file for each run that is being driven
//! ```
//!
//! A state is written next to the old one and renamed over it. An append is one write to the end of the trace, and
//! one that counts its lines in the first line; the remainder of an interrupted append is cut off by the next one.
//! Each line has a number and a checksum, as in the gateway's stored runs, and a trace with any other damage is
//! refused. Everything else in the directory is left alone.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::header::Header;
use self::trace::TraceAt;
use super::disk::blocking;
use super::lock::LockDirectory;
use super::{
    Durability, MAX_APPEND_BYTES, MAX_STATE_BYTES, RunId, RunLock, RunSummary, Store, StoreError,
    StoredState, Version, check_size, disk, millis_since_epoch, newest_first, next_version,
};

mod header;
mod trace;

/// The suffix of a run's directory, which distinguishes runs from other files.
const SUFFIX: &str = ".run";

/// The directory of locks; its name cannot be that of a run.
const LOCKS: &str = "~locks";

/// The trace of a run, in its directory.
const TRACE: &str = "trace.jsonl";

/// Locked while a state is replaced and while a trace is created.
const GUARD: &str = "guard";

/// Appends up to this length, in bytes, are written directly by the calling task: handing them to another thread
/// takes longer.
const SMALL_APPEND_BYTES: usize = 64 << 10;

/// Runs in a directory, one directory a run. Any number of handles and processes may use it at a time; it has to
/// be on a file system with locks, so not on some network drives.
///
/// States are written and read on the runtime's threads for blocking work. Appends of up to 64 KiB are
/// written by the calling task, unless they wait for the disk ([`Durability::Power`]). Outside a tokio runtime the caller
/// does all of it.
///
/// ```
/// use endstop_runtime::store::{FileStore, RunId, Store, StoreError, Version};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// let store = FileStore::open(&directory)?;
/// let id = RunId::parse("nightly-17")?;
/// assert_eq!(store.save(&id, "{}", Some(Version(0))).await?, Version(1));
///
/// // A second saver that knows nothing of the first one replaces nothing.
/// let second = store.save(&id, "[]", Some(Version(0))).await;
/// assert!(matches!(second, Err(StoreError::Conflict { .. })));
/// assert_eq!(store.load(&id).await?.map(|state| state.text).as_deref(), Some("{}"));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
    locks: LockDirectory,
    durability: Durability,
}

impl FileStore {
    /// Returns the store in a directory, which is created if it is missing, with [`Durability::Process`].
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be made, or belongs to another user of the system.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = directory.as_ref().to_owned();
        disk::create_directory(&path)
            .and_then(|()| disk::check_directory(&path))
            .map_err(|error| StoreError::failed("open the store", &path, error))?;
        let locks = LockDirectory::new(path.join(LOCKS));
        Ok(Self { path, locks, durability: Durability::Process })
    }

    /// Returns the store with [`Durability::Power`]: it waits for the disk before it acknowledges anything.
    #[must_use]
    pub fn surviving_power_loss(self) -> Self {
        Self { durability: Durability::Power, ..self }
    }

    fn run_directory(&self, id: &RunId) -> PathBuf {
        self.path.join(format!("{id}{SUFFIX}"))
    }

    fn waits_for_disk(&self) -> bool {
        self.durability >= Durability::Power
    }

    fn save_now(
        &self,
        id: &RunId,
        state: &str,
        expected: Option<Version>,
    ) -> Result<Version, StoreError> {
        let directory = self.run_directory(id);
        let failed = |error| StoreError::failed(format!("save run `{id}`"), &directory, error);
        let _guard = disk::open_locked(&directory.join(GUARD), true).map_err(failed)?;
        let path = directory.join("state");
        let found = match header::find(id, &path) {
            Err(StoreError::Damaged { .. }) if expected.is_none() => {
                disk::rename(&path, &directory.join("state.damaged")).map_err(failed)?;
                Version(0)
            }
            found => found?.map_or(Version(0), |(header, _)| header.version),
        };
        let version = next_version(id, expected, found)?;
        self.replace(&directory, &Header::of(id, version, state), state).map_err(failed)?;
        Ok(version)
    }

    /// Under the guard: there is one file for what is being written.
    fn replace(&self, directory: &Path, header: &Header, state: &str) -> io::Result<()> {
        let temporary = directory.join("state.new");
        let file = disk::open_empty(&temporary)?;
        disk::write_all(&file, header.line()?.as_bytes())?;
        disk::write_all(&file, state.as_bytes())?;
        if self.waits_for_disk() {
            disk::sync(&file)?;
        }
        drop(file);
        disk::rename(&temporary, &directory.join("state"))?;
        self.sync_names(directory)
    }

    fn sync_names(&self, directory: &Path) -> io::Result<()> {
        if self.waits_for_disk() {
            disk::sync_directory(directory)?;
            disk::sync_directory(&self.path)?;
        }
        Ok(())
    }

    /// Does `work` on the trace of a run.
    fn with_trace<T>(&self, id: &RunId, work: impl FnOnce(&TraceAt<'_>) -> T) -> T {
        let directory = self.run_directory(id);
        let (path, guard) = (directory.join(TRACE), directory.join(GUARD));
        let wait_in = self.waits_for_disk().then_some(self.path.as_path());
        work(&TraceAt { id, path: &path, guard: &guard, wait_in })
    }

    fn list_now(&self) -> Result<Vec<RunSummary>, StoreError> {
        let failed = |error| StoreError::failed("list the runs", &self.path, error);
        let mut runs = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let Some(id) = id.and_then(|id| RunId::parse(id).ok()) else { continue };
            runs.extend(self.summary(id));
        }
        newest_first(&mut runs);
        Ok(runs)
    }

    /// `None` if it has no state.
    fn summary(&self, id: RunId) -> Option<RunSummary> {
        let path = self.run_directory(&id).join("state");
        match header::find(&id, &path) {
            Ok(found) => found.map(|(header, _)| header.into_summary(id)),
            Err(problem) => {
                let saved = fs::metadata(&path).and_then(|metadata| metadata.modified());
                Some(RunSummary {
                    id,
                    version: Version(0),
                    saved_at: saved.map_or(0, millis_since_epoch),
                    label: String::new(),
                    bytes: 0,
                    problem: Some(problem.to_string()),
                })
            }
        }
    }

    fn remove_now(&self, id: &RunId) -> Result<bool, StoreError> {
        let _lock = self.locks.take(id)?;
        let directory = self.run_directory(id);
        let failed = |error| StoreError::failed(format!("remove run `{id}`"), &directory, error);
        if !directory.try_exists().map_err(failed)? {
            return Ok(false);
        }
        let guard_path = directory.join(GUARD);
        let guard = disk::open_locked(&guard_path, true).map_err(failed)?;
        let mut was_there = disk::remove_file(&directory.join("state")).map_err(failed)?;
        for rest in ["state.new", "state.damaged"] {
            disk::remove_file(&directory.join(rest)).map_err(failed)?;
        }
        was_there |= self.with_trace(id, |trace| trace.remove()).map_err(failed)?;
        if cfg!(unix) {
            disk::remove_file(&guard_path).map_err(failed)?;
        }
        drop(guard);
        match fs::remove_dir(&directory) {
            // Another process begins the run again, or has put a file there.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => done.map_err(failed)?,
        }
        if self.waits_for_disk() {
            disk::sync_directory(&self.path).map_err(failed)?;
        }
        Ok(was_there)
    }
}

impl Store for FileStore {
    fn durability(&self) -> Durability {
        self.durability
    }

    fn save<'a>(
        &'a self,
        id: &'a RunId,
        state: &'a str,
        expected: Option<Version>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        async move {
            check_size(id, "state", state.len(), MAX_STATE_BYTES)?;
            let (store, id, state) = (self.clone(), id.clone(), state.to_owned());
            blocking(move || store.save_now(&id, &state, expected)).await
        }
        .boxed()
    }

    fn load<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Option<StoredState>, StoreError>> {
        let (id, path) = (id.clone(), self.run_directory(id).join("state"));
        blocking(move || header::load(&id, &path)).boxed()
    }

    fn append<'a>(
        &'a self,
        id: &'a RunId,
        lines: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            check_size(id, "append", lines.len(), MAX_APPEND_BYTES)?;
            if lines.is_empty() {
                return Ok(());
            }
            if lines.len() <= SMALL_APPEND_BYTES && !self.waits_for_disk() {
                return self.with_trace(id, |trace| trace.append(lines));
            }
            let (store, id, lines) = (self.clone(), id.clone(), lines.to_owned());
            blocking(move || store.with_trace(&id, |trace| trace.append(&lines))).await
        }
        .boxed()
    }

    fn read_trace<'a>(
        &'a self,
        id: &'a RunId,
        from_line: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let (store, id) = (self.clone(), id.clone());
        blocking(move || store.with_trace(&id, |trace| trace.read(from_line))).boxed()
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<RunSummary>, StoreError>> {
        let store = self.clone();
        blocking(move || store.list_now()).boxed()
    }

    fn remove<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (store, id) = (self.clone(), id.clone());
        blocking(move || store.remove_now(&id)).boxed()
    }

    fn lock<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<RunLock, StoreError>> {
        let (locks, id) = (self.locks.clone(), id.clone());
        blocking(move || locks.take(&id)).boxed()
    }
}

#[cfg(test)]
mod tests;
