//! Questions of the control API whose answers are not in the gateway: budgets over time, the spend of the history, and past
//! kills.
//!
//! The program that starts a gateway hands in a [`ControlSource`] ([`Control::source`](crate::Control::source)). Without
//! one, the control API answers these questions with 404. The answers are the same values that `endstop budget --json`,
//! `endstop spend --json` and `endstop kill --list --json` print.

use std::collections::BTreeMap;
use std::fmt::Debug;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the answers.
const VERSION: u32 = 1;

/// Answers questions of the control API about budgets over time, spend and past kills.
///
/// The operations may block, for example for a database. The control API asks a few at a time, each in a separate thread. One that
/// has begun goes on to its end, even if its client leaves.
///
/// ```
/// use std::sync::Arc;
///
/// use endstop_gateway::Control;
/// use endstop_gateway::control_source::{
///     BudgetList, ControlSource, CorrectedBudgets, CorrectionRequest, SourceError, SourceErrorKind,
///     SpendQuery, SpendReport,
/// };
///
/// #[derive(Debug)]
/// struct NoBudgets;
///
/// fn unknown(what: &str) -> SourceError {
///     SourceError::new(SourceErrorKind::Unknown, format!("no budget `{what}`"))
/// }
///
/// impl ControlSource for NoBudgets {
///     fn budgets(&self, name: Option<&str>) -> Result<BudgetList, SourceError> {
///         name.map_or_else(|| Ok(BudgetList::new(Vec::new())), |name| Err(unknown(name)))
///     }
///
///     fn correct(&self, name: &str, _: &CorrectionRequest) -> Result<CorrectedBudgets, SourceError> {
///         Err(unknown(name))
///     }
///
///     fn spend(&self, _: &SpendQuery) -> Result<SpendReport, SourceError> {
///         Err(SourceError::new(SourceErrorKind::Unknown, "no calls in the history"))
///     }
/// }
///
/// let control = Control { source: Some(Arc::new(NoBudgets)), ..Control::default() };
/// assert!(control.source.is_some());
/// // It records no kills.
/// assert_eq!(NoBudgets.kills().unwrap_err().kind, SourceErrorKind::Unknown);
/// ```
pub trait ControlSource: Debug + Send + Sync {
    /// Returns the state of the budget of this name, or of all.
    ///
    /// # Errors
    /// Returns an error if there is no such budget, or the store cannot be read.
    fn budgets(&self, name: Option<&str>) -> Result<BudgetList, SourceError>;

    /// Corrects what a budget has spent, and records who did so and why.
    ///
    /// A correction that is made is an answer, even if the budgets cannot be read afterwards: then the answer has none of them, and a
    /// note says why.
    ///
    /// # Errors
    /// Returns an error if there is no such budget, the amount cannot be read or taken back, or the store cannot be written.
    /// Nothing is corrected then, unless the kind is [`SourceErrorKind::Away`]: the answer of the store may be lost. A repetition with
    /// the same [`CorrectionRequest::id`] counts once.
    fn correct(
        &self,
        name: &str,
        request: &CorrectionRequest,
    ) -> Result<CorrectedBudgets, SourceError>;

    /// Returns the spend of the history.
    ///
    /// # Errors
    /// Returns an error if nothing is recorded, the query cannot be used, or the history cannot be read.
    fn spend(&self, query: &SpendQuery) -> Result<SpendReport, SourceError>;

    /// Returns the kills that are recorded. Without an implementation, there is no such record.
    ///
    /// # Errors
    /// Returns an error if the program records no kills, or the record cannot be read.
    fn kills(&self) -> Result<KillList, SourceError> {
        Err(SourceError::new(SourceErrorKind::Unknown, "this process has no record of kills"))
    }
}

/// Why a [`ControlSource`] or a [`KeyDesk`](crate::KeyDesk) does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SourceError {
    /// The kind, which decides the status of the response.
    pub kind: SourceErrorKind,
    /// The error, for people.
    pub message: String,
    /// The place of it in a file, for a terminal on the same machine. The control API does not answer with it.
    pub details: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SourceError {
    /// Creates an error without a hint.
    #[must_use]
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), details: None, hint: None }
    }

    /// Returns the same error, with what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The kind of a [`SourceError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// There is nothing of this name, or nothing is recorded: 404.
    Unknown,
    /// The request cannot be used: 400.
    Unusable,
    /// The request can be used, and is not possible now: 409.
    Refused,
    /// The files cannot be read or written, or are damaged: 500.
    Failed,
    /// A store on a server cannot be reached: 503.
    Away,
}

/// Budgets over time as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetList {
    /// The version of this form.
    pub version: u32,
    /// Each budget, in the order of their names.
    pub budgets: Vec<BudgetReport>,
}

impl BudgetList {
    /// Creates a list of the current version.
    #[must_use]
    pub const fn new(budgets: Vec<BudgetReport>) -> Self {
        Self { version: VERSION, budgets }
    }
}

/// The state of a budget over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetReport {
    /// Its name.
    pub name: String,
    /// The budgets above it, the nearest first. Each counts every call of this one too.
    pub parents: Vec<String>,
    /// Each of its limits.
    pub limits: Vec<LimitReport>,
    /// The last corrections, the newest first.
    pub adjustments: Vec<BudgetCorrection>,
    /// Seconds by which the clock is behind the time of the store: its windows end later by that.
    pub clock_behind_s: u64,
}

