//! The decision core of Endstop.
//!
//! Events go in, directives come out. The core reads no clock, does no I/O, uses no float and no hash
//! order, and its state does not grow with the run.
#![no_std]

extern crate alloc;

pub mod condition;
pub mod event;
pub mod expr;
mod meter;
mod near_duplicate;
pub mod policy;
pub mod probe;
pub mod run;
pub mod signal;
mod text;
pub mod trip_record;
pub mod units;
pub mod wire;

pub use condition::Condition;
pub use event::{Event, EventKind};
pub use meter::Truth;
pub use policy::{Action, Policy, Program};
pub use run::{Directive, Run, Status};
pub use trip_record::TripRecord;
