//! The decision core of Endstop.
//!
//! Events go in, directives come out. The core reads no clock, does no I/O, uses no float and no hash
//! order, and its state does not grow with the run.
#![no_std]

extern crate alloc;

pub mod condition;
mod counter;
mod diagnostic;
mod directive;
pub mod event;
pub mod expr;
pub mod limits;
mod meter;
mod near_duplicate;
pub mod policy;
pub mod probe;
mod program;
pub mod run;
pub mod signal;
mod table;
mod text;
pub mod trip_record;
pub mod units;
pub mod wire;

pub use condition::Condition;
pub use event::{Event, EventKind};
pub use meter::Truth;
pub use policy::{Action, Policy};
pub use program::Program;
pub use run::{Directive, Run, Status};
pub use trip_record::TripRecord;
