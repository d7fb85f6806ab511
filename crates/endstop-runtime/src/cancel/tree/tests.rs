//! Tests of what the tree keeps, which cannot be seen from outside.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use endstop_core::signal::{StopReason, StopSignal};

use super::Handle;
use crate::cancel::{CancelToken, Urgency};

impl Handle {
    fn node_count(&self) -> usize {
        self.nodes().by_id.len()
    }

    fn edge_count(&self) -> usize {
        self.nodes().by_id.values().map(|node| node.children.len()).sum()
    }

    fn waiter_count(&self) -> usize {
        self.nodes().by_id.values().map(|node| node.waiters.len()).sum()
    }
}

fn signal() -> StopSignal {
    StopSignal::new(StopReason::UserRequested)
}

#[test]
fn a_long_lived_root_does_not_grow_with_short_lived_children() {
    let root = CancelToken::new();
    for _ in 0..1_000_000 {
        let child = root.child();
        assert!(!child.is_cancelled());
    }
    assert_eq!(root.handle.node_count(), 1);
    assert_eq!(root.handle.edge_count(), 0);
}

#[test]
fn children_of_a_cancelled_root_are_freed_too() {
    let root = CancelToken::new();
    root.cancel(signal(), Urgency::Now);
    let children: Vec<CancelToken> = (0..100).map(|_| root.child()).collect();
    assert_eq!(root.handle.node_count(), 101);
    drop(children);
    assert_eq!((root.handle.node_count(), root.handle.edge_count()), (1, 0));
}

#[test]
fn a_line_of_tokens_that_each_replace_their_parent_does_not_grow() {
    let root = CancelToken::new();
    let mut token = root.child();
    for _ in 0..10_000 {
        token = token.child();
    }
    assert_eq!((root.handle.node_count(), root.handle.edge_count()), (2, 1));
    root.cancel(signal(), Urgency::Graceful);
    assert!(token.is_cancelled());
}

#[test]
fn waiters_that_are_dropped_or_woken_are_forgotten() {
    let root = CancelToken::new();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        let mut cancelled = root.cancelled();
        assert!(Pin::new(&mut cancelled).poll(&mut context).is_pending());
        assert!(Pin::new(&mut cancelled).poll(&mut context).is_pending());
        assert_eq!(root.handle.waiter_count(), 1);
    }
    assert_eq!(root.handle.waiter_count(), 0);

    let (mut cancelled, mut cut) = (root.cancelled(), root.aborted());
    assert!(Pin::new(&mut cancelled).poll(&mut context).is_pending());
    assert!(Pin::new(&mut cut).poll(&mut context).is_pending());
    root.cancel(signal(), Urgency::Graceful);
    assert_eq!(root.handle.waiter_count(), 1);
    root.cancel(signal(), Urgency::Now);
    assert_eq!(root.handle.waiter_count(), 0);
}

#[test]
fn a_lock_that_a_panic_left_poisoned_still_cancels() {
    let root = CancelToken::new();
    let child = root.child();
    let poisoner = root.clone();
    let panicked = std::thread::spawn(move || {
        let _nodes = poisoner.handle.nodes();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(root.cancel(signal(), Urgency::Now));
    assert_eq!(child.signal().as_deref(), Some(&signal()));
}
