//! The file of the kill epoch as it is written: a file like it is read back.

use super::*;
use crate::golden_file::golden;

const WHY: &str = "bill (killed by ann@laptop (endstop, process 4711))";

#[test]
fn a_kill_epoch_of_version_1_is_written_and_read() {
    let name = format!("endstop-epoch-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let held = File::create(directory.join(LOCK)).unwrap();
    let lock = EpochLock { directory: directory.clone(), _lock: held };
    lock.begin_next(WHY).unwrap();
    let file = directory.join(NAME);
    let written = std::fs::read_to_string(&file).unwrap();
    let stored = golden("kill-epoch-v1.json", &written, &[("epoch", "1795608000000000")]);

    std::fs::write(&file, stored).unwrap();
    let (epoch, why) = read(&file).unwrap();
    assert_eq!((epoch, why.as_str()), (1_795_608_000_000_000, WHY));
    // It kills what started before it, and nothing else.
    let before = KillEpoch::new(file.clone(), epoch - 1, None);
    assert_eq!(before.on().as_deref(), Some(WHY));
    assert_eq!(KillEpoch::new(file.clone(), epoch, None).on(), None);
    // The next one is later by any clock, and what has looked just before has looked again when it is told.
    let begun = Instant::now();
    lock.begin_next("again").unwrap();
    assert!(begun.elapsed() >= EPOCH_WAIT);
    assert!(read(&file).unwrap().0 > epoch);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_look_that_finds_no_kill_serves_for_a_short_time_and_one_that_finds_a_kill_for_none() {
    let name = format!("endstop-epoch-look-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join(NAME);
    let serves = whole_micros(EPOCH_LOOK);
    let epoch = KillEpoch::new(file.clone(), 0, None);
    assert_eq!(epoch.on_at(7), None);
    std::fs::write(&file, r#"{"version":1,"epoch":9,"why":"bill"}"#).unwrap();
    // The file is not checked again until the time is over.
    assert_eq!(epoch.on_at(7 + serves - 1), None);
    assert!(epoch.check().is_err(), "a check reads the file");
    assert_eq!(epoch.on_at(7 + serves).as_deref(), Some("bill"));
    // Then it stays on.
    assert_eq!(epoch.on_at(8 + serves).as_deref(), Some("bill"));
    assert_eq!(epoch.on_at(7 + 9 * serves).as_deref(), Some("bill"));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_kill_of_everything_waits_for_longer_than_a_look_serves() {
    assert!(EPOCH_WAIT > EPOCH_LOOK);
}
