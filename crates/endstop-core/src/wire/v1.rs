//! Version 1.

pub mod state;
pub mod trace;
