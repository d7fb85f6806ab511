//! The decision core of Endstop.
//!
//! Events go in, directives come out. The core reads no clock, does no I/O, uses no float and no hash
//! order, and its state does not grow with the run.
#![no_std]

extern crate alloc;

pub mod condition;
pub mod event;
pub mod expr;
mod near_duplicate;
pub mod signal;
mod text;
pub mod units;

pub use condition::Condition;
pub use event::{Event, EventKind};
