//! Failures in the middle of an operation, files of other programs, and files that a later version wrote.

use super::super::counters::{Counter, Place, Rows, StoredHold};
use super::*;

/// Rows of which the call after some others fails.
struct Failing<'c> {
    rows: SqliteRows<'c>,
    left: u32,
}

impl Failing<'_> {
    fn step(&mut self) -> Result<(), BudgetStoreError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| BudgetStoreError::Failed {
            doing: "test",
            path: PathBuf::new(),
            why: "fails on purpose".to_owned(),
        })?;
        Ok(())
    }
}

impl Rows for Failing<'_> {
    fn latest(&mut self) -> Result<u64, BudgetStoreError> {
        self.step()?;
        self.rows.latest()
    }

    fn set_latest(&mut self, now: u64) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.rows.set_latest(now)
    }

    fn counters(
        &mut self,
        account: &str,
        kind: &str,
        after: u64,
    ) -> Result<Vec<(Place, Counter)>, BudgetStoreError> {
        self.step()?;
        self.rows.counters(account, kind, after)
    }

    fn add(&mut self, place: &Place, delta: &Counter) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.rows.add(place, delta)
    }

    fn hold(&mut self, id: &str) -> Result<Option<StoredHold>, BudgetStoreError> {
        self.step()?;
        self.rows.hold(id)
    }

    fn put_hold(&mut self, hold: &StoredHold) -> Result<(), BudgetStoreError> {
        self.step()?;
        self.rows.put_hold(hold)
    }

    fn expired(&mut self, now: u64) -> Result<Vec<StoredHold>, BudgetStoreError> {
        self.step()?;
        self.rows.expired(now)
    }

    fn is_noted(&mut self, id: &str) -> Result<bool, BudgetStoreError> {
        self.step()?;
        self.rows.is_noted(id)
    }

    fn note(&mut self, adjustment: &Adjustment<'_>, now: u64) -> Result<bool, BudgetStoreError> {
        self.step()?;
        self.rows.note(adjustment, now)
    }
}

struct TestFile(PathBuf);

