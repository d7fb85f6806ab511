//! The endstop switch for LLM agents.

pub mod agent;
pub mod message;
pub mod model;
pub mod observe;
pub mod tool;

pub use endstop_core as core;
pub use endstop_price as price;
#[cfg(feature = "replay")]
pub use endstop_replay as replay;
pub use endstop_runtime::{cancel, clock, ledger, store};
#[cfg(feature = "transcripts")]
pub use endstop_transcript as transcript;

/// Runs the Rust examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeDoctests;

/// Runs the Rust examples of the page on agents.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
pub struct AgentsDoctests;
