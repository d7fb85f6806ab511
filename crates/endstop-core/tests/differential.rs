//! Generated policies and runs: the compiled program against a naive evaluator that reads the whole log
//! again for every question, saved states, and bounds.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that is wrong should panic"
)]

#[path = "differential/bounds.rs"]
mod bounds;
#[path = "differential/compare.rs"]
mod compare;
#[path = "generate/generate.rs"]
mod generate;
#[path = "naive/naive.rs"]
mod naive;
#[path = "differential/naive_cases.rs"]
mod naive_cases;
#[path = "differential/programs.rs"]
mod programs;
#[path = "differential/saved_states.rs"]
mod saved_states;
#[path = "differential/watching.rs"]
mod watching;
#[path = "differential/would_admit.rs"]
mod would_admit;
