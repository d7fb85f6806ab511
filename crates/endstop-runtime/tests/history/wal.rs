//! The write-ahead log of the history, cut at any place or with a changed byte, as a crash or a bad disk leaves it: the calls
//! that were settled up to there are in it, and a process that continues adds its own.

use std::fs;

use super::log_places::places;
use super::*;

/// A file and its log, while a process has them open.
struct Written {
    database: Vec<u8>,
    log: Vec<u8>,
    /// The length of the log after each call, and the calls.
    after: Vec<(usize, Vec<RecordedCall>)>,
}

fn calls(place: &Place) -> Vec<RecordedCall> {
    let mut calls = Vec::new();
    place.history().each_call(None, |call| calls.push(call)).unwrap();
    calls
}

fn log(place: &Place) -> PathBuf {
    place.0.join("history.sqlite-wal")
}

/// A run of a new process, with some calls; `told` hears of each.
fn run(place: &Place, count: usize, mut told: impl FnMut()) {
    let recorder = place.recorder();
    let policy = Policy { unbounded: true, ..Policy::default() };
    let run = RunHandle::root(
        info(RunId::new()),
        program(&policy),
        watched(vec![Arc::clone(&recorder) as Arc<dyn Observer>]),
    );
    run.begin();
    for _ in 0..count {
        reply(step(&run, &pricing()));
        run.record(&EventKind::StepEnd, Detail::None);
        told();
    }
    assert_eq!(recorder.finish(), 0);
}

fn write(place: &Place) -> Written {
    let (mut after, mut files) = (Vec::new(), Vec::new());
    run(place, 3, || {
        after.push((fs::read(log(place)).unwrap().len(), calls(place)));
        // The last connection that is closed empties the log.
        files = vec![fs::read(place.file()).unwrap(), fs::read(log(place)).unwrap()];
    });
    let [database, log] = <[Vec<u8>; 2]>::try_from(files).unwrap();
    Written { database, log, after }
}

impl Written {
    /// The calls that are complete in so many bytes of the log.
    fn expected(&self, bytes: usize) -> Vec<RecordedCall> {
        let mut complete = self.after.iter().rev().filter(|(length, _)| *length <= bytes);
        complete.next().map_or_else(Vec::new, |(_, calls)| calls.clone())
    }

    /// The calls with another log. Another process adds one afterwards.
    fn with_log(&self, bytes: &[u8]) -> Vec<RecordedCall> {
        let place = Place::new();
        fs::create_dir_all(&place.0).unwrap();
        fs::write(place.file(), &self.database).unwrap();
        fs::write(log(&place), bytes).unwrap();
        let found = calls(&place);
        run(&place, 1, || {});
        let later = calls(&place);
        assert!(later.starts_with(&found) && later.len() == found.len() + 1, "{later:?}");
        found
    }
}

#[test]
fn a_log_that_is_cut_or_changed_loses_no_call_before_that_place() {
    let place = Place::new();
    let written = write(&place);
    let (length, last) = written.after.last().unwrap();
    assert_eq!((written.log.len(), written.with_log(&written.log)), (*length, last.clone()));
    assert_eq!(last.len(), 3);
    for at in places(written.log.len()) {
        let expected = written.expected(at);
        assert_eq!(written.with_log(&written.log[..at]), expected, "cut at {at} of {length}");
        if at < written.log.len() {
            let mut log = written.log.clone();
            log[at] ^= 1 << (at % 8);
            assert_eq!(written.with_log(&log), expected, "byte {at} is changed");
        }
    }
}
