//! Version 1.

pub mod condition;
pub mod trace;
