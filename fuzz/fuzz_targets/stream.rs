//! Input for `checks/stream.rs`.
#![no_main]

#[path = "../checks/stream.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| reader::check(input));
