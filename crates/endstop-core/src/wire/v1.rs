//! Version 1.

pub mod state;
