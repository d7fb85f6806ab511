//! Files of keys that are damaged, or that another process has locked.

use super::*;

/// A directory that is removed with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("endstop-place-{test}-{}", std::process::id()));
        create_private_directory(&path).unwrap();
        Self(path)
    }

    fn open(&self, name: &str) -> File {
        private_file().create(true).append(true).open(self.0.join(name)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn act() -> KeyAct {
    KeyAct { at: jiff::Timestamp::UNIX_EPOCH, by: "ann".to_owned(), why: String::new() }
}

#[test]
fn a_damaged_file_of_keys_fails_and_is_not_away() {
    let directory = Directory::new("damaged");
    let path = directory.0.join("keys.jsonl");
    std::fs::write(&path, "{\"version\":1}\n").unwrap();
    let place = KeyPlace::File(path.clone());
    let read = place.read().unwrap_err();
    assert_eq!(read.kind, SourceErrorKind::Failed, "{read}");
    let changed = place.change(&act(), |_| Ok(())).unwrap_err();
    assert_eq!(changed.kind, SourceErrorKind::Failed, "{changed}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"version\":1}\n");
}

#[test]
fn a_change_waits_for_the_lock_of_another_process_but_not_forever() {
    let directory = Directory::new("locked");
    let (other, own) = (directory.open("lock"), directory.open("lock"));
    other.lock().unwrap();
    let error = lock(&own, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    let waiting = std::thread::spawn(move || lock(&own, Duration::MAX).is_ok());
    other.unlock().unwrap();
    assert!(waiting.join().unwrap());
}

#[test]
fn a_time_of_the_store_after_all_dates_is_the_last_date() {
    assert_eq!(timestamp(WallTime(1_500)).as_millisecond(), 1_500);
    assert_eq!(timestamp(WallTime(u64::MAX)), Timestamp::MAX);
}

#[test]
fn only_a_store_that_is_away_can_be_tried_again() {
    let away = BudgetStoreError::Away { server: "test".to_owned(), why: "no".to_owned() };
    let failed =
        BudgetStoreError::Failed { doing: "read keys", path: "test".into(), why: "no".to_owned() };
    assert_eq!(refused_by_store(&away).kind, SourceErrorKind::Away);
    assert_eq!(refused_by_store(&failed).kind, SourceErrorKind::Failed);
}
