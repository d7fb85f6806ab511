//! The synchronisation types of `ledger` and `cancel`: those of the standard library, or those of a model
//! checker under `--cfg endstop_loom` or `--cfg endstop_shuttle`.

#[cfg(endstop_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(all(endstop_shuttle, not(endstop_loom)))]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(not(any(endstop_loom, endstop_shuttle)))]
#[expect(unused_imports, reason = "stands here until the ledger is in place")]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic};
