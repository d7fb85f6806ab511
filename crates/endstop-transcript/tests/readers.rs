//! The contract of transcript readers. Each row of `FORMATS` is held to it with the examples in
//! `tests/data/<id>/`; what they read as is in `tests/data/expected/<id>.txt`, rewritten where the variable
//! `ENDSTOP_BLESS` is set. Exported runs are in `tests/golden/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the helpers of these tests fail as their tests do"
)]

#[path = "../../../tests/support/golden.rs"]
mod file;
#[path = "readers/sink.rs"]
mod sink;

#[path = "readers/contract.rs"]
mod contract;
#[path = "readers/export.rs"]
mod export;
#[path = "readers/logs_and_atif.rs"]
mod logs_and_atif;
#[path = "readers/otlp.rs"]
mod otlp;
#[path = "readers/real_benchmarks.rs"]
mod real_benchmarks;
#[path = "readers/real_data.rs"]
mod real_data;
#[path = "readers/real_frameworks.rs"]
mod real_frameworks;
#[path = "readers/real_logs.rs"]
mod real_logs;
#[path = "readers/sample.rs"]
mod sample;
