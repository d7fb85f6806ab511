//! Tests of `errors`.

use super::super::modules::{modules, samples::tree};
use super::*;

#[test]
fn texts_as_errors_are_found_in_libraries_alone() {
    let text = "fn a() -> Result<u8, String> { b }\nfn b() -> Result<String, E> { c }\n\
                trait T { fn c() -> std::result::Result<(), std::string::String>; }\n\
                #[cfg(test)] mod tests { fn d() -> Result<(), String> {} }";
    let tree = tree(&[("crates/a/src/b.rs", text), ("crates/endstop-cli/src/c.rs", text)]);
    let lines: Vec<_> = check_errors(&modules(&tree)).iter().map(|found| found.line).collect();
    assert_eq!(lines, [1, 3]);
}

#[test]
fn limits_outside_their_file_are_found() {
    let text = "const MAX_A: u8 = 1;\nconst MIN_A: u8 = 1;\nimpl S { pub const MAX_B: u8 = 1; }";
    let tree = tree(&[
        ("crates/a/src/b.rs", text),
        ("crates/a/src/limits.rs", text),
        ("crates/a/src/b/limits.rs", "pub const MAX_C: u8 = 1;"),
    ]);
    let found = check_limits(&modules(&tree));
    assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), [1, 3, 1]);
}
