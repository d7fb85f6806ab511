//! Traces of a file store that were damaged: each kind is refused with the path and the reason, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};

use endstop_runtime::store::{FileStore, RunId, Store, StoreError};

use super::broken::{CHANGED, Sample};
use super::place::{Kind, Place, id, whole_trace};

const FIRST: &str = "{\"at\":0,\"wall\":1793534400000,\"event\":\"run_begin\",\"agent\":\"main\"}\n\
    {\"at\":0,\"wall\":1793534400000,\"event\":\"user_message\"}\n\
    {\"at\":1,\"wall\":1793534400001,\"event\":\"step_begin\"}\n\
    {\"at\":9,\"wall\":1793534400009,\"event\":\"reply\",\"cost\":\"0.0125\",\"tool_calls\":0}\n";
const SECOND: &str = "{\"at\":12,\"wall\":1793534400012,\"event\":\"step_begin\"}\n\
    {\"at\":20,\"wall\":1793534400020,\"event\":\"reply\",\"cost\":\"0.0125\",\"tool_calls\":0}\n\
    {\"at\":20,\"wall\":1793534400020,\"event\":\"step_end\"}\n";

struct Setup {
    place: Place,
    store: FileStore,
    sample: Sample,
    run: RunId,
}

impl Setup {
    async fn new(name: &str) -> Self {
        let place = Place::new(Kind::File, name);
        let store = FileStore::open(place.path()).unwrap();
        let mut files = Vec::new();
        for run in ["a", "b"] {
            for lines in [FIRST, SECOND] {
                store.append(&id(run), lines).await.unwrap();
                files.push(fs::read(file(&place, run)).unwrap());
            }
        }
        let other = files.pop().unwrap();
        let [earlier, whole, _] = files.try_into().unwrap();
        Self { place, store, sample: Sample { earlier, whole, other }, run: id("a") }
    }

    /// Puts these bytes in the place of the trace of `a`.
    fn put(&self, bytes: &[u8]) -> PathBuf {
        let path = file(&self.place, "a");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Reading is refused for this reason, and nothing is changed. An append is refused too, or loses nothing: it does not
    /// read what lies between the first line and the last.
    async fn refuses(&self, kind: &str, reason: &str, bytes: &[u8]) {
        let path = self.put(bytes);
        for from in [0, 2, 7, 1_000] {
            let error = self.store.read_trace(&self.run, from).await.unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{kind}, {from}: {error:?}");
            let text = error.to_string();
            let names = text.contains(&path.display().to_string()) && text.contains(reason);
            assert!(names, "{kind}, {from}: {text}");
        }
        assert!(fs::read(&path).unwrap() == bytes, "{kind}: reading has changed the file");
        let appended = self.store.append(&self.run, "{\"at\":30}").await;
        let after = fs::read(&path).unwrap();
        if let Err(error) = appended {
            assert!(matches!(error, StoreError::Damaged { .. }), "{kind}: {error:?}");
            assert!(after == bytes, "{kind}: an append has changed the file");
        } else {
            let header = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap().len();
            assert!(after[header..].starts_with(&bytes[header..]), "{kind}: an append lost lines");
            assert!(self.store.read_trace(&self.run, 0).await.is_err(), "{kind}: it was mended");
        }
    }
}

fn file(place: &Place, run: &str) -> PathBuf {
    place.path().join(format!("{run}.run")).join("trace.jsonl")
}

#[tokio::test]
async fn changed_traces_are_refused_and_stay_as_they_are() {
    let setup = Setup::new("damage-changed").await;
    for (kind, reason, damage) in CHANGED {
        let bytes = damage(&setup.sample);
        assert_ne!(bytes, setup.sample.whole, "{kind}: nothing was damaged");
        setup.refuses(kind, reason, &bytes).await;
    }
    setup.put(&setup.sample.whole);
    let lines = [FIRST, SECOND].concat();
    assert_eq!(whole_trace(&setup.store, &setup.run).await, lines.lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_trace_that_was_shortened_anywhere_is_refused() {
    let setup = Setup::new("damage-shortened").await;
    for length in setup.sample.cuts() {
        let bytes = &setup.sample.whole[..length];
        setup.refuses(&format!("cut at {length}"), "lines at its end are missing", bytes).await;
    }
}

#[tokio::test]
async fn any_bit_that_was_changed_is_found() {
    let setup = Setup::new("damage-bits").await;
    for at in 0..setup.sample.whole.len() {
        let mut bytes = setup.sample.whole.clone();
        bytes[at] ^= 1 << (at % 8);
        setup.put(&bytes);
        let read = setup.store.read_trace(&setup.run, 0).await;
        assert!(matches!(read, Err(StoreError::Damaged { .. })), "byte {at}: {read:?}");
    }
}

/// `kill -9` leaves whole lines that the header does not count yet, and half a line after them.
#[tokio::test]
async fn what_a_kill_leaves_goes_on_and_counts_what_was_acknowledged() {
    let setup = Setup::new("damage-killed").await;
    let bytes = setup.sample.unmarked();
    let acknowledged = FIRST.lines().count();
    for length in setup.sample.earlier.len()..=bytes.len() {
        setup.put(&bytes[..length]);
        let whole = bytes[..length].split_inclusive(|byte| *byte == b'\n');
        let whole = whole.filter(|line| line.ends_with(b"\n")).count() - 1;
        let before = whole_trace(&setup.store, &setup.run).await;
        assert!(before.len() == whole && whole >= acknowledged, "{length}: {before:?}");
        setup.store.append(&setup.run, "{\"at\":30}").await.unwrap();
        let after = whole_trace(&setup.store, &setup.run).await;
        assert_eq!((&after[..whole], after[whole].as_str()), (&before[..], "{\"at\":30}"));
    }
}

#[tokio::test]
async fn a_trace_is_a_file_that_replay_reads() {
    let setup = Setup::new("damage-format").await;
    let text = String::from_utf8(setup.sample.whole.clone()).unwrap();
    for (number, line) in text.lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], number);
        assert_eq!(line.get("endstop_trace").is_some(), number == 0);
    }
    assert!(!Path::new(&file(&setup.place, "a")).with_extension("jsonl.new").exists());
}
