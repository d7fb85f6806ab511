//! Calls through the gateway, against an upstream that counts them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../../../../tests/support/damage.rs"]
mod broken;
mod fake;
#[path = "../../../../tests/support/golden.rs"]
mod file;
mod kit;

mod apis;
mod attacks;
mod batches;
mod calls;
mod control;
mod conversations;
mod counting;
mod damage;
mod drains;
mod failures;
mod finish;
#[path = "../../../../tests/support/flaky_store.rs"]
mod flaky_store;
mod forms;
mod golden;
mod issued_keys;
mod key_desk;
mod limits;
mod lists;
mod metering;
mod notes;
mod outside;
mod pauses;
mod provider_tools;
mod quotas;
mod raw;
mod refusals;
mod runs;
mod secrets;
mod shares;
mod stalls;
mod stored_runs;
mod streams;
mod tenants;
mod transparent;
mod unread;
mod usage;
