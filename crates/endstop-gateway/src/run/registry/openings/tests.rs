//! Tests of `openings`.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

/// Long enough for what does not wait.
const MOMENT: Duration = Duration::from_millis(50);

fn id(name: &str) -> RunId {
    RunId::parse(name).unwrap()
}

#[test]
fn one_run_is_opened_once_at_a_time_and_others_beside_it() {
    let openings = Openings::default();
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let first = openings.begin(&id("a"));
        let other = openings.begin(&id("b"));
        assert_eq!(openings.count(), 2);
        scope.spawn(|| {
            let _again = openings.begin(&id("a"));
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(MOMENT).is_err());
        drop(first);
        is_done.recv().unwrap();
        drop(other);
    });
    assert_eq!(openings.count(), 0);
}

#[test]
fn nothing_is_opened_while_openings_are_held_up() {
    let openings = Openings::default();
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let first = openings.begin(&id("a"));
        let held_up = scope.spawn(|| {
            let none = openings.hold_up();
            assert_eq!(openings.count(), 0);
            none
        });
        assert!(!held_up.is_finished());
        drop(first);
        let none = held_up.join().unwrap();
        let done = done.clone();
        scope.spawn(|| {
            let done = done;
            let _next = openings.begin(&id("b"));
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(MOMENT).is_err());
        drop(none);
        is_done.recv().unwrap();
        drop(openings.hold_up());
    });
}

#[test]
fn a_run_that_is_being_evicted_is_opened_afterwards() {
    let openings = Openings::default();
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        let other = openings.begin(&id("b"));
        assert!(openings.evict(&id("b")).is_none(), "it is being opened");
        let evicting = openings.evict(&id("a"));
        assert!(evicting.is_some() && openings.evict(&id("a")).is_none());
        assert_eq!(openings.count(), 1);
        scope.spawn(|| {
            let _again = openings.begin(&id("a"));
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(MOMENT).is_err());
        drop(evicting);
        is_done.recv().unwrap();
        drop(other);
    });
}
