//! Tests of `names`.

use super::super::modules::{modules, samples::tree};
use super::*;

/// The findings in these files, as they are printed.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    check(&modules(&tree(files))).iter().map(Finding::to_string).collect()
}

#[test]
fn two_types_of_one_name_in_a_crate_are_found() {
    let found = found(&[
        ("crates/a/src/b.rs", "pub struct Same;"),
        ("crates/a/src/c.rs", "\npub(crate) enum Same {}"),
        ("crates/d/src/b.rs", "pub struct Same;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/a/src/b.rs:1: type `Same`"), "{found:?}");
    assert!(found[0].contains("crates/a/src/c.rs:2"), "{found:?}");
}

#[test]
fn types_that_one_module_or_function_alone_can_name_are_found_too() {
    let found = found(&[
        ("crates/a/src/b.rs", "struct Private; pub(self) trait InModule {}"),
        ("crates/a/src/c.rs", "fn f() { struct Private; }\nmod inner { type InModule = u8; }"),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("`InModule`") && found[0].contains("crates/a/src/c.rs:2"),
        "{found:?}"
    );
    assert!(
        found[1].contains("`Private`") && found[1].contains("crates/a/src/c.rs:1"),
        "{found:?}"
    );
}

#[test]
fn types_of_tests_and_associated_types_may_have_the_name_of_another() {
    let found = found(&[
        ("crates/a/src/b.rs", "struct Item; struct Sample;"),
        ("crates/a/src/c.rs", "impl Iterator for Sample { type Item = u8; }"),
        ("crates/a/src/d.rs", "#[cfg(test)] mod tests { struct Sample; }"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_type_that_a_file_defines_for_several_targets_is_one() {
    const TARGETS: &str = "#[cfg(unix)] struct Signals;\n#[cfg(windows)] struct Signals;";
    assert!(found(&[("crates/a/src/b.rs", TARGETS)]).is_empty());
    let found = found(&[("crates/a/src/b.rs", TARGETS), ("crates/a/src/c.rs", TARGETS)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("crates/a/src/c.rs:1; rename all but one"), "{found:?}");
}
