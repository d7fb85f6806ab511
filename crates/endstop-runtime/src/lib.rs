//! The parts that live runs of agents share: budgets, cancellation, clocks, observers and stores.
//!
//! Several agents spend the same dollar, and each of them checks before it spends. If each checks alone, all of
//! them pass the check at once. This crate has the parts that make such runs safe together: a [`ledger`] in
//! which a call reserves its worst case before it is sent, and [`cancel`] tokens that carry the reason of a stop
//! from a run to its sub-agents.
//!
//! ```
//! use endstop_core::units::Money;
//! use endstop_runtime::ledger::{Amounts, Budget, Limits};
//!
//! let cents = |n: u64| Money::from_picos(n * 10_000_000_000);
//! let run = Budget::root(Limits { cost: Some(cents(50)), ..Limits::unlimited() });
//! let child = run.child(Limits::unlimited());
//!
//! // The call can cost at most 30 cents, and it costs 12.
//! let hold = child.reserve(Amounts { cost: cents(30), ..Amounts::ZERO })?;
//! assert!(run.reserve(Amounts { cost: cents(30), ..Amounts::ZERO }).is_err());
//! hold.settle(Amounts { cost: cents(12), ..Amounts::ZERO });
//! assert_eq!(run.room().cost, Some(cents(38)));
//! # Ok::<(), endstop_runtime::ledger::Refused>(())
//! ```
//!
//! Budgets that outlive a process, such as $5 per day, are [`account`]s.
//!
//! Start with [`RunHandle`], [`ledger::Budget`] and [`cancel::CancelToken`]. A [`RunHandle`] is a run among the runs of a
//! tree: its decision core, its budget and its token. A run and all its ancestors must admit whatever starts, and it
//! starts for all of them or for none. An [`OpenCall`] is a model call that was reserved; it is settled exactly once.
//!
//! # Features
//!
//! - `redis`: a store of budgets in Redis 7 or Valkey, for processes on many machines ([`account`]).
//! - `sqlite`: a store of runs in one SQLite file ([`store`]), a store of budgets in another, and the history of what runs
//!   spent in a third.
//! - `test-util`: runs played by hand, for tests of observers.
//!
//! # Where next
//!
//! The agent loop of `endstop` and `endstop-gateway` are the two drivers on this crate. `docs/semantics.md` of the
//! repository, section 2, describes reservations. The minimum Rust version is 1.95.

pub mod account;
mod call;
pub mod cancel;
pub mod clock;
#[cfg(feature = "sqlite")]
pub mod history;
mod json;
pub mod ledger;
mod limits;
mod model_error;
pub mod observe;
mod provider_api;
mod run;
#[cfg(feature = "sqlite")]
mod sqlite_file;
pub mod store;
mod sync;
mod tool_call;
pub mod trace;

#[cfg(test)]
#[path = "../../../tests/support/golden.rs"]
mod golden_file;

pub use call::{
    BYTES_PER_TOKEN, CallCounts, CallPlan, CallRoom, Charge, CostReport, CountedInput,
    DEFAULT_MAX_OUTPUT_TOKENS, InputBound, MIN_OUTPUT_TOKENS, Modalities, NotBegun, OpenCall,
    OpenToolCall, Outcome, Pricing, Received, ResponseReport, ToolNotBegun, WRAP_UP_NOTE,
    WRAP_UP_OUTPUT_TOKENS, estimate_tokens,
};
pub use model_error::{ErrorBilling, ModelError, ModelErrorKind, ProviderError, retry_after};
pub use provider_api::{MODEL_PROVIDERS, ModelProvider, ProviderApi};
pub use run::{
    BudgetUse, CancelOn, Carried, ExternalStop, RunEnvironment, RunHandle, ShownAccountWait,
    Standstill, StopReach, Waited,
};
pub use tool_call::{ToolCall, ToolOutcome};
