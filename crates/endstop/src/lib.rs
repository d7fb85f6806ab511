//! The endstop switch for LLM agents.
pub use endstop_core as core;
