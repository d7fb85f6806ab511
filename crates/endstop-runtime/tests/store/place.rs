//! Where the tests keep runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "sqlite")]
use endstop_runtime::store::SqliteStore;
use endstop_runtime::store::{FileStore, MemoryStore, RunId, Store};

/// A store that the contract runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    File,
    FilePower,
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "sqlite")]
    SqlitePower,
}

/// An empty place for one store, opened as often as a test likes.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    directory: PathBuf,
    memory: MemoryStore,
}

impl Place {
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("store").join(name);
        drop(fs::remove_dir_all(&directory));
        fs::create_dir_all(&directory).unwrap();
        Self { kind, directory, memory: MemoryStore::new() }
    }

    /// A further handle.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self.kind {
            Kind::Memory => Arc::new(self.memory.clone()),
            Kind::File => Arc::new(FileStore::open(self.path()).unwrap()),
            Kind::FilePower => {
                Arc::new(FileStore::open(self.path()).unwrap().surviving_power_loss())
            }
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => Arc::new(SqliteStore::open(self.path()).unwrap()),
            #[cfg(feature = "sqlite")]
            Kind::SqlitePower => {
                Arc::new(SqliteStore::open_surviving_power_loss(self.path()).unwrap())
            }
        }
    }

    /// The directory or file of the store.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("runs")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
    }
}

pub(crate) fn id(text: &str) -> RunId {
    RunId::parse(text).unwrap()
}

/// The whole trace, page by page.
pub(crate) async fn whole_trace(store: &dyn Store, run: &RunId) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let page = store.read_trace(run, lines.len() as u64).await.unwrap();
        if page.is_empty() {
            return lines;
        }
        lines.extend(page);
    }
}
