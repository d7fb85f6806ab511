//! Input for `checks/transcript_database.rs`.
#![no_main]

#[path = "../checks/transcript_database.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reader::check(bytes));
