//! Cancellation: a tree of tokens that carry the reason, and the kill switch.
//!
//! A run holds a [`CancelToken`], and each child run a [`child`](CancelToken::child) of it. Cancelling a token
//! reaches all of its descendants and none of its ancestors. How hard it stops is its [`Urgency`].
//!
//! # Invariants
//!
//! 1. A token keeps its signals in order of arrival, each once and at most 64; the first never changes. Its urgency only
//!    rises.
//! 2. A token that is cancelled has a signal: it is there before the urgency can be read and before
//!    anyone is woken.
//! 3. A token is cancelled at least as urgently as its parent is. A child of a cancelled token is born
//!    cancelled.
//! 4. Cancelling reaches the token and its descendants, never its parent or its siblings.
//! 5. Every waiter is woken: it is listed under the same lock that guards changes of the urgency, and checks the
//!    urgency again before it is listed.
//! 6. No foreign code runs under the lock: wakers are cloned, woken and dropped outside.
//! 7. A token whose last clone is dropped leaves nothing behind. Its children then belong to its parent.
//! 8. Work over the tree is a loop, never a recursion, so that depth costs no stack.

pub mod interrupt;
mod kill;
mod source;
mod tree;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use endstop_core::signal::StopSignal;

pub use crate::limits::MIN_WATCH_INTERVAL;
pub(crate) use kill::look_at;
pub use kill::{
    FileKillSwitch, KillSwitch, MemoryKillSwitch, NoKillSwitch, kill_signal, poll_kill_switch,
    watch_kill_switch,
};
pub use source::InMemoryCancellationSource;
use tree::Handle;

/// The urgency of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Nothing new starts; work in flight finishes.
    Graceful,
    /// Calls in flight are aborted.
    Now,
}

/// One node of a tree of cancellations. Clones share the node.
///
/// ```
/// use endstop_runtime::cancel::{CancelToken, Urgency};
/// use endstop_core::signal::{StopReason, StopSignal};
///
/// let run = CancelToken::new();
/// let child = run.child();
/// run.cancel(StopSignal::new(StopReason::UserRequested), Urgency::Graceful);
/// assert_eq!(child.urgency(), Some(Urgency::Graceful));
/// assert_eq!(child.signal().unwrap().reason, StopReason::UserRequested);
/// ```
#[derive(Clone)]
pub struct CancelToken {
    handle: crate::sync::Arc<Handle>,
}

impl CancelToken {
    /// Creates a token without a parent: the root of a new tree.
    #[must_use]
    pub fn new() -> Self {
        Self { handle: crate::sync::Arc::new(Handle::root()) }
    }

    /// Returns a child of this token. A child of a cancelled token is cancelled from the start, for the same reason.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { handle: crate::sync::Arc::new(self.handle.child()) }
    }

    /// Cancels this token and its descendants. Returns `true` if this token was not cancelled before.
    ///
    /// The first signal stays [the signal](Self::signal) of this token and its descendants; later ones are
    /// [kept](Self::signals) too, up to 64. A later [`Urgency::Now`] makes a graceful cancellation urgent; urgency never falls.
    pub fn cancel(&self, signal: StopSignal, urgency: Urgency) -> bool {
        self.handle.cancel(Arc::new(signal), urgency)
    }

    /// Returns the reason of the first cancellation.
    #[must_use]
    pub fn signal(&self) -> Option<Arc<StopSignal>> {
        self.handle.signal()
    }

    /// Returns every cancellation that reached it, in order of arrival; equal ones once. O(signals), at most 64.
    #[must_use]
    pub fn signals(&self) -> Vec<Arc<StopSignal>> {
        self.handle.signals()
    }

    /// Returns the urgency of the cancellation.
    #[must_use]
    pub fn urgency(&self) -> Option<Urgency> {
        self.handle.urgency()
    }

    /// Returns whether it was cancelled, in either way. This is one atomic load.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.urgency().is_some()
    }

    /// Resolves when the token is cancelled, with either urgency. Resolves immediately if it already is.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any time and asked for again; no cancellation is missed.
    pub const fn cancelled(&self) -> Cancelled<'_> {
        Cancelled { token: self, least: Urgency::Graceful, key: None }
    }

    /// Resolves when the token is cancelled with [`Urgency::Now`]. Resolves immediately if it already is.
    ///
    /// # Cancel safety
    ///
    /// Like [`cancelled`](Self::cancelled).
    pub const fn aborted(&self) -> Cancelled<'_> {
        Cancelled { token: self, least: Urgency::Now, key: None }
    }

    /// Returns the output of `future`, unless the token is aborted first: then `future` is dropped in its current
    /// state, and the signal is returned. Once the token is aborted, `future` is no longer polled, even if it is ready.
    ///
    /// # Cancel safety
    ///
    /// That of `future`.
    ///
    /// # Errors
    ///
    /// Returns the signal of the token if it was aborted.
    pub async fn run_until_aborted<F: Future>(
        &self,
        future: F,
    ) -> Result<F::Output, Arc<StopSignal>> {
        let mut aborted = self.aborted();
        let mut future = pin!(future);
        poll_fn(|cx| {
            if Pin::new(&mut aborted).poll(cx).is_ready() {
                let Some(signal) = self.signal() else {
                    unreachable!("a token that is aborted has the signal of its first cancellation")
                };
                return Poll::Ready(Err(signal));
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("urgency", &self.urgency())
            .field("signal", &self.signal())
            .finish_non_exhaustive()
    }
}

/// Waits for a cancellation: [`CancelToken::cancelled`] and [`CancelToken::aborted`].
#[derive(Debug)]
#[must_use = "nothing waits until it is polled"]
pub struct Cancelled<'a> {
    token: &'a CancelToken,
    least: Urgency,
    /// Its entry in the list of waiters, once it is in.
    key: Option<u64>,
}

impl Future for Cancelled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let handle = &self.token.handle;
        if handle.urgency() >= Some(self.least) {
            return Poll::Ready(());
        }
        match handle.wait(self.key, self.least, cx.waker().clone()) {
            Some(key) => {
                self.key = Some(key);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.token.handle.leave(key);
        }
    }
}
