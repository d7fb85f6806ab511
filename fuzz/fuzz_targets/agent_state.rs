//! Input for `checks/agent_state.rs`.
#![no_main]

#[path = "../checks/agent_state.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| reader::check(text));
