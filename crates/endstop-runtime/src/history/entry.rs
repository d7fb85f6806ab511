//! Entries of the history, as they wait to be written.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::HistoryOrigin;

/// The process that writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ProcessFacts {
    /// Its name among all that ever wrote: process ids are used again.
    pub(super) id: String,
    pub(super) origin: HistoryOrigin,
}

/// A run, for its row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunFacts {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<String>,
    pub(super) agent: String,
    pub(super) began: u64,
    pub(super) is_resumed: bool,
}

/// Something that is written whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HistoryEntry {
    Call(Box<CallEntry>),
    Act(ActEntry),
    End(EndEntry),
}

impl HistoryEntry {
    /// Whether it replaces calls that a log lacks.
    pub(super) fn has_log(&self) -> bool {
        matches!(self, Self::Call(call) if call.log.is_some())
    }

    /// Whether it belongs to a run that an earlier process can have begun.
    pub(super) fn is_of_resumed(&self) -> bool {
        match self {
            Self::Call(call) => {
                call.run.is_resumed || call.root.as_ref().is_some_and(|root| root.is_resumed)
            }
            Self::Act(act) => act.run.is_resumed,
            Self::End(end) => end.row.as_ref().is_some_and(|row| row.is_resumed),
        }
    }

    /// Its time in milliseconds. `None` for a pause.
    pub(super) fn at(&self) -> Option<u64> {
        match self {
            Self::Call(call) => Some(call.at),
            Self::Act(act) => Some(act.at),
            Self::End(end) => end.at,
        }
    }
}

/// A settled call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallEntry {
    pub(super) run: RunFacts,
    /// The outermost run, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<RunFacts>,
    pub(super) at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<String>,
    /// Input, cached input, output, the cost, and the unconfirmed part of it.
    pub(super) amounts: [u64; 5],
    pub(super) is_priced: bool,
    pub(super) is_estimate: bool,
    pub(super) is_run_over: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// A JSON array; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) budgets: Option<String>,
    /// Its number among the charged calls of the outermost run, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) charge: Option<u64>,
    /// If the run continues from a log with this call: it replaces calls that the log lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) log: Option<LoggedPart>,
}

/// An act from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ActEntry {
    pub(super) run: RunFacts,
    pub(super) at: u64,
    pub(super) who: Option<String>,
    pub(super) what: Cow<'static, str>,
    pub(super) detail: Option<String>,
    pub(super) why: Option<String>,
}

/// The end of a run, or its pause.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndEntry {
    pub(super) run: String,
    /// For the row that the run gets if it has none. `None` if it needs none without a call or an act.
    pub(super) row: Option<RunFacts>,
    /// `None` if it is paused.
    pub(super) at: Option<u64>,
    pub(super) status: Cow<'static, str>,
    pub(super) reason: Option<Cow<'static, str>>,
    pub(super) text: Option<String>,
}

/// The part of a run that its log has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct LoggedPart {
    /// The number of its last charged call.
    pub(super) charged: u64,
    /// The time of its last event. A call that it lacks was settled later.
    pub(super) until: u64,
}
