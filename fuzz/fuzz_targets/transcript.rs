//! Input for `checks/transcript.rs`.
#![no_main]

#[path = "../checks/transcript.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reader::check(bytes));
