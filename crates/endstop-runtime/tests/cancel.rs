//! The token tree and the cancellation source as their users see them.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use endstop_core::signal::{StopReason, StopSignal};
use endstop_runtime::cancel::{CancelToken, InMemoryCancellationSource, Urgency};

fn signal(message: &str) -> StopSignal {
    StopSignal::new(StopReason::StopRequested).with_message(message)
}

fn message(token: &CancelToken) -> Option<String> {
    token.signal().map(|signal| signal.message.clone())
}

#[test]
fn a_fresh_token_is_not_cancelled_and_says_nothing() {
    let token = CancelToken::new();
    assert!(!token.is_cancelled());
    assert_eq!((token.urgency(), token.signal()), (None, None));
}

#[test]
fn the_first_signal_wins() {
    let token = CancelToken::new();
    assert!(token.cancel(signal("first"), Urgency::Graceful));
    assert!(!token.cancel(signal("second"), Urgency::Graceful));
    assert_eq!(message(&token).as_deref(), Some("first"));
    assert_eq!(token.urgency(), Some(Urgency::Graceful));
}

#[test]
fn a_clone_is_the_same_token() {
    let token = CancelToken::new();
    let clone = token.clone();
    drop(token);
    let again = clone.clone();
    assert!(clone.cancel(signal("a"), Urgency::Now));
    assert_eq!(message(&again).as_deref(), Some("a"));
}

#[test]
fn urgency_rises_and_never_falls_and_the_signal_stays() {
    let token = CancelToken::new();
    let child = token.child();
    token.cancel(signal("graceful"), Urgency::Graceful);
    assert!(!token.cancel(signal("now"), Urgency::Now));
    assert!(!token.cancel(signal("graceful again"), Urgency::Graceful));
    for token in [token, child] {
        assert_eq!(token.urgency(), Some(Urgency::Now));
        assert_eq!(message(&token).as_deref(), Some("graceful"));
    }
}

#[test]
fn cancelling_reaches_all_below_and_nothing_above_or_beside() {
    let root = CancelToken::new();
    let (child, sibling) = (root.child(), root.child());
    let grandchild = child.child();
    assert!(child.cancel(signal("child"), Urgency::Now));
    assert_eq!(message(&grandchild).as_deref(), Some("child"));
    assert_eq!(grandchild.urgency(), Some(Urgency::Now));
    assert!(!root.is_cancelled());
    assert!(!sibling.is_cancelled());
}

#[test]
fn a_child_of_a_cancelled_token_is_born_cancelled() {
    let root = CancelToken::new();
    root.cancel(signal("a"), Urgency::Graceful);
    let child = root.child();
    assert_eq!(message(&child).as_deref(), Some("a"));
    assert_eq!(child.urgency(), Some(Urgency::Graceful));
    root.cancel(signal("b"), Urgency::Now);
    assert_eq!(child.urgency(), Some(Urgency::Now));
    assert_eq!(root.child().urgency(), Some(Urgency::Now));
}

#[test]
fn a_child_that_was_cancelled_before_keeps_its_signal_and_takes_the_urgency() {
    let root = CancelToken::new();
    let child = root.child();
    let below = child.child();
    child.cancel(signal("child"), Urgency::Graceful);
    assert!(root.cancel(signal("root"), Urgency::Graceful));
    assert_eq!(message(&child).as_deref(), Some("child"));
    assert_eq!(child.urgency(), Some(Urgency::Graceful));
    root.cancel(signal("later"), Urgency::Now);
    assert_eq!(message(&root).as_deref(), Some("root"));
    for token in [child, below] {
        assert_eq!(message(&token).as_deref(), Some("child"));
        assert_eq!(token.urgency(), Some(Urgency::Now));
    }
}

