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
        ("//! A file of its own because two others use it.\nfn f() {}", 0),
        ("//! Doc.\npub(crate) struct S;", 0),
        ("//! Doc.\nmod a;\npub use a::B;", 0),
    ] {
        let tree = tree(&[("crates/a/src/b.rs", text)]);
        assert_eq!(check_small(&tree, &modules(&tree)).len(), count, "{text}");
    }
}
