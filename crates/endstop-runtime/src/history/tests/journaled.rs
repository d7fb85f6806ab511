//! Entries that go through a journal.

use std::path::PathBuf;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use super::*;
use crate::limits::MAX_WAITING_ENTRIES;
use crate::store::disk::fault;

impl TestFile {
    fn journaled(&self) -> HistoryRecorder {
        self.recorder().through_journal()
    }

    fn journals(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.0.parent().unwrap()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|it| it == "journal")).collect()
    }

    /// A file that a process has left with the entries of some calls of a run in its journal.
    fn left_with(run: &RunInfo, calls: u64) -> Self {
        let file = Self::new();
        settle(&file.recorder(), &info("before"), 0);
        file.leave(run, calls);
        file
    }

    /// Leaves the entries of some calls of a run in a journal, as a process that dies does.
    fn leave(&self, run: &RunInfo, calls: u64) {
        let connection = Connection::open(&self.0).unwrap();
        connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let recorder = self.journaled();
        for after in 1..=calls {
            settle(&recorder, run, after);
        }
        assert_eq!(recorder.finish(), 0, "they are in the journal");
        drop(recorder);
        assert_eq!(self.journals().len(), 1);
        connection.execute_batch("ROLLBACK").unwrap();
    }
}

#[test]
fn a_settled_call_is_read_at_once_while_its_process_goes_on() {
    let file = TestFile::new();
    let recorder = file.journaled();
    for after in 0..3 {
        settle(&recorder, &info("run"), after);
        assert_eq!(file.calls().len() as u64, after + 1);
    }
    assert_eq!(file.journals().len(), 1);
    assert_eq!(recorder.finish(), 0);
}

#[test]
fn what_was_settled_before_is_read_beside_a_process_that_is_never_quiet() {
    let file = TestFile::new();
    let (recorder, is_over) = (file.journaled(), AtomicU64::new(0));
    let settled = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while is_over.load(Ordering::SeqCst) == 0 {
                settle(&recorder, &info("run"), settled.load(Ordering::SeqCst));
                settled.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
            }
        });
        for _ in 0..3 {
            while settled.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            let before = settled.load(Ordering::SeqCst);
            let found = file.calls().len() as u64;
            assert!(found >= before, "{found} of {before}");
        }
        is_over.store(1, Ordering::SeqCst);
    });
}

#[test]
fn many_calls_are_in_the_file_in_their_order_and_no_journal_is_left() {
    let file = TestFile::new();
    let recorder = file.journaled();
    for after in 0..2_000 {
        settle(&recorder, &info("run"), after);
    }
    assert_eq!(recorder.finish(), 0);
    assert_eq!(file.journals(), Vec::<PathBuf>::new());
    // A call that is settled later is written immediately.
    settle(&recorder, &info("run"), 2_000);
    drop(recorder);
    let times: Vec<u64> = file.calls().iter().map(|call| call.at.0 - BEGAN).collect();
    assert_eq!(times, (0..=2_000).collect::<Vec<_>>());
    let connection = Connection::open(&file.0).unwrap();
    let count = |of: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {of}"), (), |row| row.get(0)).unwrap()
    };
    assert_eq!((count("journal"), count("run")), (0, 1));
}

#[test]
fn a_recorder_that_is_dropped_writes_what_waits_and_leaves_no_journal() {
    let file = TestFile::new();
    settle(&file.journaled(), &info("run"), 0);
    assert_eq!((file.journals().len(), file.calls().len()), (0, 1));
}

#[test]
fn entries_that_could_not_be_written_stay_in_the_journal_and_are_taken_over() {
    let file = TestFile::left_with(&info("left"), 3);
    assert_eq!(file.calls().len(), 4);
    assert_eq!(file.journals(), Vec::<PathBuf>::new());
    assert_eq!(file.calls().len(), 4);
}

#[test]
fn a_journal_is_taken_over_once_by_many_that_open_the_history_at_once() {
    let file = TestFile::left_with(&info("left"), 3);
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                History::open(&file.0).unwrap().unwrap();
            });
        }
    });
    assert_eq!(file.calls().len(), 4);
}

#[test]
fn a_run_that_continues_replaces_calls_that_are_in_the_journal_of_its_earlier_process() {
    let run = info("shared");
    let file = TestFile::left_with(&run, 3);
    let (again, resumed) = (file.journaled(), RunInfo { is_resumed: true, ..run });
    // The log has none of them.
    again.continues_from(&resumed, 0, WallTime(BEGAN));
    let call = |number: u64| SettledCall {
        root: &resumed,
        wall: WallTime(BEGAN + 100 + number),
        spender: Spender::Model { model: "gpt-5.2", provider: "openai" },
        usage: None,
        cost: Money::from_picos(number),
        is_priced: true,
        unconfirmed: Money::ZERO,
        is_estimate: false,
        is_run_over: false,
        budgets: &[],
        key: None,
        number: Some(number),
    };
    again.settled(&resumed, &call(1));
    again.settled(&resumed, &call(2));
    let calls = file.calls();
    let of_run: Vec<u64> =
        calls.iter().filter(|it| it.run == "shared").map(|it| it.cost.picos()).collect();
    // Calls without a number stay: a log says nothing of them.
    assert_eq!(of_run, [1_000, 1_000, 1_000, 1, 2]);
    assert_eq!(again.finish(), 0);
}

