//! The synchronization types of `ledger` and `cancel`: those of the standard library, or those of a model checker
//! under `--cfg endstop_loom` or `--cfg endstop_shuttle`.

#[cfg(endstop_loom)]
pub(crate) use loom::sync::*;
#[cfg(all(endstop_shuttle, not(endstop_loom)))]
pub(crate) use shuttle::sync::*;
#[cfg(not(any(endstop_loom, endstop_shuttle)))]
pub(crate) use std::sync::*;
