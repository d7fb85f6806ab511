//! The agent loop, by behavior. Models are scripted, time is simulated unless a test says otherwise.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod basics;
mod budget;
mod cancel;
mod charges;
mod defects;
#[path = "../../../../tests/support/golden.rs"]
mod file;
mod finish;
#[path = "../../../../tests/support/flaky_store.rs"]
mod flaky_store;
mod golden;
mod handoff;
mod hooks;
mod hooks_see;
mod kill;
mod kit;
mod mended_1;
mod mended_10;
mod mended_11;
mod mended_12;
mod mended_13;
mod mended_14;
mod mended_15;
mod mended_2;
mod mended_24;
mod mended_25;
mod mended_7;
mod next;
mod overrides;
mod parallel;
mod pause;
mod pause_outside;
#[cfg(feature = "models")]
mod provider;
mod record;
mod reopen;
mod resume;
mod retry;
mod support;
mod tool_cost;
mod tree;
mod waits;
