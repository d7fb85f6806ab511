//! Tests of `functions`.

use super::*;

#[test]
fn functions_are_measured_from_signature_to_brace() {
    let function = |lines: usize| format!("\nfn f() {{{}}}", "\n".repeat(lines - 1));
    assert!(check_file("a.rs", &function(70)).is_empty());
    let findings = check_file("a.rs", &function(71));
    assert_eq!(
        findings,
        [Finding::new("a.rs", 2, "function `f` has 71 lines, and 70 is the limit; split it")]
    );
}

#[test]
fn methods_and_inner_functions_are_measured() {
    let long = format!("fn f() {{{}}}", "\n".repeat(70));
    for text in [
        format!("impl A {{ {long} }}"),
        format!("trait A {{ {long} }}"),
        format!("mod a {{ {long} }}"),
    ] {
        assert_eq!(check_file("a.rs", &text).len(), 1, "{text}");
    }
    assert_eq!(check_file("a.rs", &format!("fn g() {{ {long} }}")).len(), 2);
    assert!(check_file("a.rs", "trait A { fn f(); }").is_empty());
}
