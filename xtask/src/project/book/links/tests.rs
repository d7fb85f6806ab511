//! Tests of `links`.

use super::*;
use crate::root::root;

#[test]
fn links_to_pages_stay_and_others_lead_to_the_repository() {
    let pages = BTreeMap::from([("README.md", ""), ("docs/run.md", ""), ("docs/guide/ci.md", "")]);
    let root = root();
    let page = Page {
        path: "docs/guide/ci.md",
        root: &root,
        pages: &pages,
        repository: "https://example.com/e",
    };
    let text = "[run](../run.md#keys) [top](#top) [web](https://example.com/a.rs)\n\
                [front](../../README.md#guides) [code](../../xtask/src/main.rs#L1), [`dir`](../../xtask/src)\n\
                ![schema](../policy.schema.json) [word]\n\n[word]: ../../Cargo.toml\n";
    let (made, files) = page.for_book(text);
    let expected = "[run](../run.md#keys) [top](#top) [web](https://example.com/a.rs)\n\
                    [front](../../index.html#guides) [code](https://example.com/e/blob/main/xtask/src/main.rs#L1), [`dir`](https://example.com/e/tree/main/xtask/src)\n\
                    ![schema](../policy.schema.json) [word]\n\n[word]: https://example.com/e/blob/main/Cargo.toml\n";
    assert_eq!(made, expected);
    assert_eq!(files, ["docs/policy.schema.json"]);
}