#[test]
fn wherever_the_journal_fails_each_call_is_in_the_file_once() {
    let mut calls = 0;
    loop {
        let file = TestFile::new();
        let recorder = file.journaled();
        let has_failed = fault::after(calls, false, || {
            for after in 0..4 {
                settle(&recorder, &info("run"), after);
            }
        });
        assert_eq!(recorder.finish(), 0);
        drop(recorder);
        assert_eq!(file.calls().len(), 4, "{calls}");
        assert_eq!(file.journals(), Vec::<PathBuf>::new());
        if !has_failed {
            return;
        }
        calls += 1;
    }
}

#[test]
fn a_journal_with_a_line_that_cannot_be_read_is_kept_and_told() {
    let file = TestFile::left_with(&info("left"), 3);
    let journal = file.journals().remove(0);
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replacen("\"number\":2", "\"number\":-2", 1)).unwrap();
    let error = History::open(&file.0).unwrap_err().to_string();
    assert!(error.contains("1 of its lines cannot be read"), "{error}");
    assert_eq!(file.calls().len(), 3, "the others are written");
    assert!(journal.with_extension("damaged").exists() && file.journals().is_empty());
}

#[test]
fn entries_of_a_journal_stay_in_memory_up_to_a_bound_and_none_is_lost() {
    let file = TestFile::new();
    settle(&file.recorder(), &info("before"), 0);
    let connection = Connection::open(&file.0).unwrap();
    connection.execute_batch("ALTER TABLE call RENAME TO other").unwrap();
    let recorder = file.journaled();
    let calls = MAX_WAITING_ENTRIES as u64 + 900;
    for after in 0..calls {
        settle(&recorder, &info("run"), after);
    }
    assert_eq!((recorder.finish(), recorder.tables().waiting.len()), (0, 0));
    drop(recorder);
    connection.execute_batch("ALTER TABLE other RENAME TO call").unwrap();
    drop(connection);
    assert_eq!(file.calls().len() as u64, calls + 1);
}

#[test]
fn entries_of_a_journal_that_could_not_be_written_are_tried_again_without_another_call() {
    let file = TestFile::new();
    settle(&file.recorder(), &info("before"), 0);
    let connection = Connection::open(&file.0).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (told, failed) = mpsc::channel();
    let recorder = file.recorder().on_failure(move |_| told.send(()).unwrap()).through_journal();
    settle(&recorder, &info("run"), 1);
    failed.recv().unwrap();
    connection.execute_batch("ROLLBACK").unwrap();
    let is_written = || {
        thread::sleep(Duration::from_millis(50));
        let count = "SELECT count(*) FROM call";
        connection.query_row(count, (), |row| row.get::<_, i64>(0)).unwrap() == 2
    };
    // Far more often than it takes.
    assert!((0..1_200).any(|_| is_written()), "it waits for another call");
    assert_eq!(recorder.finish(), 0);
}

#[test]
fn a_journal_that_the_user_cannot_open_keeps_no_call_out_of_the_file() {
    let (file, run) = (TestFile::new(), info("run"));
    settle(&file.recorder(), &info("before"), 0);
    std::fs::create_dir(file.0.with_file_name("history.sqlite-other.journal")).unwrap();
    let recorder = file.recorder();
    // The first call of a run that continues needs the journals of others.
    recorder.continues_from(&run, 0, WallTime(BEGAN));
    settle(&recorder, &run, 1);
    assert_eq!(recorder.finish(), 0);
    let error = History::open(&file.0).unwrap_err().to_string();
    assert!(error.contains("history.sqlite-other.journal"), "{error}");
    std::fs::remove_dir(file.0.with_file_name("history.sqlite-other.journal")).unwrap();
    assert_eq!(file.calls().len(), 2);
}

#[test]
fn a_run_that_continues_has_one_row_with_calls_in_a_journal_that_was_left_later() {
    let (file, run) = (TestFile::new(), info("shared"));
    let again = file.recorder();
    // It has taken over the journals before this.
    settle(&again, &info("before"), 0);
    file.leave(&run, 3);
    settle(&again, &RunInfo { is_resumed: true, ..run }, 4);
    let history = History::open(&file.0).unwrap().unwrap();
    let shared = history.run("shared").unwrap().unwrap();
    let mut calls = 0;
    history.each_call_of(&shared, |_| calls += 1).unwrap();
    assert_eq!(calls, 4);
}
