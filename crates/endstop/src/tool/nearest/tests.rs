//! Tests of `nearest`.

use super::nearest;

#[test]
fn the_name_that_was_meant_comes_first() {
    let known = ["read_file", "list_directory", "search", "write_file", "bash"];
    for (found, meant) in [
        ("read-file", "read_file"),
        ("ReadFile", "read_file"),
        ("file_read", "read_file"),
        ("functions.search", "search"),
        ("serch", "search"),
        ("bsah", "bash"),
        ("Bash", "bash"),
    ] {
        assert_eq!(nearest(found, known).first(), Some(&meant), "{found}");
    }
    assert!(nearest("weather", known).is_empty());
    assert!(nearest("", known).is_empty());
    assert_eq!(nearest("file", known), ["read_file", "write_file"]);
}
