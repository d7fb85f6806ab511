//! Generated policies and runs: the compiled program against a naive evaluator that reads the whole log
//! again for every question, saved states, and bounds.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that is wrong should panic"
)]

#[path = "differential/bounds_tests.rs"]
mod bounds_tests;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/differential_tests.rs"]
mod differential_tests;
#[path = "generate/generate.rs"]
mod generate;
#[path = "naive/naive.rs"]
mod naive;
#[path = "naive/naive_tests.rs"]
mod naive_tests;
#[path = "differential/state_tests.rs"]
mod state_tests;
#[path = "differential/watch_tests.rs"]
mod watch_tests;
#[path = "differential/would_tests.rs"]
mod would_tests;
