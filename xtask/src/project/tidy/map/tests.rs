//! Tests of `map`.

use super::super::modules::samples::tree;
use super::*;

#[test]
fn paths_of_the_map_exist() {
    let tree = tree(&[
        (
            "ARCHITECTURE.md",
            "`a/b.rs`, `b.rs`, `a/`, `c/d.rs`\n`x::y` `a b/c` `xb.rs`\n```\n`no.rs`\n```",
        ),
        ("a/b.rs", ""),
    ]);
    let found: Vec<String> = check_map(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "ARCHITECTURE.md:1: no file or directory `c/d.rs`",
            "ARCHITECTURE.md:2: no file or directory `xb.rs`"
        ]
    );
}

#[test]
fn tables_of_the_map_exist() {
    let map = "`NONE`\n## Where to add things\n`ROWS`, `Rows`, `GONE`\n## Else\n`NONE`";
    let tree = tree(&[("ARCHITECTURE.md", map), ("a.rs", "const ROWS: u8 = 1;")]);
    let found: Vec<String> = check_map(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["ARCHITECTURE.md:3: no constant `GONE`"]);
}

#[test]
fn documents_of_others_are_found() {
    for text in
        ["At every checkpoint (01-", "see 05-"].map(|text| format!("{text}semantics section 5)"))
    {
        assert_eq!(check_citations(&tree(&[("a.rs", &text)])).len(), 1, "{text}");
    }
    for text in ["2026-11-01-and", "gpt-4-32k", "a 60-second tour", "64-bit", "docs/semantics.md"] {
        assert!(check_citations(&tree(&[("a.md", text)])).is_empty(), "{text}");
    }
}

#[test]
fn a_front_page_has_an_example_and_names_the_next_pages() {
    let found = |text: &str| check_front_pages(&tree(&[("crates/a/src/lib.rs", text)])).len();
    assert_eq!(found("//! A.\n//!\n//! ```\n//! f();\n//! ```\n//!\n//! # Where next\n"), 0);
    assert_eq!(found("//! ```text\n//! a\n//! ```\n//! # Where next\n"), 1);
    assert_eq!(found("//! ```\n//! f();\n//! ```\n\nmod a;\n//! # Where next\n"), 1);
    assert_eq!(found(""), 2);
    assert!(check_front_pages(&tree(&[("crates/a/src/b/lib.rs", "")])).is_empty());
}
