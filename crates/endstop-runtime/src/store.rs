//! Stores of runs: saved states, and traces that grow line by line.
//!
//! A state is replaced as a whole, a trace is only appended to. Whatever a store has acknowledged, by
//! resolving the future with `Ok`, is not lost by what its [`Durability`] names; whatever it has not
//! acknowledged is there whole or not at all, or, in a trace, up to some whole line.
//!
//! [`MemoryStore`] keeps runs for tests and for programs that do not resume, [`FileStore`] in a directory that
//! can be read with an editor, `SqliteStore` (feature `sqlite`) in one file. One contract test runs on all
//! of them.

use std::fmt::{self, Debug, Display};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::clock::{millis, system_wall_time};

pub(crate) mod disk;
mod error;
mod file;
mod id;
mod label;
mod lock;
mod memory;
mod page;
mod seal;
pub(crate) mod sealed_file;
#[cfg(feature = "sqlite")]
mod sqlite;
mod whole_lines;

pub use self::disk::{create_private_directory, private_file, read_certificates, replace_file};
pub use self::error::StoreError;
pub(crate) use self::error::holder;
pub use self::file::FileStore;
pub use self::id::{RunId, RunIdError};
pub use self::lock::RunLock;
pub use self::memory::MemoryStore;
#[cfg(feature = "redis")]
pub(crate) use self::seal::LineChain;
pub use self::seal::SealError;
#[cfg(feature = "sqlite")]
pub use self::sqlite::SqliteStore;
pub(crate) use self::whole_lines::WholeLines;
pub use crate::limits::{
    MAX_APPEND_BYTES, MAX_CHILD_ID_BYTES, MAX_RUN_ID_BYTES, MAX_STATE_BYTES, PAGE_BYTES, PAGE_LINES,
};

/// Number of a stored state: 1 for the first, one higher with each save, 0 if the run has no stored state.
///
/// See the example of [`FileStore`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// The failures that an acknowledged save or append survives. Each includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing: it is gone with the process.
    Memory,
    /// The end of the process, `kill -9` included: the operating system has it.
    Process,
    /// A loss of power: the disk has it. Costs some milliseconds an acknowledgement.
    Power,
}

/// A state as it was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// Its number.
    pub version: Version,
    /// The wall time at which it was saved: milliseconds since 1970-01-01T00:00Z.
    pub saved_at: u64,
    /// The text that was saved.
    pub text: String,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub id: RunId,
    /// Number of the stored state.
    pub version: Version,
    /// The wall time at which it was saved: milliseconds since 1970-01-01T00:00Z.
    pub saved_at: u64,
    /// The text of the key `label` near the beginning of a state that is a JSON object, without control characters
    /// and cut to 200 characters; empty if it is missing.
    pub label: String,
    /// Length of the state's text in bytes.
    pub bytes: u64,
    /// The reason why the state cannot be loaded, if already known. The version is then 0, and the time is that of
    /// the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Storage for runs.
///
/// # Cancel safety
///
/// A future that is dropped before it resolves has done its work completely or not at all. Work that was started
/// finishes without it.
///
/// See the examples of [`MemoryStore`] and [`FileStore`].
pub trait Store: Send + Sync + Debug {
    /// The failures that acknowledged saves and appends survive.
    fn durability(&self) -> Durability;

