//! Tests of `circles`.

use super::super::modules::{modules, samples::tree};
use super::*;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    check(&modules(&tree(files))).iter().map(ToString::to_string).collect()
}

#[test]
fn a_circle_is_printed() {
    let found = found(&[
        ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
        ("crates/a/src/b.rs", "mod e;"),
        ("crates/a/src/b/e.rs", "use crate::{c::X, Y};"),
        ("crates/a/src/c.rs", "\nfn f(d: &super::d::D) {}"),
        ("crates/a/src/d.rs", "use crate::b::{self, e};"),
    ]);
    assert_eq!(
        found,
        ["crates/a/src/b/e.rs:1: modules of `a` use each other: b -> c (crates/a/src/b/e.rs:1) \
          -> d (crates/a/src/c.rs:2) -> b (crates/a/src/d.rs:1)"]
    );
}

#[test]
fn each_circle_is_found_beside_a_shorter_one() {
    let found = found(&[
        ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
        ("crates/a/src/b.rs", "use crate::c::C;"),
        ("crates/a/src/c.rs", "use crate::b::B; use crate::d::D;"),
        ("crates/a/src/d.rs", "mod e; use crate::b::B;"),
        ("crates/a/src/d/e.rs", ""),
    ]);
    assert_eq!(
        found,
        [
            "crates/a/src/b.rs:1: modules of `a` use each other: b -> c (crates/a/src/b.rs:1) \
             -> b (crates/a/src/c.rs:1)",
            "crates/a/src/c.rs:1: modules of `a` use each other: c -> d (crates/a/src/c.rs:1) \
             -> b (crates/a/src/d.rs:1) -> c (crates/a/src/b.rs:1)",
        ]
    );
}

/// A pair that is allowed makes no circle, and has to be one.
#[test]
fn a_pair_is_allowed_as_long_as_it_is_needed() {
    let files = [
        ("crates/a/src/lib.rs", "mod b; mod c;"),
        ("crates/a/src/b.rs", "use crate::c::C;"),
        ("crates/a/src/c.rs", "use crate::b::B;"),
    ];
    let sources = tree(&files);
    let all = modules(&sources);
    let all: Vec<&Module<'_>> = all.iter().collect();
    let pair = |within, one, other| Pair { within, files: [one, other], reason: "a test" };
    assert_eq!(check_crate("a", &all, &[]).len(), 1);
    assert!(check_crate("a", &all, &[pair("a", "b", "c"), pair("d", "b", "c")]).is_empty());
    let found = check_crate("a", &all, &[pair("a", "b", "c"), pair("a", "c", "e")]);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("no longer"), "{found:?}");
}

#[test]
fn an_item_is_where_it_is_defined() {
    let found = found(&[
        ("crates/a/src/lib.rs", "mod b; mod c; pub use c::X; pub use self::b::Y;"),
        ("crates/a/src/b.rs", "mod e; use crate::X;"),
        ("crates/a/src/b/e.rs", ""),
        ("crates/a/src/c.rs", "use super::Y;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn parts_of_a_module_and_the_module_are_no_circle() {
    let found = found(&[
        ("crates/a/src/b.rs", "mod e; use self::e::E; pub(crate) struct S;"),
        ("crates/a/src/b/e.rs", "use super::S; use super::f::F; pub(in crate::b) struct E;"),
        ("crates/a/src/b/f.rs", "use super::S;"),
        ("crates/a/src/c.rs", "use crate::b::S; #[cfg(test)] mod tests { use crate::b::S; }"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_path_in_the_tokens_of_a_macro_counts() {
    for tokens in [
        "fn f() {\n    assert!([1].contains(&super::super::b::B));\n}",
        "macro_rules! m {\n    () => { $crate::b::B };\n}",
        "fields! {\n    S { s: crate::b::B = 0, }\n}",
    ] {
        let found =
            found(&[("crates/a/src/b.rs", "use crate::c::C;"), ("crates/a/src/c/d.rs", tokens)]);
        assert_eq!(
            found,
            ["crates/a/src/b.rs:1: modules of `a` use each other: b -> c (crates/a/src/b.rs:1) \
              -> b (crates/a/src/c/d.rs:2)"]
        );
    }
    let tests = "m! {\n    #[cfg(test)] mod tests { fn f() { crate::b::g() } }\n}";
    assert!(
        found(&[("crates/a/src/b.rs", "use crate::c::C;"), ("crates/a/src/c.rs", tests)])
            .is_empty()
    );
}
