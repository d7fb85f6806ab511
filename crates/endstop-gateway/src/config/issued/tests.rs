//! Tests of `issued`.

use std::sync::atomic::{AtomicUsize, Ordering};
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
            scope.spawn(|| keys.now());
        }
    });
    assert_eq!(source.most.load(Ordering::SeqCst), 1);
}
