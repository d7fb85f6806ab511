//! Stores as they are written: the files are read back.

use std::fs;

use endstop_runtime::store::{FileStore, Store, StoredState, Version};

use super::file::golden;
use super::place::{Kind, Place, id, whole_trace};

/// 2026-11-29T20:00:00Z.
const SAVED_AT: u64 = 1_796_040_000_000;

const STATE: &str = "{\"version\":1,\"label\":\"the nightly\\tcheck\",\"messages\":[\"grüße\"]}";
const TRACE: &str = "{\"endstop_trace\":1,\"run\":\"nightly-17\"}\n{\"at_ms\":0}\n";

/// Further lines of a trace, in another append.
const MORE: &str = "no object\n\n{\"line\":\"grüße\"}\n";

/// A run as both kinds of store have it: saved twice, with two lines of a trace.
async fn fill(store: &dyn Store) {
    let run = id("nightly-17");
    store.save(&run, "{\"label\":\"first\"}", Some(Version(0))).await.unwrap();
    store.save(&run, STATE, Some(Version(1))).await.unwrap();
    store.append(&run, TRACE).await.unwrap();
    store.append(&run, MORE).await.unwrap();
}

async fn check(store: &dyn Store) {
    let run = id("nightly-17");
    let text = STATE.to_owned();
    let saved = StoredState { version: Version(2), saved_at: SAVED_AT, text };
    assert_eq!(store.load(&run).await.unwrap(), Some(saved));
    let lines: Vec<_> = TRACE.lines().chain(MORE.lines()).collect();
    assert_eq!(whole_trace(store, &run).await, lines);
    let listed = store.list().await.unwrap().remove(0);
    assert_eq!((listed.id, listed.saved_at), (run.clone(), SAVED_AT));
    assert_eq!((listed.label.as_str(), listed.problem), ("the nightly check", None));
    assert_eq!(store.save(&run, "later", Some(Version(2))).await.unwrap(), Version(3));
}

#[tokio::test]
async fn file_store_of_version_1() {
    let place = Place::new(Kind::File, "golden-files");
    let store = FileStore::open(place.path()).unwrap();
    fill(&store).await;
    let directory = place.path().join("nightly-17.run");
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let fixed = SAVED_AT.to_string();
    let state = golden("file-store-v1.state", &read("state"), &[("saved_at", &fixed)]);
    let trace = golden("file-store-v1.trace.jsonl", &read("trace.jsonl"), &[]);
    let mut names: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["guard", "state", "trace.jsonl"]);

    fs::write(directory.join("state"), state).unwrap();
    fs::write(directory.join("trace.jsonl"), format!("{trace}\n")).unwrap();
    check(&store).await;
}

/// The database as the statements that make one like it.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite_store_of_version_1() {
    use endstop_runtime::store::SqliteStore;
    use rusqlite::Connection;

    let place = Place::new(Kind::Sqlite, "golden-sqlite");
    let store = SqliteStore::open(place.path()).unwrap();
    fill(&store).await;
    let connection = Connection::open(place.path()).unwrap();
    let texts = |select: &str| {
        let mut statement = connection.prepare(select).unwrap();
        let rows = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    let saved_at = format!("UPDATE state SET saved_at = {SAVED_AT}");
    assert_eq!(connection.execute(&saved_at, ()).unwrap(), 1);
    let mut dump = texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
    for pragma in ["application_id", "user_version"] {
        let value: i64 = connection.pragma_query_value(None, pragma, |row| row.get(0)).unwrap();
        dump.push(format!("PRAGMA {pragma} = {value}"));
    }
    let row = "format('INSERT INTO state VALUES (%Q, %d, %d, %Q, %d, %Q)',
               run, version, saved_at, label, bytes, text)";
    dump.extend(texts(&format!("SELECT {row} FROM state ORDER BY run")));
    let row = "format('INSERT INTO trace VALUES (%Q, %d, %Q)', run, line, text)";
    dump.extend(texts(&format!("SELECT {row} FROM trace ORDER BY run, line")));
    let journal: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");
    let stored = golden("sqlite-store-v1.sql", &format!("{};", dump.join(";\n")), &[]);

    let place = Place::new(Kind::Sqlite, "golden-sqlite-again");
    Connection::open(place.path()).unwrap().execute_batch(&stored).unwrap();
    check(&SqliteStore::open(place.path()).unwrap()).await;
}
