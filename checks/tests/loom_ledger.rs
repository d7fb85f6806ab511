//! Every interleaving of two threads on a tree of three levels, by `loom`.
//!
//! `cargo xtask test` builds and runs these with the feature `loom`.
#![cfg(endstop_loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use endstop::ledger::{Amounts, Budget, Limits};

fn steps(count: u64) -> Amounts {
    Amounts { steps: count, ..Amounts::ZERO }
}

fn limit(count: u64) -> Limits {
    Limits { steps: Some(count), ..Limits::unlimited() }
}

/// Root, middle and leaf.
fn three_levels(limits: [u64; 3]) -> [Budget; 3] {
    let root = Budget::root(limit(limits[0]));
    let middle = root.child(limit(limits[1]));
    let leaf = middle.child(limit(limits[2]));
    [root, middle, leaf]
}

fn assert_within(levels: &[Budget]) {
    for budget in levels {
        let reading = budget.snapshot();
        assert!(reading.committed().steps <= reading.limits.steps.unwrap(), "{reading:?}");
    }
}

#[test]
fn two_threads_never_commit_past_a_limit_and_one_of_them_is_admitted() {
    loom::model(|| {
        let levels = three_levels([2, 1, 1]);
        let theirs = levels.clone();
        let other = loom::thread::spawn(move || {
            let hold = theirs[2].reserve(steps(1));
            assert_within(&theirs);
            hold.map(|hold| hold.settle(steps(1))).is_ok()
        });
        let hold = levels[2].reserve(steps(1));
        assert_within(&levels);
        let admitted = hold.map(|hold| hold.settle(steps(1))).is_ok();
        assert!(admitted ^ other.join().unwrap());
        assert_eq!(levels[0].snapshot().settled, steps(1));
        assert_eq!(levels[0].snapshot().held, steps(0));
    });
}

#[test]
fn a_refused_reservation_takes_no_room_anywhere_at_any_moment() {
    loom::model(|| {
        let levels = three_levels([2, 1, 2]);
        let theirs = levels.clone();
        let other = loom::thread::spawn(move || {
            theirs[2].reserve(steps(2)).unwrap_err();
        });
        levels[0].reserve(steps(2)).unwrap().release();
        other.join().unwrap();
        assert_eq!(levels[0].committed(), steps(0));
    });
}

#[test]
fn leaves_taken_in_opposite_orders_neither_deadlock_nor_lose_a_step() {
    loom::model(|| {
        let [root, middle, a] = three_levels([4, 4, 2]);
        let b = middle.child(limit(2));
        let (first, second) = (b.clone(), a.clone());
        let other = loom::thread::spawn(move || {
            let outer = first.reserve(steps(1)).unwrap();
            let inner = second.reserve(steps(1)).unwrap();
            inner.settle(steps(1));
            outer.settle(steps(1));
        });
        let outer = a.reserve(steps(1)).unwrap();
        let inner = b.reserve(steps(1)).unwrap();
        outer.settle(steps(1));
        inner.release();
        other.join().unwrap();
        assert_eq!((root.settled(), root.held()), (steps(3), steps(0)));
        assert_eq!((a.settled(), b.settled()), (steps(2), steps(1)));
    });
}

#[test]
fn a_settlement_moves_from_held_to_settled_in_one_moment() {
    loom::model(|| {
        let levels = three_levels([1, 1, 1]);
        let hold = levels[2].reserve(steps(1)).unwrap();
        let other = loom::thread::spawn(move || hold.settle(steps(1)));
        for budget in &levels {
            assert_eq!(budget.committed(), steps(1));
        }
        levels[2].reserve(steps(1)).unwrap_err();
        other.join().unwrap();
        assert_eq!(levels[0].settled(), steps(1));
    });
}

#[test]
fn room_given_back_is_taken_once() {
    loom::model(|| {
        let levels = three_levels([1, 1, 1]);
        let hold = levels[2].reserve(steps(1)).unwrap();
        let other = loom::thread::spawn(move || hold.release());
        let admitted = levels[1].reserve(steps(1));
        assert_within(&levels);
        other.join().unwrap();
        let expected = u64::from(admitted.is_ok());
        assert_eq!(levels[0].held(), steps(expected));
        drop(admitted);
        assert_eq!(levels[0].settled(), steps(expected));
    });
}

#[test]
fn a_lowered_limit_admits_nothing_after_it_returned() {
    loom::model(|| {
        let levels = three_levels([2, 2, 2]);
        let theirs = levels.clone();
        let other = loom::thread::spawn(move || {
            theirs[2].reserve(steps(1)).map(|hold| hold.settle(steps(1))).is_ok()
        });
        levels[0].set_limits(limit(0));
        levels[2].reserve(steps(1)).unwrap_err();
        let admitted = other.join().unwrap();
        assert_eq!(levels[0].overshoot(), steps(u64::from(admitted)));
    });
}

#[test]
fn a_slot_that_is_freed_while_another_opens_keeps_both_books_apart() {
    loom::model(|| {
        let [root, middle, leaf] = three_levels([9, 9, 9]);
        let other = loom::thread::spawn(move || {
            leaf.charge(steps(1));
            drop(leaf);
        });
        let fresh = middle.child(limit(5));
        fresh.charge(steps(2));
        assert_eq!((fresh.settled(), fresh.limits()), (steps(2), limit(5)));
        other.join().unwrap();
        assert_eq!((fresh.settled(), root.settled()), (steps(2), steps(3)));
    });
}
