//! Why a store did not do what it was asked.

use std::error::Error;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{RunId, Version};

/// Why a store did not do what it was asked. Nothing of the operation has happened, unless a variant says
/// otherwise.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process saved the run in the meantime.
    #[error(
        "run `{run}` is stored as version {found} and not as {expected}: another process saved it; load it again"
    )]
    Conflict {
        /// The run.
        run: RunId,
        /// The number that the caller expected.
        expected: Version,
        /// The number that is stored.
        found: Version,
    },
    /// Another process drives the run.
    #[error("run `{run}` is locked by {}; wait for it or end it", holder(*.pid))]
    Locked {
        /// The run.
        run: RunId,
        /// The process that holds the lock, if known.
        pid: Option<u32>,
    },
    /// The text is longer than the store accepts.
    #[error("the {what} of run `{run}` has {bytes} bytes, and {limit} is the limit")]
    TooLarge {
        /// The run.
        run: RunId,
        /// The oversized text: `state` or `append`.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The stored data was truncated or altered.
    #[error("`{}` is damaged: {why}; restore it from a copy, or remove the run", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// A later version of the program wrote the stored data.
    #[error(
        "`{}` has format {found}, and this program knows up to {known}; use a later version of it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        found: u64,
        /// The last version that is known.
        known: u64,
    },
    /// Other processes kept the store busy for too long.
    #[error("cannot {doing}: `{}` was busy for {waited_ms} ms; try again", path.display())]
    Busy {
        /// The operation that failed, with the run.
        doing: String,
        /// The file.
        path: PathBuf,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// The medium refused.
    #[error("cannot {doing} (`{}`)", path.display())]
    Failed {
        /// The operation that failed, with the run.
        doing: String,
        /// The file or directory.
        path: PathBuf,
        /// The message of the system or the database.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The store or the runtime ended before the answer came. The operation has or has not happened.
    #[error("the store ended before it could answer; load the run to see its state")]
    Ended,
}

impl StoreError {
    pub(super) fn failed(
        doing: impl Into<String>,
        path: &Path,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { doing: doing.into(), path: path.to_owned(), source: source.into() }
    }
}

/// The process that holds a lock.
pub(crate) fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
