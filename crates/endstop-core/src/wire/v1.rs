//! Version 1.

pub mod condition;
pub mod state;
pub mod trace;
