//! Input for `checks/policy_file.rs`.
#![no_main]

#[path = "../checks/policy_file.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| reader::check(text));
