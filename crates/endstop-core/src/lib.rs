//! The decision core of Endstop: events of an agent's run go in, directives come out.
//!
//! Every agent loop counts steps, tokens and money, and every loop stops a little differently. This crate makes that
//! one decision as data: a [`Policy`] of conditions such as `steps >= 25 or cost >= $2.00`, judged on the events that a
//! loop reports. It reads no clock, does no I/O and uses no floats, and its state does not grow with the run. A decision
//! can therefore be replayed, saved in the middle and tested. `docs/semantics.md` of the repository defines each number.
//!
//! ```
//! use std::sync::Arc;
//!
//! use endstop_core::probe::Probes;
//! use endstop_core::units::Millis;
//! use endstop_core::{Directive, Event, EventKind, Policy, Program, Run};
//!
//! let policy = Policy::from_toml("[stop]\nsteps = \"steps >= 2\"").unwrap();
//! let mut run = Run::new(Arc::new(Program::new(&policy, &Probes::new())?));
//! let mut tell = |at, kind| run.observe(&Event::new(Millis(at), kind));
//! for step in 0..2 {
//!     assert_eq!(tell(step, EventKind::StepBegin), Directive::Proceed);
//!     tell(step, EventKind::StepEnd);
//! }
//! assert_eq!(tell(2, EventKind::StepBegin), Directive::Stop);
//! println!("{}", run.explain());
//! # Ok::<(), endstop_core::policy::PolicyError>(())
//! ```
//!
//! Start with [`Policy`], [`Run`] and [`Event`]. [`condition::named`] has ready conditions for Rust, [`expr`] reads them
//! from text, and [`TripRecord`] says why a run stopped.
//!
//! # Features
//!
//! - `std` (default): lets the text search use SIMD. Without it the crate needs `alloc` only.
//! - `schema`: the JSON Schema of the policy file.
//!
//! # Where next
//!
//! `examples/own_loop.rs` of the repository is a complete loop on this crate alone. The crate `endstop` has an agent
//! loop, and `endstop-gateway` drives this core from HTTP. The minimum Rust version is 1.95.
#![no_std]

extern crate alloc;

pub mod condition;
mod counter;
mod diagnostic;
mod directive;
pub mod event;
pub mod expr;
pub mod human;
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
#[doc(hidden)]
pub use diagnostic::edit_distance;
pub use event::{Event, EventKind};
pub use meter::Truth;
pub use policy::{Action, Policy};
pub use program::Program;
pub use run::{Directive, Run, Status};
pub use trip_record::TripRecord;
