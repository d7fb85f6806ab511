//! Runs in a tree: one decision core, one node of the ledger and one cancellation token for each.
//!
//! What a run does is its ancestors' doing too. Whatever begins is asked of every ancestor first, and begins
//! for all of them or for none; whatever is spent is settled for all of them at once. So the cores of a run
//! and its ancestors are locked together, root first; the ledger's lock is taken inside them, and nothing is
//! awaited while they are held.

mod approval;
mod chain;
mod ends;
mod environment;
mod handle;
mod node;
mod pause;
mod wait;

pub(crate) use chain::LockedChain;
pub use environment::{Carried, ExternalStop, RunEnvironment, StopReach};
pub use handle::RunHandle;
pub(crate) use node::{RunCore, RunNode};
pub use wait::{CancelOn, Standstill, Waited};
