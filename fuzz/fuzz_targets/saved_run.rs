//! Input for `checks/saved_run.rs`.
#![no_main]

#[path = "../checks/saved_run.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| reader::check(text));
