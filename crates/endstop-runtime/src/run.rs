//! Runs in a tree: one decision core, one node of the ledger and one cancellation token for each.
//!
//! Every act of a run also counts for its ancestors. Work starts for the run and every ancestor, or for none of them;
//! spend is settled for all of them in one operation. So the cores of a run and its ancestors are locked together,
//! root first; the ledger's lock is taken inside them, and nothing is awaited while they are held.

mod account_wait;
mod approval;
mod awaited_accounts;
mod budget_use;
mod chain;
mod ends;
mod environment;
mod handle;
mod node;
mod pause;
mod reset;
mod wait;

pub use account_wait::ShownAccountWait;
pub use budget_use::BudgetUse;
pub(crate) use chain::LockedChain;
pub use environment::{Carried, ExternalStop, RunEnvironment, StopReach};
pub use handle::RunHandle;
pub(crate) use node::{RunCore, RunNode, is_over};
pub use wait::{CancelOn, Standstill, Waited};