    /// Replaces the state of a run, and gives the number of the new one.
    ///
    /// `expected` is the number that must be stored now; `Version(0)` means that the run has no state. `None`
    /// replaces any state, damaged ones included. Of several savers that expect the same number exactly one succeeds,
    /// in any process.
    ///
    /// After a crash the complete old or the complete new state is stored; after an acknowledgment, the new one.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Conflict`] if another number is stored, [`StoreError::TooLarge`] beyond
    /// [`MAX_STATE_BYTES`], and the errors of the medium. The old state then stays, with one exception: if only the
    /// last wait for the disk failed ([`Durability::Power`]), the new one may be stored.
    fn save<'a>(
        &'a self,
        id: &'a RunId,
        state: &'a str,
        expected: Option<Version>,
    ) -> BoxFuture<'a, Result<Version, StoreError>>;

    /// The stored state of a run; `None` if it was never saved.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Damaged`] if the stored state was truncated or altered, [`StoreError::Newer`] if a later
    /// version of the program wrote it.
    fn load<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Option<StoredState>, StoreError>>;

    /// Appends whole lines to the trace of a run; a missing line feed at the end is added, and an empty
    /// text does nothing.
    ///
    /// After a crash the trace ends with some whole line: with the last of `lines` once acknowledged. An
    /// append that gave an error has left nothing, if the medium still let it be taken back.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::TooLarge`] beyond [`MAX_APPEND_BYTES`], [`StoreError::Damaged`] if the store finds that
    /// the trace is, and the errors of the medium.
    fn append<'a>(&'a self, id: &'a RunId, lines: &'a str)
    -> BoxFuture<'a, Result<(), StoreError>>;

    /// The trace of a run from a line on, the first being 0, without line feeds.
    ///
    /// A call returns at most [`PAGE_LINES`] lines and stops once it has [`PAGE_BYTES`]. To read the rest, call again
    /// with `from_line` plus the number of lines received, until none arrive. Invalid UTF-8 is replaced, so that
    /// lines keep their numbers; a last line without its line feed is left out.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Damaged`] if the store finds that lines were changed, moved or removed since they were
    /// appended, and the errors of the medium. A run without a trace has no lines.
    fn read_trace<'a>(
        &'a self,
        id: &'a RunId,
        from_line: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// The runs that have a state, the last saved first. A state that cannot be read is listed with its
    /// [`RunSummary::problem`] and does not hide the others.
    ///
    /// # Errors
    ///
    /// Errors of the medium about the list itself.
    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<RunSummary>, StoreError>>;

    /// Removes the state and the trace of a run; whether there was one. A crash may leave the trace
    /// without its state, never the reverse.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Locked`] while anyone holds its lock.
    fn remove<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Takes the lock of a run. The driver of a run holds it, so that no two drive the same run. Saving and appending
    /// do not check it. It ends when the guard is dropped, and with the process.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Locked`] if it is held, in this process or another; it never waits.
    fn lock<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<RunLock, StoreError>>;
}

/// Milliseconds since 1970-01-01T00:00Z by the wall clock; 0 if the clock is set to an earlier time.
fn now_millis() -> u64 {
    system_wall_time().0
}

fn millis_since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Returns all lines of a stored trace from a line on, without their line feeds; the first line is 0. They are read
/// page by page and held in memory.
///
/// # Cancel safety
///
/// It only reads: dropping the future loses nothing.
///
/// # Errors
///
/// Returns an error if the store cannot be read.
pub async fn stored_lines(
    store: &dyn Store,
    id: &RunId,
    from: u64,
) -> Result<Vec<String>, StoreError> {
    let mut lines: Vec<String> = Vec::new();
    loop {
        let read = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let page = store.read_trace(id, from.saturating_add(read)).await?;
        if page.is_empty() {
            return Ok(lines);
        }
        lines.extend(page);
    }
}

/// Puts the last saved first; runs of the same millisecond in the reverse order of their ids, which for
/// ids made by [`RunId::new`] is the later first.
fn newest_first(runs: &mut [RunSummary]) {
    runs.sort_unstable_by(|a, b| (b.saved_at, &b.id).cmp(&(a.saved_at, &a.id)));
}

/// Refuses a text that is too long to be stored.
fn check_size(
    id: &RunId,
    what: &'static str,
    bytes: usize,
    limit: usize,
) -> Result<(), StoreError> {
    if bytes > limit {
        return Err(StoreError::TooLarge { run: id.clone(), what, bytes, limit });
    }
    Ok(())
}

/// The number of the state that replaces `found`, if that is what was expected.
fn next_version(
    id: &RunId,
    expected: Option<Version>,
    found: Version,
) -> Result<Version, StoreError> {
    match expected {
        Some(expected) if expected != found => {
            Err(StoreError::Conflict { run: id.clone(), expected, found })
        }
        _ => Ok(found.next()),
    }
}
