//! Accounts: budgets over time, shared by all runs and processes that draw on them.
//!
//! A budget of the [`ledger`](crate::ledger) lives as long as its process. An [`Account`] outlives it: `$5 per day` is the
//! same five dollars for every run of the day. Its counters are in a [`BudgetStore`], in memory, in one SQLite file
//! that all processes of a user share, or in Redis, which processes on many machines share.
//!
//! 1. A call reserves its worst case on all accounts that it draws on, or on none, and settles after. For each window of
//!    each limit, settled + held never passes the limit, under any interleaving of processes; only what a provider charges
//!    above the worst case can.
//! 2. Time is the store's: the latest wall time that any of its users has seen. It never runs backwards, so no window opens
//!    again. After a jump forward of the clock, the window of that moment stays until real time has reached it.
//! 3. A call belongs to the window in which it was reserved. A late settlement corrects that window.
//! 4. A hold has an id, an owner and an expiry, which its owner extends. One that expires is settled at its worst case; a
//!    later settlement corrects that. Every operation can be repeated: it counts once, by its id.
//! 5. Amounts are integers: steps, tokens, pico-dollars.
//!
//! ```
//! use endstop_core::units::Money;
//! use endstop_runtime::account::{Account, BudgetStore, HoldTerms, MemoryBudgetStore};
//! use endstop_runtime::ledger::Amounts;
//! use std::time::Duration;
//!
//! let store = MemoryBudgetStore::new();
//! let me = Account::new("me", &["$1 per day"])?;
//! let cents = |n: u64| Amounts { cost: Money::from_picos(n * 10_000_000_000), ..Amounts::ZERO };
//! let terms = |id| HoldTerms { id, owner: "run-1", ttl: Duration::from_secs(60) };
//!
//! store.reserve(&[&me], cents(60), &terms("call-1"))?;
//! assert!(store.reserve(&[&me], cents(60), &terms("call-2")).is_err());
//! store.settle("call-1", cents(35))?;
//! store.reserve(&[&me], cents(60), &terms("call-2"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod counters;
mod limit;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod refused;
mod run;
mod spec;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod tables;
mod warning;
mod window;

pub use limit::{AccountLimit, LimitError, Window};
pub use memory::MemoryBudgetStore;
#[cfg(feature = "redis")]
pub use redis::{
    KillReceipt, KillTarget, PastKill, RedisBudgetStore, StoreKeyChange, StoreKeys, StoreKill,
    StorePersistence,
};
#[cfg(feature = "redis")]
pub(crate) use redis::{RedisServer, Reply as RedisReply, Request as RedisRequest};
pub use refused::AccountRefused;
pub(crate) use refused::RESET_KEY;
pub(crate) use run::{AccountBlock, AccountHold};
pub use run::{AccountWait, DrawnAccounts, RunAccounts};
pub use spec::{
    Account, AccountError, AccountProblem, AccountSet, DEFAULT_ACCOUNT, OnFull, is_match,
};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteBudgetStore;
pub use store::{
    AccountState, Adjustment, BudgetStore, BudgetStoreError, HoldTerms, LimitState, PastAdjustment,
};
pub use tables::{AccountSource, AccountTables};
pub use warning::{AccountThreshold, AccountWarning};
