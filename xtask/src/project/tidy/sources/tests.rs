//! Tests of the checks on Rust sources.

use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    check_file(path, text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_clean_file_has_no_findings() {
    let text = "//! Doc.\n/// `todo!` in a doc is text.\nfn f() { let s = \"dbg!(1)\"; }\n";
    assert_eq!(found("a/src/b.rs", text), Vec::<String>::new());
}

#[test]
fn missing_docs_and_mod_files_are_found() {
    assert_eq!(found("src/a.rs", "fn f() {}").len(), 1);
    assert!(found("examples/a.rs", "fn f() {}").is_empty());
    assert_eq!(found("src/a/mod.rs", "//! Doc.").len(), 1);
}

#[test]
fn unfinished_work_is_found_with_its_line() {
    let cases = [
        ("//! D\nfn f() { todo!() }", 2),
        ("//! D\n\nfn f() { unimplemented!(\"x\") }", 3),
        ("//! D\nfn f() { g(dbg!(1)) }", 2),
        ("//! D\nmacro_rules! m { () => { todo!() }; }", 2),
        ("//! D\n#[test]\n#[ignore]\nfn f() {}", 3),
        ("//! D\n#[ignore = \"slow\"]\nfn f() {}", 2),
        (concat!("//! D\n// TO", "DO: more"), 2),
        (concat!("//! D\nfn f() {} // FIX", "ME"), 2),
    ];
    for (text, line) in cases {
        let findings = check_file("src/a.rs", text);
        assert_eq!(
            findings.iter().map(|finding| finding.line).collect::<Vec<_>>(),
            [line],
            "{text}"
        );
    }
}

#[test]
fn lint_exceptions_need_a_reason() {
    assert_eq!(found("src/a.rs", "//! D\n#[allow(dead_code)]\nfn f() {}").len(), 1);
    assert_eq!(found("src/a.rs", "//! D\n#![allow(dead_code)]").len(), 1);
    assert!(found("src/a.rs", "//! D\n#[allow(dead_code, reason = \"r\")]\nfn f() {}").is_empty());
}

#[test]
fn what_is_not_rust_is_a_finding() {
    assert_eq!(found("src/a.rs", "//! D\nfn f( {"), ["src/a.rs:2: not Rust"]);
}
