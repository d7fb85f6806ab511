//! Tests of `manifests`.

use super::*;

#[test]
fn paths_may_not_leave_the_project() {
    let check = |text: &str| check_manifest("crates/a/Cargo.toml", text).len();
    assert_eq!(check("[dependencies]\nb = { path = \"../b\" }\nc = \"1\""), 0);
    assert_eq!(check("[dependencies]\nb = { path = \"../../../b\" }"), 1);
    assert_eq!(check("[target.'cfg(unix)'.dependencies.b]\npath = \"/opt/b\""), 1);
    assert_eq!(check("[[bin]]\nname = \"b\"\npath = \"src/../../../../b.rs\""), 1);
    let findings = check_manifest("Cargo.toml", "[dependencies]\n\nb = { path = \"../b\" }");
    assert_eq!(findings.first().map(|finding| finding.line), Some(3));
}

#[test]
fn packages_come_from_the_public_registry() {
    let lock = |source: &str| format!("[[package]]\nname = \"a\"\nsource = \"{source}\"\n");
    assert!(check_lock("Cargo.lock", &lock(PUBLIC_REGISTRY)).is_empty());
    assert_eq!(check_lock("Cargo.lock", &lock("git+https://example.com/a#1")).len(), 1);
}
