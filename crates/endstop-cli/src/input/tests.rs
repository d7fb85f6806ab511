//! Tests of `input`.

use super::*;

#[test]
fn a_stream_is_read_up_to_its_limit_and_no_further() {
    assert_eq!(read_at_most(&b"abc"[..], 3).unwrap().as_deref(), Some("abc"));
    assert_eq!(read_at_most(&b"abc"[..], 2).unwrap(), None);
    assert_eq!(read_at_most(io::repeat(0), 1 << 20).unwrap(), None);
    assert!(read_at_most(&b"\xff"[..], 3).is_err());
}

#[test]
fn a_file_has_changed_once_for_each_change() {
    let name = format!("endstop-watched-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut file = WatchedFile::new(path.clone());
    assert!(file.has_changed() && !file.was_there(), "the first call");
    assert!(!file.has_changed());
    for text in ["a", "ab", "abc"] {
        std::fs::write(&path, text).unwrap();
        assert!(file.has_changed() && file.was_there());
        assert!(!file.has_changed());
    }
    std::fs::remove_file(&path).unwrap();
    assert!(file.has_changed() && !file.was_there());
    assert!(!file.has_changed());
}
