//! Input for `checks/expression.rs`.
#![no_main]

#[path = "../checks/expression.rs"]
mod reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| reader::check(text));