#[test]
fn later_cancellations_are_kept_in_order_of_arrival_and_equal_ones_once() {
    let root = CancelToken::new();
    let child = root.child();
    child.cancel(signal("child"), Urgency::Now);
    for name in ["stop", "kill", "stop", "late"] {
        root.cancel(signal(name), Urgency::Graceful);
    }
    let messages = |token: &CancelToken| {
        token.signals().iter().map(|signal| signal.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(messages(&root), ["stop", "kill", "late"]);
    assert_eq!(messages(&child), ["child", "stop", "kill", "late"]);
    assert_eq!(messages(&root.child()), ["stop", "kill", "late"]);
    for n in 0..1_000 {
        root.cancel(signal(&n.to_string()), Urgency::Graceful);
    }
    assert_eq!((root.signals().len(), child.signals().len()), (64, 64));
}

#[test]
fn below_a_gracefully_cancelled_child_of_a_root_that_is_cut_nothing_is_missed() {
    // The child is below the urgency of the root's cut, and its own child must be reached through it.
    let root = CancelToken::new();
    let child = root.child();
    child.cancel(signal("child"), Urgency::Graceful);
    let below = child.child();
    root.cancel(signal("root"), Urgency::Now);
    assert_eq!(below.urgency(), Some(Urgency::Now));
}

#[test]
fn dropping_the_token_between_keeps_the_grandchild_below_the_root() {
    let root = CancelToken::new();
    let child = root.child();
    let (one, two) = (child.child(), child.child());
    drop(child);
    let below = one.child();
    root.cancel(signal("root"), Urgency::Now);
    for token in [one, two, below] {
        assert_eq!(message(&token).as_deref(), Some("root"));
    }
}

#[test]
fn children_outlive_a_dropped_root_and_are_apart_from_then_on() {
    let root = CancelToken::new();
    let (one, two) = (root.child(), root.child());
    drop(root);
    assert!(one.cancel(signal("one"), Urgency::Now));
    assert!(!two.is_cancelled());
}

#[test]
fn a_chain_of_ten_thousand_is_cancelled_and_dropped_without_using_the_stack() {
    let work = || {
        let mut chain = vec![CancelToken::new()];
        for depth in 0..10_000 {
            let next = chain[depth].child();
            chain.push(next);
        }
        chain[0].cancel(signal("deep"), Urgency::Now);
        assert!(chain.iter().all(|token| token.urgency() == Some(Urgency::Now)));
        assert_eq!(message(&chain[10_000]).as_deref(), Some("deep"));
    };
    // Enough for a loop, far from enough for 10,000 frames that each do something.
    std::thread::Builder::new().stack_size(64 * 1024).spawn(work).unwrap().join().unwrap();
}

#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn only_the_last_waker_is_woken_and_only_once() {
    let token = CancelToken::new();
    let (first, last) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
    let mut cancelled = pin!(token.cancelled());
    for waker in [&first, &last] {
        let waker = Waker::from(Arc::clone(waker));
        assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    token.cancel(signal("a"), Urgency::Graceful);
    token.cancel(signal("b"), Urgency::Now);
    assert_eq!(first.0.load(Ordering::SeqCst), 0);
    assert_eq!(last.0.load(Ordering::SeqCst), 1);
    let mut context = Context::from_waker(Waker::noop());
    assert!(cancelled.as_mut().poll(&mut context).is_ready());
    assert!(cancelled.as_mut().poll(&mut context).is_ready(), "asked again it says the same");
}

/// A waker that owns a token of the same tree: dropping or waking it takes the lock.
struct Entangled(CancelToken);

impl Wake for Entangled {
    fn wake(self: Arc<Self>) {
        assert!(self.0.signal().is_some());
        self.0.cancel(signal("from the waker"), Urgency::Now);
    }
}

#[test]
fn wakers_that_own_a_token_of_the_tree_do_not_lock_up() {
    let token = CancelToken::new();
    let entangled = || Waker::from(Arc::new(Entangled(token.child())));
    let mut cancelled = Box::pin(token.cancelled());
    // The second poll replaces the first waker, and the drop of the future the second.
    assert!(cancelled.as_mut().poll(&mut Context::from_waker(&entangled())).is_pending());
    assert!(cancelled.as_mut().poll(&mut Context::from_waker(&entangled())).is_pending());
    drop(cancelled);

    let mut cancelled = Box::pin(token.cancelled());
    assert!(cancelled.as_mut().poll(&mut Context::from_waker(&entangled())).is_pending());
    token.cancel(signal("a"), Urgency::Graceful);
    assert_eq!(message(&token).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_graceful_cancellation_resolves_cancelled_and_not_cut() {
    let token = CancelToken::new();
    token.cancel(signal("a"), Urgency::Graceful);
    token.cancelled().await;
    let waited = tokio::time::timeout(Duration::from_secs(3600), token.aborted()).await;
    assert!(waited.is_err());
    token.cancel(signal("b"), Urgency::Now);
    token.aborted().await;
}

#[tokio::test]
async fn a_wait_that_was_given_up_and_taken_up_again_misses_nothing() {
    let token = CancelToken::new();
    for _ in 0..10 {
        tokio::select! {
            biased;
            () = token.cancelled() => unreachable!("nobody cancelled"),
            () = ready(()) => {}
        }
    }
    let waiting = tokio::spawn({
        let token = token.child();
        async move { token.cancelled().await }
    });
    tokio::task::yield_now().await;
    token.cancel(signal("a"), Urgency::Graceful);
    waiting.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_every_waiter_of_every_depth_is_woken() {
    for round in 0..200 {
        let root = CancelToken::new();
        let mut waiting = Vec::new();
        let mut token = root.clone();
        for _ in 0..10 {
            token = token.child();
            for _ in 0..2 {
                let token = token.clone();
                waiting.push(tokio::spawn(async move {
                    token.cancelled().await;
                    assert!(token.signal().is_some(), "woken before there was a reason");
                    token.aborted().await;
                    message(&token)
                }));
            }
        }
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        let (one, two) = (root.clone(), root.clone());
        let one = tokio::spawn(async move { one.cancel(signal("a"), Urgency::Now) });
        let two = tokio::spawn(async move { two.cancel(signal("b"), Urgency::Graceful) });
        let a_is_first = one.await.unwrap();
        assert!(a_is_first != two.await.unwrap());
        let expected = Some(if a_is_first { "a" } else { "b" }.to_owned());
        for waiter in waiting {
            let seen = tokio::time::timeout(Duration::from_secs(120), waiter).await;
            assert_eq!(seen.expect("a wake-up was lost").unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn run_until_aborted_returns_the_output_of_work_that_ends() {
    let token = CancelToken::new();
    assert_eq!(token.run_until_aborted(ready(7)).await.unwrap(), 7);
    token.cancel(signal("a"), Urgency::Graceful);
    let output = token.run_until_aborted(async {
        tokio::task::yield_now().await;
        8
    });
    assert_eq!(output.await.unwrap(), 8, "a graceful cancellation lets it end");
}

struct SetsOnDrop(Arc<AtomicBool>);

impl Drop for SetsOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn run_until_aborted_drops_the_work_before_it_returns() {
    let token = CancelToken::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = SetsOnDrop(Arc::clone(&dropped));
    let canceller = token.clone();
    let work = async move {
        let _guard = guard;
        canceller.cancel(signal("a"), Urgency::Now);
        pending::<()>().await;
    };
    let error = token.run_until_aborted(work).await.unwrap_err();
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(error.message, "a");
}

#[tokio::test]
async fn run_until_aborted_begins_nothing_on_a_token_that_is_cut() {
    let token = CancelToken::new();
    token.cancel(signal("a"), Urgency::Now);
    let begun = AtomicBool::new(false);
    let work = async { begun.store(true, Ordering::SeqCst) };
    assert_eq!(token.run_until_aborted(work).await.unwrap_err().message, "a");
    assert!(!begun.load(Ordering::SeqCst));
}

#[test]
fn tokens_sources_and_their_futures_cross_threads() {
    fn check<T: Send + Sync + 'static>(_: &T) {}
    fn check_future<T: Send>(_: &T) {}
    let (token, source) = (CancelToken::default(), InMemoryCancellationSource::default());
    check(&token);
    check(&source);
    check_future(&token.cancelled());
    check_future(&token.run_until_aborted(ready(())));
    check_future(&source.requested());
}

#[test]
fn a_token_prints_its_state() {
    let token = CancelToken::new();
    token.cancel(signal("enough"), Urgency::Graceful);
    let printed = format!("{token:?}");
    assert!(printed.contains("Graceful") && printed.contains("enough"), "{printed}");
}

#[test]
fn a_source_keeps_the_first_message_until_it_is_reset() {
    let source = InMemoryCancellationSource::new();
    let clone = source.clone();
    assert!(!source.is_cancellation_requested());
    assert_eq!(source.signal(), None);

    source.cancel("stop that");
    source.cancel("and that");
    assert!(clone.is_cancellation_requested());
    let signal = clone.signal().unwrap();
    assert_eq!(signal.reason, StopReason::UserRequested);
    assert_eq!(signal.message, "stop that");
    let messages: Vec<_> = source.signals().into_iter().map(|signal| signal.message).collect();
    assert_eq!(messages, ["stop that", "and that"]);

    clone.reset();
    assert!(!source.is_cancellation_requested());
    source.cancel("another");
    assert_eq!(clone.signal().unwrap().message, "another");
}

#[tokio::test]
async fn a_source_wakes_who_waits_even_across_a_reset() {
    let source = InMemoryCancellationSource::new();
    let waiting = tokio::spawn({
        let source = source.clone();
        async move { source.requested().await }
    });
    tokio::task::yield_now().await;
    source.reset();
    assert!(!waiting.is_finished());
    source.cancel("a");
    source.reset();
    waiting.await.unwrap();
    assert!(!source.is_cancellation_requested());
}

#[tokio::test]
async fn a_source_tells_of_an_abort_alone_even_across_a_reset() {
    let source = InMemoryCancellationSource::new();
    let waiting = tokio::spawn({
        let source = source.clone();
        async move { source.aborted().await }
    });
    source.cancel("let it finish");
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "a cancellation aborts nothing");
    source.reset();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "and a reset is no abort");
    source.cancel("first");
    source.abort("second");
    assert_eq!(waiting.await.unwrap().message, "first", "a run hears of the first at once");
    assert_eq!(source.signals().pop().unwrap().message, "second", "and of each request after it");
}
