//! Runs in one SQLite file.
//!
//! One thread writes, with everything that waits for it in one transaction: savers that arrive together share the
//! cost of a commit. Reading has its own connection and does not wait for writing. Locks of runs are files in a
//! directory next to the database, because only those end with a process.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rusqlite::Connection;

use self::writer::{Change, Writer};
use super::disk::blocking;
use super::lock::LockDirectory;
use super::{
    Durability, MAX_APPEND_BYTES, MAX_STATE_BYTES, RunId, RunLock, RunSummary, Store, StoreError,
    StoredState, Version, check_size, disk,
};

mod database;
mod writer;

/// Runs in one SQLite file (SQLite is built in). Any number of handles and processes may use it at a time;
/// it has to be on a local disk.
///
/// Dropping the store waits until all requested writes are done.
///
/// ```
/// use endstop_runtime::store::{RunId, SqliteStore, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// let store = SqliteStore::open(directory.join("runs.sqlite"))?;
/// let id = RunId::parse("nightly-17")?;
/// store.save(&id, r#"{"label":"fix the tests"}"#, None).await?;
/// let runs = store.list().await?;
/// assert_eq!(runs.first().map(|run| run.label.as_str()), Some("fix the tests"));
/// # drop(store);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok(())
/// # }
/// ```
pub struct SqliteStore {
    path: PathBuf,
    locks: LockDirectory,
    durability: Durability,
    reader: Arc<Mutex<Connection>>,
    writer: Writer,
}

impl SqliteStore {
    /// Returns the store in a file, which is created with its directory if it is missing, with [`Durability::Process`].
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be made, is not a database of runs, or was written by a later version.
    pub fn open(file: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(file.as_ref(), Durability::Process)
    }

    /// Returns the store with [`Durability::Power`]: it waits for the disk before it acknowledges anything. Savers that
    /// arrive together wait once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::open`].
    pub fn open_surviving_power_loss(file: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(file.as_ref(), Durability::Power)
    }

    fn open_with(file: &Path, durability: Durability) -> Result<Self, StoreError> {
        let path = file.to_owned();
        let failed = |error| StoreError::failed("open the store", &path, error);
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty())
        {
            disk::create_directory(directory).map_err(failed)?;
        }
        // SQLite gives the files that it creates next to this one the same permissions.
        disk::create_file(&path).map_err(failed)?;
        let writing = database::open(&path, durability)?;
        let reader = Arc::new(Mutex::new(database::open(&path, durability)?));
        let writer = Writer::start(path.clone(), writing).map_err(failed)?;
        let mut locks = path.clone().into_os_string();
        locks.push("-locks");
        let locks = LockDirectory::new(locks.into());
        Ok(Self { path, locks, durability, reader, writer })
    }

    /// Runs `read` on the connection for reading.
    fn read<'a, T: Send + 'static>(
        &self,
        doing: String,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let (path, reader) = (self.path.clone(), Arc::clone(&self.reader));
        blocking(move || {
            let connection = reader.lock().unwrap_or_else(PoisonError::into_inner);
            read(&connection).map_err(|error| database::error(doing, &path, &error))
        })
        .boxed()
    }
}

impl Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Store for SqliteStore {
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
            let (id, state) = (id.clone(), state.to_owned());
            self.writer.ask(|answer| Change::Save { id, state, expected, answer }).await
        }
        .boxed()
    }

    fn load<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Option<StoredState>, StoreError>> {
        let run = id.clone();
        self.read(format!("read run `{id}`"), move |connection| database::load(connection, &run))
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
            let (id, lines) = (id.clone(), lines.to_owned());
            self.writer.ask(|answer| Change::Append { id, lines, answer }).await
        }
        .boxed()
    }

    fn read_trace<'a>(
        &'a self,
        id: &'a RunId,
        from_line: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let run = id.clone();
        self.read(format!("read the trace of run `{id}`"), move |connection| {
            database::read_trace(connection, &run, from_line)
        })
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<RunSummary>, StoreError>> {
        self.read("list the runs".to_owned(), database::list)
    }

    fn remove<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            let _lock = self.lock(id).await?;
            let id = id.clone();
            self.writer.ask(|answer| Change::Remove { id, answer }).await
        }
        .boxed()
    }

    fn lock<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<RunLock, StoreError>> {
        let (locks, id) = (self.locks.clone(), id.clone());
        blocking(move || locks.take(&id)).boxed()
    }
}
