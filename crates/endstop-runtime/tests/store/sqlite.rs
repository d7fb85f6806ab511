//! Contents that the file of an SQLite store may have.

use std::fs;

use endstop_runtime::store::{SqliteStore, Store, StoreError, Version};
use futures_util::FutureExt;
use rusqlite::Connection;

use super::place::{Kind, Place, id, whole_trace};

#[tokio::test]
async fn what_is_no_database_of_runs_is_refused_and_left_alone() {
    let place = Place::new(Kind::Sqlite, "sqlite-foreign");
    let path = place.path();
    fs::write(&path, "this is a text file, longer than the header of a database is".repeat(3))
        .unwrap();
    let before = fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);

    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused() {
    let place = Place::new(Kind::Sqlite, "sqlite-newer");
    drop(SqliteStore::open(place.path()).unwrap());
    let connection = Connection::open(place.path()).unwrap();
    connection.pragma_update(None, "user_version", 2).unwrap();
    drop(connection);
    let error = SqliteStore::open(place.path()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
}

#[tokio::test]
async fn a_state_that_is_no_text_is_damaged_and_hides_no_other() {
    let place = Place::new(Kind::Sqlite, "sqlite-damage");
    let store = SqliteStore::open(place.path()).unwrap();
    for run in ["bad", "good"] {
        store.save(&id(run), "state", None).await.unwrap();
    }
    let connection = Connection::open(place.path()).unwrap();
    let spoil = "UPDATE state SET text = CAST(x'ff' AS TEXT) WHERE run = 'bad'";
    assert_eq!(connection.execute(spoil, ()).unwrap(), 1);
    let foreign = "INSERT INTO state SELECT '../up', 1, 1, '', 1, 'x'";
    assert_eq!(connection.execute(foreign, ()).unwrap(), 1);
    assert!(matches!(store.load(&id("bad")).await, Err(StoreError::Damaged { .. })));
    assert_eq!(store.load(&id("good")).await.unwrap().unwrap().text, "state");
    assert_eq!(store.list().await.unwrap().len(), 2);
    assert_eq!(store.save(&id("bad"), "new", None).await.unwrap(), Version(2));
}

#[tokio::test]
async fn a_change_that_fails_takes_no_other_with_it() {
    let place = Place::new(Kind::Sqlite, "sqlite-trigger");
    let store = SqliteStore::open(place.path()).unwrap();
    let refusing = "CREATE TRIGGER no BEFORE INSERT ON trace WHEN NEW.text = 'refused'
        BEGIN SELECT RAISE(ABORT, 'the disk is angry'); END";
    Connection::open(place.path()).unwrap().execute_batch(refusing).unwrap();
    let (run, other) = (id("a"), id("b"));
    let (first, bad, state, last) = tokio::join!(
        store.append(&run, "1\n2"),
        store.append(&run, "3\nrefused\n4"),
        store.save(&other, "state", Some(Version(0))),
        store.append(&run, "5"),
    );
    let error = bad.unwrap_err();
    assert!(error.to_string().starts_with("cannot append to run `a`"), "{error}");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("angry"));
    first.unwrap();
    last.unwrap();
    assert_eq!(state.unwrap(), Version(1));
    assert_eq!(whole_trace(&store, &run).await, ["1", "2", "5"]);
}

#[tokio::test]
async fn what_was_asked_is_written_before_a_store_is_gone() {
    let place = Place::new(Kind::Sqlite, "sqlite-drop");
    let store = SqliteStore::open(place.path()).unwrap();
    let run = id("late");
    // Asked, and dropped with its store before it is answered: written anyway.
    let mut saving = store.save(&run, "written", None);
    assert!((&mut saving).now_or_never().is_none());
    drop(saving);
    drop(store);
    let store = SqliteStore::open(place.path()).unwrap();
    assert_eq!(store.load(&run).await.unwrap().unwrap().text, "written");
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_transcripts() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(Kind::Sqlite, "sqlite-private");
    let store = SqliteStore::open(place.path()).unwrap();
    store.save(&id("secret"), "state", None).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mut path = place.path().into_os_string();
        path.push(suffix);
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{suffix}");
    }
}

/// POSIX locks of a file end when the process closes any handle on it, which would let another process take
/// the log away from under this one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn opening_it_again_leaves_the_locks_of_the_first_handle() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new(Kind::Sqlite, "sqlite-locks");
    let store = SqliteStore::open(place.path()).unwrap();
    store.save(&id("a"), "state", None).await.unwrap();
    let inode = format!(":{}", fs::metadata(place.path()).unwrap().ino());
    let is_locked = || {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        locks.lines().any(|line| line.split(' ').any(|word| word.ends_with(&inode)))
    };
    if !is_locked() {
        println!("skipped: this system does not show the locks of files");
        return;
    }
    drop(SqliteStore::open(place.path()).unwrap());
    assert!(is_locked());
}
