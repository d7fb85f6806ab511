//! Tests of `issued`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

/// A source that counts how many tasks read it at the same time.
#[derive(Debug, Default)]
struct Counted {
    looking: AtomicUsize,
    most: AtomicUsize,
}

impl KeySource for Arc<Counted> {
    fn look(&self) -> KeyChange {
        let now = self.looking.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        self.looking.fetch_sub(1, Ordering::SeqCst);
        KeyChange::Keys(Vec::new())
    }
}

#[test]
fn one_call_at_a_time_looks_at_the_keys_so_that_older_ones_never_replace_newer_ones() {
    let source = Arc::new(Counted::default());
    let keys = IssuedKeys::from_source(Arc::clone(&source));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| keys.read());
        }
    });
    assert_eq!(source.most.load(Ordering::SeqCst), 1);
}

/// A source that answers only while it is open.
#[derive(Debug, Default)]
struct Gated {
    is_closed: AtomicBool,
    looks: AtomicUsize,
}

impl KeySource for Arc<Gated> {
    fn look(&self) -> KeyChange {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.wait();
        KeyChange::Same
    }
}

impl Gated {
    fn wait(&self) {
        while self.is_closed.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[tokio::test]
async fn those_who_ask_while_a_look_is_under_way_share_the_next_one_and_no_older_one() {
    let source = Arc::new(Gated::default());
    let keys = IssuedKeys::from_source(Arc::clone(&source));
    source.is_closed.store(true, Ordering::SeqCst);
    let ask = || {
        let keys = keys.clone();
        tokio::spawn(async move { keys.look().await })
    };
    let first = ask();
    // This task continues although the source does not answer.
    while source.looks.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let others: Vec<_> = (0..8).map(|_| ask()).collect();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!first.is_finished());
    source.is_closed.store(false, Ordering::SeqCst);
    for asked in std::iter::once(first).chain(others) {
        asked.await.unwrap();
    }
    assert_eq!(
        source.looks.load(Ordering::SeqCst),
        3,
        "at the start, for the first, for the others"
    );
}

#[tokio::test]
async fn of_callers_who_leave_at_most_one_look_is_left() {
    let source = Arc::new(Gated::default());
    let keys = IssuedKeys::from_source(Arc::clone(&source));
    source.is_closed.store(true, Ordering::SeqCst);
    for _ in 0..8 {
        let asked = tokio::time::timeout(Duration::from_millis(5), keys.look());
        assert!(asked.await.is_err());
    }
    source.is_closed.store(false, Ordering::SeqCst);
    keys.look().await;
    assert!(source.looks.load(Ordering::SeqCst) <= 3);
}

/// A source that knows whether it has changed.
#[derive(Debug, Default)]
struct Sure {
    is_same: AtomicBool,
    looking: Gated,
}

impl KeySource for Arc<Sure> {
    fn look(&self) -> KeyChange {
        self.looking.looks.fetch_add(1, Ordering::SeqCst);
        self.looking.wait();
        KeyChange::Same
    }

    fn is_same(&self) -> bool {
        self.is_same.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_source_that_is_the_same_is_not_read_unless_a_look_is_under_way() {
    let source = Arc::new(Sure::default());
    let keys = IssuedKeys::from_source(Arc::clone(&source));
    let looks = || source.looking.looks.load(Ordering::SeqCst);
    keys.look().await;
    assert_eq!(looks(), 2);
    source.is_same.store(true, Ordering::SeqCst);
    keys.look().await;
    assert_eq!(looks(), 2);
    source.is_same.store(false, Ordering::SeqCst);
    source.looking.is_closed.store(true, Ordering::SeqCst);
    let ask = || {
        let keys = keys.clone();
        tokio::spawn(async move { keys.look().await })
    };
    let first = ask();
    while looks() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The table does not have its keys yet.
    source.is_same.store(true, Ordering::SeqCst);
    let second = ask();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!second.is_finished());
    source.looking.is_closed.store(false, Ordering::SeqCst);
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(looks(), 4);
}

/// A server whose clock is far ahead.
#[derive(Debug)]
struct Ahead;

impl KeySource for Ahead {
    fn look(&self) -> KeyChange {
        let mut key = IssuedKey::new("a", KeyHash::of(&Key::new("a")), "a".parse().unwrap());
        key.expires = Some(WallTime(system_wall_time().0 + 3_600_000));
        KeyChange::Keys(vec![key])
    }

    fn now(&self) -> WallTime {
        WallTime(system_wall_time().0 + 7_200_000)
    }
}

#[test]
fn keys_expire_by_the_clock_of_their_source() {
    let table = IssuedKeys::from_source(Ahead).known();
    let key = table.find(b"a").unwrap().key;
    assert!(key.has_expired(table.time()));
    assert!(!key.has_expired(system_wall_time()));
}
