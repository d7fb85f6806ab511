//! The ledger under tasks: bursts, tasks that are dropped half-way, tasks that are aborted.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use endstop_core::units::Money;
use endstop_runtime::ledger::{Amounts, Budget, Limits, OnDrop};
use tokio::sync::Barrier;

fn steps(count: u64) -> Amounts {
    Amounts { steps: count, ..Amounts::ZERO }
}

fn limits(steps: u64, picos: u64) -> Limits {
    Limits { steps: Some(steps), cost: Some(Money::from_picos(picos)), ..Limits::unlimited() }
}

/// A separate leaf three levels below `root`.
fn deep_child(root: &Budget) -> Budget {
    root.child(Limits::unlimited()).child(Limits::unlimited()).child(Limits::unlimited())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_of_a_thousand_tasks_overshoots_by_nothing() {
    const TASKS: u64 = 1_000;
    const ADMITTED: u64 = 137;
    let root = Budget::root(limits(ADMITTED, 1_000_000));
    let start = Arc::new(Barrier::new(TASKS as usize));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (leaf, start) = (deep_child(&root), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                let worst = Amounts { cost: Money::from_picos(100), ..steps(1) };
                let Ok(hold) = leaf.reserve(worst) else { return 0 };
                tokio::task::yield_now().await;
                hold.settle(Amounts { cost: Money::from_picos(task % 101), ..steps(1) });
                1
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    assert_eq!((admitted, root.settled().steps), (ADMITTED, ADMITTED));
    assert_eq!((root.overshoot(), root.held()), (Amounts::ZERO, Amounts::ZERO));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_against_a_cap_of_money_stops_at_the_cap() {
    const TASKS: usize = 1_000;
    let root = Budget::root(limits(u64::MAX, 1_000));
    let start = Arc::new(Barrier::new(TASKS));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (leaf, start) = (deep_child(&root), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                let worst = Amounts { cost: Money::from_picos(7), ..steps(1) };
                if let Ok(hold) = leaf.reserve(worst) {
                    tokio::task::yield_now().await;
                    hold.settle(worst);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(root.settled().cost.picos(), 1_000 / 7 * 7);
}

/// Ready at the second poll.
async fn once_pending() {
    let mut polled = false;
    std::future::poll_fn(move |_| {
        if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A call of four awaits with a hold, a second hold of a child in the middle.
async fn call(budget: Budget, policy: OnDrop) {
    once_pending().await;
    let hold = budget.reserve(steps(4)).unwrap().on_drop(policy);
    once_pending().await;
    let inner = budget.child(limits(3, 0)).reserve(steps(3)).unwrap().on_drop(policy);
    once_pending().await;
    inner.settle(steps(1));
    once_pending().await;
    hold.settle(steps(2));
}

#[test]
fn a_call_that_is_dropped_at_any_await_leaves_nothing_held() {
    // The settled amount after each number of polls, if open calls are charged, and if they are released.
    for (polls, charged, released) in
        [(0, 0, 0), (1, 0, 0), (2, 4, 0), (3, 7, 0), (4, 5, 1), (5, 3, 3)]
    {
        for (policy, settled) in [(OnDrop::Charge, charged), (OnDrop::Release, released)] {
            let root = Budget::root(limits(10, 10));
            let mut done = false;
            {
                let mut future = pin!(call(root.child(Limits::unlimited()), policy));
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    done = future.as_mut().poll(&mut context).is_ready();
                }
            }
            assert_eq!(done, polls == 5);
            assert_eq!(
                (root.settled(), root.held()),
                (steps(settled), steps(0)),
                "{polls} {policy:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_tasks_leave_nothing_held_and_are_charged() {
    let root = Budget::root(limits(100, 0));
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let leaf = deep_child(&root);
            tokio::spawn(async move {
                let hold = leaf.reserve(steps(1)).unwrap();
                std::future::pending::<()>().await;
                hold.release();
            })
        })
        .collect();
    while root.held() != steps(100) {
        tokio::task::yield_now().await;
    }
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!((root.settled(), root.held()), (steps(100), steps(0)));
}

#[test]
fn a_panic_with_a_hold_charges_it_and_the_tree_goes_on() {
    let root = Budget::root(limits(2, 0));
    let theirs = root.clone();
    let crashed = std::thread::spawn(move || {
        let _hold = theirs.reserve(steps(1)).unwrap();
        panic!("a tool that crashes");
    })
    .join();
    assert!(crashed.is_err());
    assert_eq!((root.settled(), root.held()), (steps(1), steps(0)));
    root.reserve(steps(1)).unwrap().settle(steps(1));
    root.reserve(steps(1)).unwrap_err();
}

#[test]
fn a_hold_that_is_leaked_stays_held() {
    let root = Budget::root(limits(1, 0));
    std::mem::forget(root.child(Limits::unlimited()).reserve(steps(1)).unwrap());
    assert_eq!(root.held(), steps(1));
    root.reserve(steps(1)).unwrap_err();
}

#[test]
fn handles_and_holds_go_from_thread_to_thread() {
    fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<Budget>();
    crosses_threads::<endstop_runtime::ledger::Hold>();
}
