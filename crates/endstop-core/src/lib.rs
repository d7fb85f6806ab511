//! The decision core of Endstop.
//!
//! Events go in, directives come out. The core reads no clock, does no I/O, uses no float and no hash
//! order, and its state does not grow with the run.
#![no_std]

extern crate alloc;

pub mod event;
pub mod signal;
pub mod units;

pub use event::{Event, EventKind};