/// The state of one limit of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReport {
    /// The limit, such as `$5.00 per day`.
    pub limit: String,
    /// The unit of its amounts: `usd`, `tokens` or `steps`.
    pub unit: String,
    /// The limit as a number.
    pub amount: BudgetAmount,
    /// The settled amount in its window, unconfirmed amounts included.
    pub spent: BudgetAmount,
    /// The part of it that no settlement confirmed.
    pub unconfirmed: BudgetAmount,
    /// The amount that calls in flight hold.
    pub held: BudgetAmount,
    /// The remaining amount.
    pub left: BudgetAmount,
    /// The end of its window in milliseconds since 1970; of a rolling limit, when the first part of the spend leaves it.
    pub resets_at_ms: Option<u64>,
    /// The same time in the time zone of the budget, for people.
    pub resets_at: Option<String>,
}

/// An amount of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BudgetAmount {
    /// US dollars as an exact decimal.
    Usd(String),
    /// A number of tokens or steps.
    Count(u64),
}

/// A correction of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetCorrection {
    /// The time of the store, in milliseconds since 1970.
    pub at_ms: u64,
    /// The same time in the time zone of the budget, for people.
    pub at: Option<String>,
    /// Counted as spent.
    pub spent: CorrectedAmounts,
    /// Counted as given back, as far as so much was spent.
    pub returned: CorrectedAmounts,
    /// The person or program that corrected.
    pub who: String,
    /// Why.
    pub why: String,
}

/// The amounts of a correction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CorrectedAmounts {
    /// US dollars as an exact decimal.
    pub usd: String,
    /// Tokens.
    pub tokens: u64,
    /// Steps.
    pub steps: u64,
}

/// The body of a correction of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorrectionRequest {
    /// The amount with its sign, added to the spend: `+1.50` (US dollars), `-2M tokens`, `+5 steps`.
    pub amount: String,
    /// The reason, for the record.
    pub message: String,
    /// The person or program that corrects.
    pub by: Option<String>,
    /// An id of at most 128 bytes. A repetition with the same id corrects nothing more; without an id, each request counts.
    pub id: Option<String>,
}

/// Budgets after a correction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CorrectedBudgets {
    /// The version of this form.
    pub version: u32,
    /// The corrected budget, and then those above it, the nearest first. None if they cannot be read after the correction.
    pub budgets: Vec<BudgetReport>,
    /// Parts of the correction that had no effect, and why budgets are missing, for people.
    pub notes: Vec<String>,
}

impl CorrectedBudgets {
    /// Creates an answer of the current version.
    #[must_use]
    pub const fn new(budgets: Vec<BudgetReport>, notes: Vec<String>) -> Self {
        Self { version: VERSION, budgets, notes }
    }
}

/// The selection of a [`SpendReport`], as a client has written it.
///
/// ```
/// use endstop_gateway::control_source::SpendQuery;
///
/// // The query `?by=model&since=7d`.
/// let query = SpendQuery { by: Some("model".into()), since: Some("7d".into()), ..SpendQuery::default() };
/// assert_eq!(query.timezone, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendQuery {
    /// The rows: `day`, `model`, `project`, `run`, `budget` or `key`.
    pub by: Option<String>,
    /// The first day that counts: `2026-01-31`, or days until today such as `7d`.
    pub since: Option<String>,
    /// The time zone of days, such as `Europe/Berlin` or `+02:00`.
    pub timezone: Option<String>,
}

/// The spend of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpendReport {
    /// The version of this form.
    pub version: u32,
    /// Always `history`.
    pub source: String,
    /// The rows: `day`, `model`, `project`, `run`, `budget` or `key`.
    pub by: String,
    /// Each row, in the order of their names.
    pub rows: Vec<SpendRow>,
    /// All calls together, each once.
    pub total: SpendTotals,
    /// The runs that the calls are of.
    pub runs: u64,
    /// Always 0: only transcripts have copies of calls.
    pub duplicates: u64,
    /// Calls without a price, by their model.
    pub unpriced_models: BTreeMap<String, u64>,
    /// Calls with an amount that no provider and no tool confirmed.
    pub unconfirmed_calls: u64,
    /// The sum of these amounts, as an exact decimal.
    pub unconfirmed_usd: String,
    /// Calls that are in more than one row.
    pub calls_in_several_rows: u64,
}

/// A row of a [`SpendReport`]. It has its name in one of the first six fields, which is that of the question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpendRow {
    /// The day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The directory in which the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// The key of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its calls together.
    #[serde(flatten)]
    pub totals: SpendTotals,
}

/// Calls together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpendTotals {
    /// Model calls.
    pub calls: u64,
    /// Tokens of the input, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the input that were read from a cache.
    pub cached_tokens: u64,
    /// Tokens of the output.
    pub output_tokens: u64,
    /// Tokens of the input and the output.
    pub tokens: u64,
    /// US dollars as an exact decimal.
    pub cost_usd: String,
    /// Calls without a price.
    pub unpriced_calls: u64,
}

/// The kills that are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KillList {
    /// The version of this form.
    pub version: u32,
    /// Each kill, the latest last. It concerns the processes that were running then.
    pub kills: Vec<KillRecord>,
}

impl KillList {
    /// Creates a list of the current version.
    #[must_use]
    pub const fn new(kills: Vec<KillRecord>) -> Self {
        Self { version: VERSION, kills }
    }
}

/// A kill that is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KillRecord {
    /// The runs that were killed: `all`, or those of a `run`, `key` or `budget`.
    pub target: String,
    /// The name of the run, key or budget.
    pub name: Option<String>,
    /// When, such as `2026-01-31T12:00:00Z`. None if that is not recorded.
    pub at: Option<String>,
    /// The person or program that killed. None if that is not known.
    pub by: Option<String>,
    /// Why. None if that is not known.
    pub why: Option<String>,
    /// The server of the store that has the record. None if it is of the gateway's machine.
    pub store: Option<String>,
}
