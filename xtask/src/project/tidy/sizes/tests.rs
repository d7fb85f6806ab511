//! Tests of `sizes`.

use super::super::modules::{modules, samples::tree};
use super::*;

#[test]
fn only_code_counts() {
    let text = "//! Doc.\n\n/// Doc.\n// Comment.\nfn f(\n    a: u8,\n) {\n    /* b */\n    g(\"a\n\nb\")\n}\n\
                #[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
    assert_eq!(lines_of_code(text.parse().unwrap()), 7);
}

#[test]
fn large_files_are_found() {
    let text = |lines| format!("//! Doc.\n{}", "const A: u8 = 1;\n".repeat(lines));
    for (path, lines, count) in [
        ("a/src/b.rs", 600, 0),
        ("a/src/b.rs", 601, 1),
        ("a/src/b/tests.rs", 601, 0),
        ("a/tests/b.rs", 601, 0),
    ] {
        assert_eq!(check_large(&tree(&[(path, &text(lines))])).len(), count, "{path} {lines}");
    }
}

#[test]
fn small_files_need_a_reason() {
    for (text, count) in [
        ("//! Doc.\nfn f() {}", 1),
        ("//! A separate file because two others use it.\nfn f() {}", 0),
        ("//! Doc.\npub(crate) struct S;", 0),
        ("//! Doc.\nmod a;\npub use a::B;", 0),
    ] {
        let tree = tree(&[("crates/a/src/b.rs", text)]);
        assert_eq!(check_small(&tree, &modules(&tree)).len(), count, "{text}");
    }
}

#[test]
fn long_readers_need_a_reason() {
    let reader = |doc: &str, lines: usize| {
        let code = "const A: u8 = 1;\n".repeat(lines);
        format!("//! {doc}\npub(crate) fn detect(head: &Head<'_>) -> bool {{ true }}\n{code}")
    };
    let part = "const A: u8 = 1;\n".repeat(100);
    let why = "More than 250 lines because it has two layouts.";
    for (doc, lines, count) in [
        ("Doc.", 149, 0),
        ("Doc.", 150, 1),
        (why, 150, 0),
        // A reason that is no longer needed.
        (why, 149, 1),
    ] {
        let tree = tree(&[
            ("crates/endstop-transcript/src/b.rs", &reader(doc, lines)),
            ("crates/endstop-transcript/src/b/record.rs", &part),
            ("crates/endstop-transcript/src/b/tests.rs", &part),
            ("crates/endstop-transcript/src/c.rs", &part.repeat(3)),
        ]);
        assert_eq!(check_readers(&tree).len(), count, "{doc} {lines}");
    }
}
