//! `kill -9` at random moments: everything that a store acknowledged is there and complete.
//!
//! A test starts itself again as a child, which saves and appends as fast as it can and tells each
//! acknowledgement on a pipe. A child that is killed leaves its runs to the next one.

#![expect(clippy::print_stdout, reason = "says what was killed and found")]

use std::env;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use endstop_runtime::store::{FileStore, RunId, Store, StoreError};
use tokio::runtime::Runtime;

use super::place::{Kind, Place, id, whole_trace};

/// Kills of each store.
const KILLS: usize = 100;

/// The test waits for fewer acknowledgements before it kills a child, so that a slow machine checks as much as a
/// fast one.
const MOST_TOLD: u64 = 8;

/// The longest that a child lives after them, in microseconds.
const LIFE_MICROS: u64 = 10_000;

/// In the environment of a child: the path of its store.
const STORE: &str = "ENDSTOP_KILLED_STORE";

/// In the environment of a child: the first number it writes.
const FIRST: &str = "ENDSTOP_KILLED_FIRST";

/// The prefix of a child's lines; the test harness prints others.
const TOLD: &str = "told:";

#[test]
fn file_store_keeps_what_it_acknowledged() {
    check("kill::file_store_keeps_what_it_acknowledged", Kind::File, &|path| {
        Box::new(FileStore::open(path).unwrap())
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_store_keeps_what_it_acknowledged() {
    check("kill::sqlite_store_keeps_what_it_acknowledged", Kind::Sqlite, &|path| {
        Box::new(endstop_runtime::store::SqliteStore::open(path).unwrap())
    });
}

fn check(test: &str, kind: Kind, open: &dyn Fn(&str) -> Box<dyn Store>) {
    if let Ok(path) = env::var(STORE) {
        return work(&*open(&path));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let place = Place::new(kind, &test.replace("::", "-"));
    let mut books = Books::default();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(std::process::id());
    for kill in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let life = Duration::from_micros((random >> 33) % LIFE_MICROS);
        let wanted = usize::try_from((random >> 20) % MOST_TOLD).unwrap();
        let told = run_and_kill(test, &place, books.next, wanted, life);
        books.take(&told, kill);
        // Nothing but the operating system has closed what the child had open.
        let store = place.open();
        runtime.block_on(books.check(&*store, kill));
    }
    assert!(books.saves > KILLS && books.appends > KILLS, "too little was acknowledged: {books:?}");
    println!(
        "{kind:?}: {KILLS} kills, {} saves and {} appends acknowledged and found; \
         unacknowledged but whole: {} states, {} lines",
        books.saves, books.appends, books.unacknowledged_states, books.unacknowledged_lines
    );
}

fn run_id() -> RunId {
    id("killed")
}

/// The child: state `n` and the lines of `n`, for growing `n`, until it is killed.
fn work(store: &dyn Store) {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run = run_id();
    let first: u64 = env::var(FIRST).unwrap().parse().unwrap();
    runtime.block_on(async {
        let _lock = store.lock(&run).await.unwrap();
        tell("ready");
        for number in first.. {
            store.save(&run, &state(number), None).await.unwrap();
            tell(&format!("saved {number}"));
            store.append(&run, &lines(number)).await.unwrap();
            tell(&format!("appended {number}"));
        }
    });
}

/// Past the harness, which captures output.
fn tell(what: &str) {
    std::io::stdout().write_all(format!("\n{TOLD} {what}.\n").as_bytes()).unwrap();
}

/// A text of a different length for each number, from some bytes to 40 KiB, that shows where it was cut.
fn state(number: u64) -> String {
    let word = format!("{number} ");
    word.repeat(1 + usize::try_from(number * 37 % 1000).unwrap() * 5)
}

/// One to three lines.
fn lines(number: u64) -> String {
    (0..=number % 3).map(|part| format!("{}\n", line(number, part))).collect()
}

fn line(number: u64, part: u64) -> String {
    let fill = "x".repeat(usize::try_from(number * 53 % 700).unwrap());
    format!("{number} {part} {fill} {number}")
}

/// Lets a child work until it has reported this much, and for a while longer, and kills it; returns its report.
fn run_and_kill(test: &str, place: &Place, first: u64, wanted: usize, life: Duration) -> String {
    let mut child: Child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(STORE, place.path())
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut told = Vec::new();
    let mut block = [0; 4096];
    // It lives from when it works; the pipe must not fill up in the meantime.
    while String::from_utf8_lossy(&told).matches(TOLD).count() <= wanted {
        let read = pipe.read(&mut block).unwrap();
        assert!(read > 0, "the child ended before it worked");
        told.extend_from_slice(&block[..read]);
    }
    let rest = thread::spawn(move || {
        let mut rest = Vec::new();
        pipe.read_to_end(&mut rest).unwrap();
        rest
    });
    thread::sleep(life);
    if first.is_multiple_of(2) {
        check_lock(place, child.id());
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the child ended on its own: {status}");
    told.extend(rest.join().unwrap());
    String::from_utf8(told).unwrap()
}

/// While the child lives, only it drives the run.
fn check_lock(place: &Place, pid: u32) {
    let store = place.open();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match runtime.block_on(store.lock(&run_id())) {
        Err(StoreError::Locked { pid: holder, .. }) => assert_eq!(holder, Some(pid)),
        other => panic!("the child holds the lock: {other:?}"),
    }
}

/// The acknowledgements of all children.
#[derive(Debug, Default)]
struct Books {
    /// The number that the next child begins with.
    next: u64,
    last_saved: Option<u64>,
    appended: Vec<u64>,
    saves: usize,
    appends: usize,
    unacknowledged_states: usize,
    unacknowledged_lines: usize,
}

impl Books {
    fn take(&mut self, told: &str, kill: usize) {
        for line in told.lines() {
            // A torn line was not reported.
            let Some(what) = line.strip_prefix(TOLD).and_then(|rest| rest.strip_suffix('.')) else {
                continue;
            };
            match what.trim().split_once(' ') {
                Some(("saved", number)) => {
                    self.last_saved = Some(number.parse().unwrap());
                    self.saves += 1;
                }
                Some(("appended", number)) => {
                    self.appended.push(number.parse().unwrap());
                    self.appends += 1;
                }
                _ => assert_eq!(what, " ready", "kill {kill}"),
            }
        }
    }

    async fn check(&mut self, store: &dyn Store, kill: usize) {
        let run = run_id();
        drop(store.lock(&run).await.unwrap_or_else(|error| panic!("kill {kill}: {error}")));
        let stored = store.load(&run).await.unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        let mut next = self.next;
        if let Some(stored) = &stored {
            let number: u64 = stored.text.split(' ').next().unwrap().parse().unwrap();
            assert!(stored.text == state(number), "kill {kill}: state {number} is not complete");
            assert!(
                Some(number) >= self.last_saved,
                "kill {kill}: {number}, {:?}",
                self.last_saved
            );
            self.unacknowledged_states += usize::from(Some(number) > self.last_saved);
            self.last_saved = Some(number);
            next = next.max(number + 1);
        }
        assert!(stored.is_some() || self.last_saved.is_none(), "kill {kill}: the state is gone");
        self.check_trace(&whole_trace(store, &run).await, kill);
        self.next = next;
    }

    /// The trace is every acknowledged append, and of others whole lines from their first on.
    fn check_trace(&mut self, trace: &[String], kill: usize) {
        let mut found = trace.iter().peekable();
        let mut acknowledged = self.appended.iter().peekable();
        self.unacknowledged_lines = 0;
        while let Some(first) = found.peek() {
            let number: u64 = first.split(' ').next().unwrap().parse().unwrap();
            let is_acknowledged = acknowledged.next_if_eq(&&number).is_some();
            for part in 0..=number % 3 {
                match found.next_if(|found| **found == line(number, part)) {
                    Some(_) => self.unacknowledged_lines += usize::from(!is_acknowledged),
                    None => assert!(!is_acknowledged && part > 0, "kill {kill}: {number} {part}"),
                }
            }
        }
        assert_eq!(acknowledged.next(), None, "kill {kill}: an acknowledged append is gone");
    }
}