impl TestFile {
    fn new() -> Self {
        let id = crate::store::RunId::new();
        Self(std::env::temp_dir().join(format!("endstop-budgets-{id}/budgets.sqlite")))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn tokens(tokens: u64) -> Amounts {
    Amounts { tokens, ..Amounts::ZERO }
}

fn terms(id: &str) -> HoldTerms<'_> {
    HoldTerms { id, owner: "test", ttl: Duration::from_secs(60) }
}

/// An operation on rows.
type Operation<'o> = &'o dyn Fn(&mut Failing<'_>, WallTime) -> Result<(), BudgetStoreError>;

#[test]
fn an_operation_that_fails_at_any_call_has_not_happened() {
    let file = TestFile::new();
    let time = Arc::new(AtomicU64::new(1_795_564_800_000));
    let clock = Arc::clone(&time);
    let wall: WallClock = Arc::new(move || WallTime(clock.load(Ordering::SeqCst)));
    let store = SqliteBudgetStore::open_with_clock(&file.0, wall).unwrap();
    let org = Account::new("org", &["9000 tokens per month"]).unwrap();
    let me = Account::new("me", &["5000 tokens per day", "5000 tokens per rolling 1h"]).unwrap();
    let both = [&org, &me];
    let adjustment = Adjustment {
        id: "1",
        account: &me,
        parents: &[&org],
        spent: tokens(1),
        returned: Amounts::ZERO,
        who: "ann",
        why: "test",
    };
    // One hold that expires in the middle of the operations.
    store.reserve(&both, tokens(7), &terms("old")).unwrap();
    time.fetch_add(61_000, Ordering::SeqCst);
    let operations: [Operation<'_>; 4] = [
        &|rows, wall| counters::reserve(rows, wall, &both, &tokens(100), &terms("a")),
        &|rows, wall| counters::grow(rows, wall, &both, "a", &tokens(10), Duration::from_secs(60)),
        &|rows, wall| counters::settle(rows, wall, "a", &tokens(60)),
        &|rows, wall| counters::adjust(rows, wall, &adjustment),
    ];
    let mut failures = 0;
    for operation in operations {
        let before = store.read(&both).unwrap();
        for left in 0.. {
            let done = store
                .write("test", |rows, wall| operation(&mut Failing { rows: *rows, left }, wall));
            if done.is_ok() {
                break;
            }
            failures += 1;
            assert_eq!(store.read(&both).unwrap(), before, "after {left} calls");
        }
        assert_ne!(store.read(&both).unwrap(), before);
    }
    assert!(failures > 20, "{failures}");
    let state = &store.read(&[&me]).unwrap()[0].limits[0];
    assert_eq!((state.settled, state.held, state.unconfirmed), (7 + 60 + 1, 0, 7));
}

#[test]
fn a_later_format_and_other_databases_are_refused() {
    let file = TestFile::new();
    drop(SqliteBudgetStore::open(&file.0).unwrap());
    let connection = Connection::open(&file.0).unwrap();
    connection.pragma_update(None, "user_version", 2).unwrap();
    let error = SqliteBudgetStore::open(&file.0).unwrap_err();
    assert!(error.to_string().contains("has format 2, and this program knows up to 1"), "{error}");
    connection.pragma_update(None, "application_id", 7).unwrap();
    let error = SqliteBudgetStore::open(&file.0).unwrap_err();
    assert!(error.to_string().contains("a database of another program"), "{error}");
    drop(connection);
    let text = file.0.with_file_name("text");
    std::fs::write(&text, "no database, but long enough to have a header of one".repeat(9))
        .unwrap();
    let error = SqliteBudgetStore::open(&text).unwrap_err();
    assert!(matches!(error, BudgetStoreError::Damaged { .. }), "{error}");
}

#[test]
fn what_ended_long_ago_is_forgotten_by_the_time_of_the_store() {
    const BEGUN: u64 = 1_795_564_800_000;
    const MONTH: u64 = 30 * 24 * 3_600_000;
    let file = TestFile::new();
    let at = |time| SqliteBudgetStore::open_with_clock(&file.0, Arc::new(move || WallTime(time)));
    let holds = |store: &SqliteBudgetStore| -> i64 {
        store.locked().query_row("SELECT count(*) FROM hold", (), |row| row.get(0)).unwrap()
    };
    let me = Account::new("me", &["1000 tokens per day"]).unwrap();
    let store = at(BEGUN).unwrap();
    store.reserve(&[&me], tokens(1), &terms("settled")).unwrap();
    store.settle("settled", tokens(1)).unwrap();
    store.reserve(&[&me], tokens(1), &terms("expired")).unwrap();
    let store = at(BEGUN + 600_000).unwrap();
    store.reserve(&[&me], tokens(1), &terms("held")).unwrap();
    // A clock that is a month ahead has only opened the file.
    assert_eq!(holds(&at(BEGUN + MONTH).unwrap()), 3);
    at(BEGUN + MONTH).unwrap().reserve(&[&me], tokens(1), &terms("later")).unwrap();
    // An expired hold is deleted like a settled one.
    assert_eq!(holds(&at(BEGUN + MONTH).unwrap()), 1);
}

#[test]
fn a_store_that_stays_open_forgets_what_is_old_once_a_day() {
    const DAY: u64 = 24 * 3_600_000;
    let file = TestFile::new();
    let time = Arc::new(AtomicU64::new(1_795_564_800_000));
    let clock = Arc::clone(&time);
    let wall: WallClock = Arc::new(move || WallTime(clock.load(Ordering::SeqCst)));
    let store = SqliteBudgetStore::open_with_clock(&file.0, wall).unwrap();
    let count = |table: &str| -> i64 {
        let select = format!("SELECT count(*) FROM {table}");
        store.locked().query_row(&select, (), |row| row.get(0)).unwrap()
    };
    let me = Account::new("me", &["1000 tokens per day"]).unwrap();
    let adjustment = Adjustment {
        id: "1",
        account: &me,
        parents: &[],
        spent: tokens(1),
        returned: Amounts::ZERO,
        who: "ann",
        why: "test",
    };
    store.adjust(&adjustment).unwrap();
    store.reserve(&[&me], tokens(1), &terms("settled")).unwrap();
    store.settle("settled", tokens(1)).unwrap();
    time.fetch_add(8 * DAY, Ordering::SeqCst);
    store.reserve(&[&me], tokens(1), &terms("a week later")).unwrap();
    assert_eq!((count("hold"), count("adjustment")), (1, 1));
    // A counter that is over is there for 400 days, and so is a correction.
    let windows = count("counter");
    time.fetch_add(394 * DAY, Ordering::SeqCst);
    store.reserve(&[&me], tokens(1), &terms("a year later")).unwrap();
    assert_eq!((count("hold"), count("adjustment")), (1, 0));
    assert_eq!(count("counter"), windows, "the first day is gone, and one is new");
    // Within a day nothing is looked for.
    store.settle("a year later", tokens(1)).unwrap();
    store.locked().execute("UPDATE hold SET expires = 1", ()).unwrap();
    time.fetch_add(DAY - 1, Ordering::SeqCst);
    store.reserve(&[&me], tokens(1), &terms("the next day")).unwrap();
    assert_eq!(count("hold"), 2);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let file = TestFile::new();
    let store = SqliteBudgetStore::open(&file.0).unwrap();
    let me = Account::new("me", &["1000000 tokens"]).unwrap();
    let pages: i64 = store.locked().query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
    store.locked().pragma_update(None, "max_page_count", pages + 2).unwrap();
    let mut held = 0;
    let error = loop {
        let id = format!("a-hold-with-a-long-name-{held}");
        match store.reserve(&[&me], tokens(1), &terms(&id)) {
            Ok(()) => held += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("full"), "{error}");
    let state = &store.read(&[&me]).unwrap()[0].limits[0];
    assert_eq!((state.held, state.settled), (held, 0));
    // A hold can be settled, because that needs no room.
    store.settle("a-hold-with-a-long-name-0", tokens(1)).unwrap();
}
