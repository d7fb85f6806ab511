//! The endstop switch for LLM agents.

pub mod price;

pub use endstop_core as core;
