//! Tests of `anchors`.

use super::super::modules::samples::tree;
use super::*;

const PAGE: &str = "# A page\n\n## 2. Limits, `hard`\n\n### What a limit rests on\n";

fn found(path: &str, text: &str) -> Vec<String> {
    let tree = tree(&[("docs/page.md", PAGE), (path, text)]);
    check(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn places_that_exist_are_cited() {
    for text in [
        "/// docs/page.md#what-a-limit-rests-on",
        "//! (`docs/page.md`, \"What a limit\n//! rests on\").",
        "    // See docs/page.md, section 2.",
        "//! In `docs/page.md`\n//! section 2.",
        "let page = \"docs/page.md\"; let other = \"section 9\";",
        "/// docs/elsewhere.md#nothing",
    ] {
        assert_eq!(found("a.rs", text), Vec::<String>::new(), "{text}");
    }
    assert!(found("a.md", "[a](docs/page.md#2-limits-hard), \"No heading\"").is_empty());
}

#[test]
fn places_that_do_not_exist_are_found() {
    assert_eq!(
        found("a.rs", "\n/// docs/page.md#limits"),
        ["a.rs:2: `page.md` has no anchor `#limits`; cite one that it has"]
    );
    assert_eq!(
        found("a.rs", "//! (`docs/page.md`,\n//! \"Calls\")."),
        ["a.rs:1: `page.md` has no heading \"Calls\"; cite one that it has"]
    );
    assert_eq!(
        found("a.rs", "// docs/page.md, section 12"),
        ["a.rs:1: `page.md` has no section 12; cite one that it has"]
    );
    assert_eq!(
        found("docs/b.md", "[a](page.md#limits)"),
        ["docs/b.md:1: `page.md` has no anchor `#limits`; cite one that it has"]
    );
}
