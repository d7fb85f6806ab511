//! Tests of `links`.

use super::*;
use crate::root::root;

#[test]
fn links_are_followed() {
    let check = |text| check_file(&root(), "docs/a.md", text).len();
    assert_eq!(check("[a](../README.md#top) [b](https://example.com) [c](#here)"), 0);
    assert_eq!(check("[a](../no-such-file.md)"), 1);
    assert_eq!(check("![a](no-such-picture.png)"), 1);
    assert_eq!(check("```\n[a](no-such-file.md)\n```\n`[b](no-such-file.md)`"), 0);
    let findings = check_file(&root(), "a.md", "one\n\ntwo [a][b]\n\n[b]: no-such-file.md\n");
    assert_eq!(findings.first().map(|finding| finding.line), Some(3));
}
