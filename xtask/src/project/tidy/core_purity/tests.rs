//! Tests of `core_purity`.

use super::*;

fn lines(text: &str) -> Vec<usize> {
    let findings = check_file("crates/endstop-core/src/a.rs", text);
    findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn impure_tokens_are_found() {
    for text in [
        "use std::fmt;",
        "extern crate std;",
        "fn f(t: core::time::Instant) {}",
        "fn f(t: SystemTime) {}",
        "fn f(x: f32) {}",
        "const X: u64 = 3f64 as u64;",
        "fn f() -> bool { x > 1.5 }",
        "fn f() { g(1e9) }",
        "fn f() { for x in 0..1.5 {} }",
        "macro_rules! m { () => { HashMap::new() }; }",
        "fn f(s: HashSet<u8>) {}",
    ] {
        assert_eq!(lines(text), [1], "{text}");
    }
}

#[test]
fn pure_code_tests_and_text_are_not_found() {
    for text in [
        "/// No `f64`, no std::time.\nfn f(pair: ((u8, u8), u8)) -> u8 { pair.0.1 }",
        "#[cfg(feature = \"std\")]\nfn f() {}",
        "fn f() -> &'static str { \"std::time 1.5\" }",
        "#[cfg(test)]\nmod tests { use std::fmt; const X: f64 = 1.5; }",
        "#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\nfn f() { let _ = 0x1e3; }",
        "mod a { #[cfg(test)] use std::fmt; fn f() {} }",
    ] {
        assert_eq!(lines(text), Vec::<usize>::new(), "{text}");
    }
}

#[test]
fn code_after_a_test_item_is_still_looked_at() {
    assert_eq!(lines("#[cfg(test)]\nmod tests;\nfn f(x: f64) {}"), [3]);
    assert_eq!(lines("#[cfg(test)]\nmod tests { }\n\nuse std::fmt;"), [4]);
}
