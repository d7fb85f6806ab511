//! The runs of a gateway.
//!
//! A run is a tree of [`RunHandle`](endstop_runtime::RunHandle)s: the run itself, and a child of it for each
//! conversation other than the first. All draw on one ledger; loops and results are judged for each conversation.

mod account_waits;
mod budget_notes;
mod call_account_wait;
mod conversation;
mod conversation_match;
mod conversation_memory;
mod counters;
mod deadlock;
mod entry;
mod pause;
mod per_conversation_policy;
mod permit;
mod prices;
mod quotas;
mod registry;
mod response_history;
mod run_log;
mod unknown_fields;

pub(crate) use budget_notes::BudgetNote;
pub(crate) use call_account_wait::CallAccountWait;
pub(crate) use conversation::{ConversationState, ConversationStep, stop_of};
pub(crate) use conversation_memory::{MessageDigests, RequestBound, RequestIdentity};
pub use counters::Counts;
pub(crate) use deadlock::ReadProgress;
pub(crate) use entry::{RunEntry, RunOrigin};
pub(crate) use permit::{AcquireError, ConversationPermit};
pub(crate) use prices::Prices;
pub(crate) use registry::{NoRun, Registry, TotalChange};
pub use registry::{RunGroup, RunKiller};
pub(crate) use run_log::{NotLogged, OpenLogError};
