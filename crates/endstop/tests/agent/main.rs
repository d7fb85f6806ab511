//! The agent loop, by behaviour. Models are scripted, time is simulated unless a test says otherwise.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod basics;
mod kit;
mod pause;
mod resume;
mod support;
mod tree;
