//! Tests of `docs`.

use super::*;

#[test]
fn a_stale_page_is_found_at_its_first_difference() {
    let mut tree = Tree::default();
    let pages: Vec<_> = GENERATED.iter().map(|(path, _)| *path).collect();
    assert_eq!(check(&tree).len(), pages.len());
    for &(path, text) in GENERATED {
        tree.texts.insert(path.to_owned(), text());
    }
    assert_eq!(check(&tree), []);
    let (path, text) = GENERATED[0];
    let changed = text().replacen('\n', "\nmore\n", 1);
    tree.texts.insert(path.to_owned(), changed);
    let message = "out of date; run `cargo xtask docs` and commit the result";
    assert_eq!(check(&tree), [Finding::new(path, 2, message)]);
}
