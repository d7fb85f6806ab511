//! Tests of `input`.

use super::*;

#[test]
fn a_stream_is_read_up_to_its_limit_and_no_further() {
    assert_eq!(read_at_most(&b"abc"[..], 3).unwrap().as_deref(), Some("abc"));
    assert_eq!(read_at_most(&b"abc"[..], 2).unwrap(), None);
    assert_eq!(read_at_most(io::repeat(0), 1 << 20).unwrap(), None);
    assert!(read_at_most(&b"\xff"[..], 3).is_err());
}

/// A path of one test, with nothing there.
fn place(test: &str) -> PathBuf {
    let name = format!("endstop-watched-{test}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Whether it has changed, as if its last look had been long after the write before it.
fn looks(file: &mut WatchedFile) -> bool {
    file.is_unsure = false;
    file.has_changed()
}

#[test]
fn a_file_has_changed_after_each_change() {
    let path = place("changes");
    let mut file = WatchedFile::new(path.clone());
    assert!(file.has_changed() && file.was_missing(), "the first call");
    assert!(!file.has_changed());
    for text in ["a", "ab", "abc"] {
        std::fs::write(&path, text).unwrap();
        assert!(file.has_changed() && !file.was_missing());
        assert!(!looks(&mut file));
    }
    std::fs::remove_file(&path).unwrap();
    assert!(file.has_changed() && file.was_missing());
    assert!(!file.has_changed());
}

#[test]
fn a_file_that_was_written_just_now_counts_as_changed_once_more() {
    let mut file = WatchedFile::new(place("fresh"));
    file.has_changed();
    // As after a call that found a fresh state.
    file.is_unsure = true;
    assert!(file.has_changed());
    assert!(!file.has_changed());
    let stamp = |modified: SystemTime| FileStamp { modified, length: 1, inode: 1, changed: (0, 0) };
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3_600));
    assert!(!stamp(now - hour).is_fresh());
    assert!(!stamp(now + hour).is_fresh(), "a clock that is ahead does not read it for an hour");
    let changed = now.duration_since(SystemTime::UNIX_EPOCH).unwrap() + hour;
    let changed = (i64::try_from(changed.as_secs()).unwrap(), 0);
    assert!(!FileStamp { changed, ..stamp(now - hour) }.is_fresh());
}

#[test]
fn a_file_is_the_same_only_if_that_is_sure() {
    let path = place("same");
    let mut file = WatchedFile::new(path.clone());
    assert!(!file.is_same(), "it was never read");
    std::fs::write(&path, "a").unwrap();
    let old = |hours: u32| {
        let time = SystemTime::now() - Duration::from_secs(3_600) * hours;
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        // The time of the last change of its rights cannot be set.
        std::thread::sleep(FRESH_FILE * 2);
    };
    old(2);
    file.has_changed();
    assert!(file.is_same());
    file.is_unsure = true;
    assert!(!file.is_same(), "it was written just before it was read");
    file.is_unsure = false;
    file.read_again();
    assert!(!file.is_same(), "it could not be read");
    file.unread = None;
    assert!(file.is_same());
    old(1);
    assert!(!file.is_same(), "it has changed");
    file.has_changed();
    std::fs::remove_file(&path).unwrap();
    assert!(!file.is_same(), "it is gone");
}

#[test]
fn a_file_that_could_not_be_read_is_read_again_after_a_while() {
    let mut file = WatchedFile::new(place("again"));
    file.has_changed();
    file.read_again();
    file.unread = Instant::now().checked_sub(FILE_RECHECK);
    assert!(file.has_changed());
    assert!(!file.has_changed());
}

#[test]
fn a_file_whose_place_cannot_be_read_is_not_missing() {
    let path = place("below");
    std::fs::write(&path, "").unwrap();
    let mut file = WatchedFile::new(path.join("config.toml"));
    assert!(file.has_changed() && !file.was_missing());
    std::fs::remove_file(&path).unwrap();
    assert!(file.has_changed() && file.was_missing());
}
