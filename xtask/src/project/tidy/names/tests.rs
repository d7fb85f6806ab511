//! Tests of `names`.

use super::super::modules::{modules, samples::tree};
use super::*;

#[test]
fn two_shared_types_of_one_name_are_found_and_private_ones_are_not() {
    let tree = tree(&[
        ("crates/a/src/b.rs", "pub struct Same;\nstruct Own; pub(self) struct Other;"),
        ("crates/a/src/c.rs", "\npub(crate) enum Same {}\nstruct Own; pub struct Other;"),
        ("crates/d/src/b.rs", "pub struct Same;"),
    ]);
    let findings = check(&modules(&tree));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].to_string().starts_with("crates/a/src/b.rs:1: type `Same`"));
    assert!(findings[0].to_string().contains("crates/a/src/c.rs:2"));
}
