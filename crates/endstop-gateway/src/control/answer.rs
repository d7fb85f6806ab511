//! The answers of the control API. Its OpenAPI document is made from these types.

use endstop_core::trip_record::PauseRequest;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::run::TotalChange;

/// The listener takes connections.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    /// Always `ok`.
    pub(super) status: &'static str,
}

/// Why a request was refused, or failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Problem {
    /// For people.
    pub(super) error: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// Every run, in the order of their names.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunList {
    /// Those in memory, and then those that are only stored.
    pub(super) runs: Vec<ListedRun>,
    /// Whether there are more stored runs than these.
    pub(super) is_truncated: bool,
}

/// A run in the list of all.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListedRun {
    /// Its name.
    pub(super) run: String,
    /// `pending`, `in_progress`, `paused`, `completed`, `stopped` or `failed`; `stored` for a run that is not in memory.
    pub(super) status: String,
    /// The stop reason of a run that was stopped.
    pub(super) reason: Option<String>,
    /// Its model calls in flight.
    pub(super) calls_in_flight: usize,
}

/// One run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunDetail {
    /// Its name.
    pub(super) run: String,
    /// `pending`, `in_progress`, `paused`, `completed`, `stopped` or `failed`.
    pub(super) status: String,
    /// Its model calls in flight.
    pub(super) calls_in_flight: usize,
    /// Model calls that were sent to an upstream, retries included.
    pub(super) upstream_calls: u64,
    /// Requests that the gateway answered itself because the run had stopped.
    pub(super) stop_responses: u64,
    /// Requests that were forwarded unparsed.
    pub(super) unmetered: u64,
    /// Model calls during which the client disconnected.
    pub(super) client_disconnects: u64,
    /// Requests that were refused although the run continues, because their cost cannot be bounded.
    pub(super) refused: u64,
    /// Model calls that an upstream did not answer, or not successfully.
    pub(super) failed_calls: u64,
    /// Whether some of its usage is an estimate.
    pub(super) is_estimate: bool,
    /// The pause from outside.
    pub(super) pause: Option<PauseState>,
    /// The budget whose reset its calls wait for, with the time of it.
    pub(super) waits_for: Option<String>,
    /// The report of the run (`endstop_report`): totals, spend, and the trip record as `verdict`.
    pub(super) report: Value,
}

/// A pause from outside.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PauseState {
    /// Who asked for it.
    pub(super) by: String,
    /// Why; left out if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

impl From<PauseRequest> for PauseState {
    fn from(PauseRequest { by, why }: PauseRequest) -> Self {
        Self { by, why: Some(why).filter(|why| !why.is_empty()) }
    }
}

/// A run after a change, or after a time without one.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunChange {
    /// The events that it has taken. The next request names this number.
    pub(super) events: u64,
    /// Whether the gateway ends.
    pub(super) is_closing: bool,
    /// The run.
    pub(super) run: RunDetail,
}

/// The runs that a kill stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Killed {
    /// The number of those that had not stopped.
    pub(super) killed: u64,
}

/// The total of all runs, in US dollars as exact decimals.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TotalState {
    /// The limit.
    pub(super) limit_usd: Option<String>,
    /// The settled spend.
    pub(super) settled_usd: String,
    /// The amount that calls in flight hold.
    pub(super) held_usd: String,
    /// The last change of the limit; left out if it is that of the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<TotalChanged>,
}

/// A change of the limit of the total.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TotalChanged {
    /// Who asked for it.
    pub(super) by: String,
    /// Why; left out if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// When, in milliseconds since 1970.
    pub(super) at_ms: u64,
}

impl From<TotalChange> for TotalChanged {
    fn from(TotalChange { at, by, why }: TotalChange) -> Self {
        Self { by, why: Some(why).filter(|why| !why.is_empty()), at_ms: at.0 }
    }
}

/// An answer as JSON.
pub(super) fn json_of(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer)
        .unwrap_or_else(|error| unreachable!("an answer has a form as JSON: {error}"))
}

/// An error as JSON.
pub(super) fn problem(error: impl Into<String>) -> Value {
    json_of(&Problem { error: error.into(), hint: None })
}
