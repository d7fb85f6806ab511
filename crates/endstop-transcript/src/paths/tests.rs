//! Tests of `paths`.

use super::*;

#[test]
fn directories_are_known_by_their_names() {
    let path = Path::new("p/chats/s.jsonl");
    assert_eq!(directory_named(path, "chats"), Some(Path::new("p/chats")));
    assert_eq!(directory_named(path, "p"), None);
    assert_eq!(name_of(path), "s.jsonl");
    for (file, directory) in
        [("a/b/c.json", Some("b")), (r"a\b\c.json", Some("b")), ("/c.json", None), ("c.json", None)]
    {
        assert_eq!(directory_of(file).as_deref(), directory, "{file}");
    }
}

#[test]
fn a_directory_that_cannot_be_read_holds_nothing() {
    assert_eq!(entries_of(Some(Path::new("/nowhere/at/all"))).count(), 0);
    assert_eq!(documents_in(None).count(), 0);
}
