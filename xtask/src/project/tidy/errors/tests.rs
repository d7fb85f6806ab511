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

#[test]
fn times_and_numbers_that_are_documented_as_bounds_are_limits() {
    let text = "const WAIT: Duration = Duration::ZERO;\n\
                const MAX_WAIT: std::time::Duration = Duration::ZERO;\n\
                /// The longest name.\nconst NAME: usize = 9;\n\
                /// Most lines.\n#[cfg(unix)]\nconst LINES: u64 = 9;\n\
                /// The version.\nconst VERSION: u64 = 1;\n\
                /// The longest word.\nconst WORD: &str = \"a\";\n\
                fn f() { const INSIDE: Duration = Duration::ZERO; }\n\
                #[cfg(test)] mod tests { const NET: Duration = Duration::ZERO; }";
    let tree = tree(&[("crates/a/src/b.rs", text), ("crates/a/src/limits.rs", text)]);
    let found = check_limits(&modules(&tree));
    let mut lines: Vec<_> = found.iter().map(|found| found.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, [1, 2, 4, 7]);
}
