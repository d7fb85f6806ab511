//! The token tree under all interleavings of a few threads: what `tests/cancel.rs` cannot see.
#![cfg(endstop_loom)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of this test fail as the test does"
)]

use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use endstop::cancel::{CancelToken, InMemoryCancellationSource, Urgency};
use endstop::core::signal::{StopReason, StopSignal};
use loom::future::block_on;
use loom::thread;

fn signal(message: &str) -> StopSignal {
    StopSignal::new(StopReason::UserRequested).with_message(message)
}

fn message(token: &CancelToken) -> String {
    token.signal().expect("a cancelled token has a signal").message.clone()
}

#[test]
fn a_waiter_is_never_left_asleep_and_finds_the_reason() {
    loom::model(|| {
        let token = CancelToken::new();
        let canceller = token.clone();
        let thread = thread::spawn(move || canceller.cancel(signal("a"), Urgency::Graceful));
        // A lost wake-up is a deadlock, which loom reports.
        block_on(token.cancelled());
        assert_eq!(message(&token), "a");
        assert!(thread.join().unwrap());
    });
}

#[test]
fn whoever_sees_the_cancellation_sees_its_reason() {
    loom::model(|| {
        let token = CancelToken::new();
        let child = token.child();
        let thread = thread::spawn(move || token.cancel(signal("a"), Urgency::Now));
        if child.is_cancelled() {
            assert_eq!(message(&child), "a");
        }
        thread.join().unwrap();
        assert_eq!(message(&child), "a");
    });
}

struct LooksWhenWoken {
    token: CancelToken,
    seen: std::sync::Mutex<Vec<Option<String>>>,
}

impl Wake for LooksWhenWoken {
    fn wake(self: std::sync::Arc<Self>) {
        let seen = self.token.signal().map(|signal| signal.message.clone());
        self.seen.lock().unwrap().push(seen);
    }
}

#[test]
fn the_reason_is_set_before_anyone_is_woken() {
    loom::model(|| {
        let token = CancelToken::new();
        let look = std::sync::Arc::new(LooksWhenWoken {
            token: token.clone(),
            seen: std::sync::Mutex::default(),
        });
        let waker = Waker::from(std::sync::Arc::clone(&look));
        let canceller = token.clone();
        let thread = thread::spawn(move || canceller.cancel(signal("a"), Urgency::Now));
        let mut cut = pin!(token.aborted());
        let polled = cut.as_mut().poll(&mut Context::from_waker(&waker));
        thread.join().unwrap();
        // The waker also takes the lock of the tree, so this would hang if it were called under it.
        let seen = look.seen.lock().unwrap().clone();
        match polled {
            Poll::Pending => assert_eq!(seen, [Some("a".to_owned())]),
            Poll::Ready(()) => assert!(seen.is_empty()),
        }
    });
}

#[test]
fn of_two_cancellations_at_once_exactly_one_is_first_and_its_signal_stays() {
    loom::model(|| {
        let token = CancelToken::new();
        let child = token.child();
        let other = token.clone();
        let thread = thread::spawn(move || other.cancel(signal("a"), Urgency::Graceful));
        let b_is_first = token.cancel(signal("b"), Urgency::Now);
        let a_is_first = thread.join().unwrap();
        assert!(a_is_first != b_is_first);
        assert_eq!(message(&token), if a_is_first { "a" } else { "b" });
        assert_eq!(message(&child), message(&token));
        assert_eq!(child.urgency(), Some(Urgency::Now));
    });
}

#[test]
fn a_child_made_while_its_parent_is_cancelled_is_cancelled() {
    loom::model(|| {
        let token = CancelToken::new();
        let parent = token.clone();
        let thread = thread::spawn(move || {
            let child = parent.child();
            block_on(child.cancelled());
            message(&child)
        });
        token.cancel(signal("a"), Urgency::Graceful);
        assert_eq!(thread.join().unwrap(), "a");
    });
}

#[test]
fn a_grandchild_is_reached_while_the_token_between_is_dropped() {
    loom::model(|| {
        let token = CancelToken::new();
        let middle = token.child();
        let grandchild = middle.child();
        let dropper = thread::spawn(move || drop(middle));
        token.cancel(signal("a"), Urgency::Graceful);
        dropper.join().unwrap();
        assert_eq!(message(&grandchild), "a");
    });
}

#[test]
fn a_graceful_cancellation_wakes_once_and_the_escalation_wakes_the_rest() {
    loom::model(|| {
        let token = CancelToken::new();
        let child = token.child();
        let canceller = token.clone();
        let thread = thread::spawn(move || {
            canceller.cancel(signal("a"), Urgency::Graceful);
            canceller.cancel(signal("b"), Urgency::Now);
        });
        block_on(child.cancelled());
        block_on(child.aborted());
        assert_eq!(message(&child), "a");
        assert_eq!(child.urgency(), Some(Urgency::Now));
        thread.join().unwrap();
    });
}

#[test]
fn work_is_cut_wherever_the_cancellation_falls() {
    loom::model(|| {
        let token = CancelToken::new();
        let canceller = token.clone();
        let thread = thread::spawn(move || canceller.cancel(signal("a"), Urgency::Now));
        let cut = block_on(token.run_until_aborted(std::future::pending::<()>()));
        assert_eq!(cut.unwrap_err().message, "a");
        thread.join().unwrap();
    });
}

#[test]
fn a_request_is_not_lost_beside_a_reset() {
    loom::model(|| {
        let source = InMemoryCancellationSource::new();
        let (resetter, canceller) = (source.clone(), source.clone());
        let reset = thread::spawn(move || resetter.reset());
        let cancel = thread::spawn(move || {
            canceller.cancel("a");
        });
        reset.join().unwrap();
        cancel.join().unwrap();
        // Whichever came last, the source works on.
        source.cancel("b");
        block_on(source.requested());
        assert!(matches!(source.signal().unwrap().message.as_str(), "a" | "b"));
    });
}

#[test]
fn who_waits_at_a_source_is_woken_even_if_it_is_reset_at_once() {
    loom::model(|| {
        let source = InMemoryCancellationSource::new();
        let canceller = source.clone();
        let mut requested = Box::pin(async move { source.requested().await });
        let polled = requested.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let thread = thread::spawn(move || {
            canceller.cancel("a");
            canceller.reset();
        });
        block_on(requested);
        thread.join().unwrap();
    });
}
