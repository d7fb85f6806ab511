//! Eight threads on a tree of four levels, under random schedules of `shuttle`.
//!
//! `cargo xtask test` builds and runs these with the feature `shuttle`; `ENDSTOP_SHUTTLE_SCHEDULES` says how
//! many schedules each test tries.
#![cfg(endstop_shuttle)]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use endstop::core::units::Money;
use endstop::ledger::{Amounts, Budget, Limits, OnDrop};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;

const SCHEDULES: usize = 10_000;
const THREADS: usize = 8;
const ROOT_STEPS: u64 = 5;
const ROOT_COST: u64 = 30;

fn schedules() -> usize {
    std::env::var("ENDSTOP_SHUTTLE_SCHEDULES").map_or(SCHEDULES, |text| text.parse().unwrap())
}

fn limits(steps: u64, picos: u64) -> Limits {
    Limits { steps: Some(steps), cost: Some(Money::from_picos(picos)), ..Limits::unlimited() }
}

fn amounts(steps: u64, picos: u64) -> Amounts {
    Amounts { steps, cost: Money::from_picos(picos), ..Amounts::ZERO }
}

/// The path from the root to one of eight leaves, for each of them.
fn tree() -> Vec<[Budget; 4]> {
    let root = Budget::root(limits(ROOT_STEPS, ROOT_COST));
    let mut paths = Vec::new();
    for _ in 0..2 {
        let second = root.child(limits(4, 20));
        for _ in 0..2 {
            let third = second.child(limits(3, 40));
            for _ in 0..2 {
                let leaf = third.child(limits(2, 15));
                paths.push([root.clone(), second.clone(), third.clone(), leaf]);
            }
        }
    }
    assert_eq!(paths.len(), THREADS);
    paths
}

fn assert_within(path: &[Budget; 4]) {
    for budget in path {
        let reading = budget.snapshot();
        let committed = reading.committed();
        assert!(committed.steps <= reading.limits.steps.unwrap(), "{reading:?}");
        assert!(committed.cost <= reading.limits.cost.unwrap(), "{reading:?}");
    }
}

/// One task: two calls with holds that are true upper bounds, ended in any way. Returns the spend.
fn task(path: &[Budget; 4]) -> Amounts {
    let mut spent = Amounts::ZERO;
    for _ in 0..2 {
        let worst = amounts(1, thread_rng().gen_range(1..12));
        let Ok(mut hold) = path[3].reserve(worst) else { continue };
        assert_within(path);
        let actual = amounts(1, thread_rng().gen_range(0..=worst.cost.picos()));
        match thread_rng().gen_range(0..5) {
            0 => hold.release(),
            1 => drop(hold.on_drop(OnDrop::Release)),
            2 => {
                drop(hold);
                spent = spent.saturating_add(&worst);
            }
            3 => {
                hold.shrink(actual);
                drop(hold);
                spent = spent.saturating_add(&actual);
            }
            _ => {
                hold.settle(actual);
                spent = spent.saturating_add(&actual);
            }
        }
        assert_within(path);
    }
    spent
}

fn burst() {
    let paths = tree();
    let tasks: Vec<_> =
        paths.iter().cloned().map(|path| thread::spawn(move || task(&path))).collect();
    let spent: Vec<Amounts> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
    let root = paths[0][0].snapshot();
    let total = spent.iter().fold(Amounts::ZERO, |sum, one| sum.checked_add(one).unwrap());
    assert_eq!((root.settled, root.held, root.overshoot()), (total, Amounts::ZERO, Amounts::ZERO));
    for (path, spent) in paths.iter().zip(spent) {
        assert_eq!((path[3].settled(), path[3].held()), (spent, Amounts::ZERO));
    }
}

#[test]
fn eight_threads_never_commit_past_a_limit_under_random_schedules() {
    shuttle::check_random(burst, schedules());
}

#[test]
fn eight_threads_never_commit_past_a_limit_under_adversarial_schedules() {
    shuttle::check_pct(burst, schedules(), 3);
}

#[test]
fn spending_above_the_holds_overshoots_by_no_more_than_the_excess() {
    const EXCESS: u64 = 2;
    shuttle::check_random(
        || {
            let paths = tree();
            let tasks: Vec<_> = paths
                .iter()
                .map(|path| path[3].clone())
                .map(|leaf| {
                    thread::spawn(move || match leaf.reserve(amounts(1, 5)) {
                        Ok(hold) => {
                            hold.settle(amounts(1, 5 + EXCESS));
                            1
                        }
                        Err(_) => 0,
                    })
                })
                .collect();
            let admitted: u64 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
            let root = &paths[0][0];
            assert_eq!(root.settled(), amounts(admitted, admitted * (5 + EXCESS)));
            assert!(root.overshoot().cost.picos() <= admitted * EXCESS);
            assert_eq!(root.overshoot().steps, 0);
        },
        schedules(),
    );
}
