//! The write-ahead log of the file, cut at any place or with a changed byte, as a crash or a bad disk leaves it: the
//! operations up to there are there completely, and none of the later ones is there in part.

use std::fs;
use std::path::{Path, PathBuf};

use endstop_runtime::account::{Account, BudgetStore as _, SqliteBudgetStore};
use endstop_runtime::store::RunId;

use super::log_places::places;
use super::stores::*;

/// A directory that ends with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Settled and held amounts of each limit.
type Counts = Vec<(u64, u64)>;

/// A file and its log, while a process has them open.
struct Written {
    database: Vec<u8>,
    log: Vec<u8>,
    /// The length of the log after each operation, and the counts.
    after: Vec<(usize, Counts)>,
}

fn me() -> Account {
    account("me", &["$5 per day", "$5 per rolling 5h"])
}

fn open(directory: &Path) -> SqliteBudgetStore {
    let wall = Clock::at(MIDNIGHT).wall();
    SqliteBudgetStore::open_with_clock(directory.join("budgets.sqlite"), wall).unwrap()
}

fn counts(store: &SqliteBudgetStore) -> Counts {
    let state = store.read(&[&me()]).unwrap().remove(0);
    state.limits.iter().map(|limit| (limit.settled, limit.held)).collect()
}

fn write(directory: &Path) -> Written {
    let (store, me) = (open(directory), me());
    let log = directory.join("budgets.sqlite-wal");
    let state = || (fs::read(&log).unwrap().len(), counts(&store));
    let mut after = vec![state()];
    for call in 0..4 {
        let id = call.to_string();
        store.reserve(&[&me], cents(10), &terms(&id)).unwrap();
        after.push(state());
        if call % 2 == 0 {
            store.grow(&[&me], &id, cents(1), TTL).unwrap();
            after.push(state());
        }
        if call % 3 != 0 {
            store.settle(&id, cents(3)).unwrap();
            after.push(state());
        }
    }
    let database = fs::read(directory.join("budgets.sqlite")).unwrap();
    Written { database, log: fs::read(&log).unwrap(), after }
}

impl Written {
    /// The counts of the operations that are complete in so many bytes of the log.
    fn expected(&self, bytes: usize) -> Counts {
        let mut complete = self.after.iter().rev().filter(|(length, _)| *length <= bytes);
        complete.next().map_or_else(|| vec![(0, 0); 2], |(_, counts)| counts.clone())
    }

    /// The counts with another log, of a store that can be written afterwards.
    fn with_log(&self, directory: &Path, log: &[u8]) -> Counts {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("budgets.sqlite"), &self.database).unwrap();
        fs::write(directory.join("budgets.sqlite-wal"), log).unwrap();
        let store = open(directory);
        let counts = counts(&store);
        store.reserve(&[&me()], cents(10), &terms("next")).unwrap();
        drop(store);
        fs::remove_dir_all(directory).unwrap();
        counts
    }
}

#[test]
fn a_log_that_is_cut_or_changed_loses_no_operation_before_that_place() {
    let id = RunId::new();
    let directory = Directory(std::env::temp_dir().join(format!("endstop-wal-{id}")));
    let written = write(&directory.0.join("written"));
    let (copy, last) = (directory.0.join("copy"), written.after.last().unwrap());
    assert_eq!(written.log.len(), last.0);
    assert_eq!(written.with_log(&copy, &written.log), last.1);
    let different: Vec<_> = written.after.windows(2).filter(|two| two[0].1 != two[1].1).collect();
    assert!(different.len() >= 8, "operations that change nothing would test nothing");
    for at in places(written.log.len()) {
        let expected = written.expected(at);
        let cut = written.with_log(&copy, &written.log[..at]);
        assert_eq!(cut, expected, "cut at {at} of {}", written.log.len());
        if at < written.log.len() {
            let mut log = written.log.clone();
            log[at] ^= 1 << (at % 8);
            assert_eq!(written.with_log(&copy, &log), expected, "byte {at} is changed");
        }
    }
}
