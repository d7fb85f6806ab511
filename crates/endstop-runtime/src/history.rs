//! The history: each call that runs have settled, and each act from outside, in one SQLite file for all processes of a user.
//! Next to it are the journals of processes that write through one ([`HistoryRecorder::through_journal`]).
//!
//! A [`HistoryRecorder`] is an [`Observer`](crate::observe::Observer) that writes it, and [`History`] reads it. It has no
//! content of prompts, responses or tool calls.
//!
//! # A separate file
//!
//! The history is not in the file of the budgets ([`SqliteBudgetStore`](crate::account::SqliteBudgetStore)), because the two
//! fail in opposite ways. A budget that cannot be counted refuses the call. A history that cannot be written warns, and the
//! call continues. In one file, each would wait for the lock of the other, and a damaged history would stop all calls.
//!
//! # What survives
//!
//! A call is in the file or in a journal when [`Observer::settled`](crate::observe::Observer::settled) returns, before the run
//! continues with its response. From then on `kill -9` loses nothing of it: [`History::open`], and each recorder before its first
//! write, take over the journals of ended processes, each entry once. If neither can be written, a call waits in memory, and dies
//! with its process. A loss of power can take back what the system has not written to the disk yet, usually up to half a minute:
//! waiting for the disk at every call would cost more than the call. A call that is in flight when the process dies
//! has no row, unless its run is stored: then it is charged, and gets its row, when the run continues.
//!
//! The log of a stored run is written after the row of a call, or its line in the journal. If the process dies between the two, the
//! run takes the call for one that was in flight when it continues. Its row is replaced by one at the worst case, as the run counts
//! it. The log does not name its calls, so a row has the number of its call among the charged ones of the run, in the order of
//! their events. A row that the log lacks has a higher number than the last call in the log. Two cases are left in which a call
//! has two rows:
//!
//! - The run continues from a saved state, such as that of an agent loop: the number of its earlier calls is not known.
//! - Gateways on other machines share the log of the run ([`SharedRunLog`](crate::trace::SharedRunLog)), and one of them continues it.
//!   It has the row at the worst case in its own history, and the other row stays in that of the gateway that died.
//!
//! Limits and budgets do not read the history: what they count is exact in both cases.

mod entry;
mod journal;
mod reader;
mod recorder;
mod rows;
mod writer;

use std::path::{Path, PathBuf};

use endstop_core::units::{Money, WallTime};
use rusqlite::ErrorCode;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use reader::History;
pub use recorder::HistoryRecorder;

use crate::sqlite_file::OpenError;

/// Why a history cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A later version of the program wrote the file.
    #[error("`{}` has format {found}, and this program knows up to {known}; use a later version of it", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        found: u64,
        /// The last version that is known.
        known: u64,
    },
    /// The file belongs to another program, or is damaged.
    #[error("`{}` is not a history: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error in it.
        why: String,
    },
    /// The medium refused, or others kept it busy for too long.
    #[error("cannot {doing} (`{}`): {why}", path.display())]
    Failed {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The message of the system or the database.
        why: String,
    },
}

impl HistoryError {
    fn of_opening(path: &Path, error: OpenError) -> Self {
        match error {
            OpenError::Foreign => {
                let why = "it is a database of another program".to_owned();
                Self::Damaged { path: path.to_owned(), why }
            }
            OpenError::Newer { found, known } => {
                Self::Newer { path: path.to_owned(), found, known }
            }
            OpenError::Failed(error) => Self::of("open the history", path, &error),
        }
    }

    /// The error of a database in the middle of an operation.
    fn of(doing: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let is_damaged = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        );
        match is_damaged {
            true => Self::Damaged { path, why: error.to_string() },
            false => Self::Failed { doing, path, why: error.to_string() },
        }
    }

    /// Whether trying again can help.
    const fn can_end(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// The process whose runs are recorded.
///
/// See the example of [`HistoryRecorder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryOrigin {
    /// Its kind, such as `run`, `serve` or `agent`.
    pub kind: String,
    /// The name of the agent program. Never its arguments: they can be a prompt.
    pub program: String,
    /// The directory that it works in.
    pub directory: String,
}

/// A settled call of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedCall {
    /// The outermost run.
    pub run: String,
    /// The directory in which the run began.
    pub directory: String,
    /// When it was settled.
    pub at: WallTime,
    /// The model. `None` for a tool, and if it is unknown.
    pub model: Option<String>,
    /// The model's provider, if it is known.
    pub provider: Option<String>,
    /// The tool, for a tool call with a cost; empty if its name is unknown.
    pub tool: Option<String>,
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Input tokens that were read from a cache.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// The cost, as the limits of the run counted it.
    pub cost: Money,
    /// The part of it that no provider and no tool confirmed.
    pub unconfirmed: Money,
    /// Whether it has a price.
    pub is_priced: bool,
    /// Whether its tokens are an estimate or a bound.
    pub is_estimate: bool,
    /// The name of the client's key.
    pub key: Option<String>,
    /// The names of the budgets that it was charged to.
    pub budgets: Vec<String>,
}

/// A run of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRun {
    number: i64,
    /// Its name.
    pub id: String,
    /// The run that began it, if one did.
    pub parent: Option<String>,
    /// The process that drove it.
    pub origin: HistoryOrigin,
    /// The agent.
    pub agent: String,
    /// When it began.
    pub began: WallTime,
    /// When it ended. `None` if it has not, or if its process died.
    pub ended: Option<WallTime>,
    /// The status at its end or pause, such as `stopped`.
    pub status: Option<String>,
    /// The stop reason, such as `cost_limit`.
    pub reason: Option<String>,
    /// The text of a stop by a limit, a budget or a person.
    pub text: Option<String>,
    /// Its descendants that made calls.
    pub sub_agents: u64,
    /// Acts from outside, in their order.
    pub acts: Vec<RecordedAct>,
}

/// An act from outside on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAct {
    /// When.
    pub at: WallTime,
    /// Who acted, if that is known.
    pub who: Option<String>,
    /// The act: `paused`, `resumed`, `approved`, `raised`, `overridden`, `reopened`, `signal`, `cancelled` or `killed`.
    pub what: String,
    /// The object of the act, such as the rule and its new limit.
    pub detail: Option<String>,
    /// Why, if the person gave a reason.
    pub why: Option<String>,
}

/// The counts of rows that [`History::prune`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Outermost runs.
    pub runs: u64,
    /// Calls.
    pub calls: u64,
    /// Acts from outside.
    pub acts: u64,
}

#[cfg(test)]
mod tests;
