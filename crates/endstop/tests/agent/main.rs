//! The agent loop, by behavior. Models are scripted, time is simulated unless a test says otherwise.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod approved_early;
mod basics;
mod budget;
mod cancel;
mod charges;
mod continued;
mod defects;
mod dropped_requests;
#[path = "../../../../tests/support/golden.rs"]
mod file;
mod finish;
mod finish_below;
#[path = "../../../../tests/support/flaky_store.rs"]
mod flaky_store;
mod golden;
mod handoff;
mod hooks;
mod hooks_see;
mod kill;
mod kit;
mod next;
mod overrides;
mod own_steps;
mod parallel;
mod pause;
mod pause_at_end;
mod pause_before_child;
mod pause_below;
mod pause_outside;
#[cfg(feature = "models")]
mod provider;
mod record;
mod reopen;
mod resume;
mod retry;
mod stuck_hooks;
mod support;
mod tool_cost;
mod tree;
mod unexpected_responses;
mod waits;
mod work_in_flight;
