//! The contract of transcript readers. Each row of `FORMATS` is held to it with the examples in
//! `tests/data/<id>/`; what they read as is in `tests/data/expected/<id>.txt`, rewritten where the variable
//! `ENDSTOP_BLESS` is set.

#[path = "readers/sink.rs"]
mod sink;

#[path = "readers/contract.rs"]
mod contract;
#[path = "readers/real_data.rs"]
mod real_data;
#[path = "readers/sample.rs"]
mod sample;
