//! A source of cancellations that a program asks from another task or thread.

use std::sync::PoisonError;

use endstop_core::signal::{StopReason, StopSignal};

use super::{CancelToken, Urgency};
use crate::sync::{Arc, Mutex};

/// A request to cancel, made anywhere in the process and seen at the next checkpoint; an abort is seen at once. Clones are
/// the same source.
///
/// ```
/// use endstop_core::signal::StopReason;
/// use endstop_runtime::cancel::InMemoryCancellationSource;
///
/// let source = InMemoryCancellationSource::new();
/// let button = source.clone();
/// std::thread::spawn(move || button.cancel("the user closed the window")).join().unwrap();
/// let signal = source.signal().unwrap();
/// assert_eq!(signal.reason, StopReason::UserRequested);
/// assert_eq!(signal.message, "the user closed the window");
/// ```
#[derive(Clone, Debug, Default)]
pub struct InMemoryCancellationSource {
    /// The request that tasks wait for. It is replaced only after a cancellation, so no task waits for one that
    /// cannot happen.
    request: Arc<Mutex<CancelToken>>,
}

fn signal(message: impl Into<String>) -> StopSignal {
    StopSignal::new(StopReason::UserRequested).with_message(message).with_source("cancellation")
}

impl InMemoryCancellationSource {
    /// Creates a source at which nothing is requested.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a cancellation: what is in flight finishes. The first message is that of the stop, until
    /// [`reset`](Self::reset).
    pub fn cancel(&self, message: impl Into<String>) {
        self.request().cancel(signal(message), Urgency::Graceful);
    }

    /// Requests that calls in flight are aborted as well.
    pub fn abort(&self, message: impl Into<String>) {
        self.request().cancel(signal(message), Urgency::Now);
    }

    /// Takes the request back, if there is one. A run that has seen it has stopped.
    pub fn reset(&self) {
        let fresh = CancelToken::new();
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        if request.is_cancelled() {
            let old = std::mem::replace(&mut *request, fresh);
            drop(request);
            // Tasks that wait for an abort of the old request wait for one of the new request from now on.
            old.cancel(signal(""), Urgency::Now);
        }
    }

    /// Returns whether a cancellation is requested.
    #[must_use]
    pub fn is_cancellation_requested(&self) -> bool {
        self.request().is_cancelled()
    }

    /// Returns the first request as a signal with the reason `user_requested`.
    #[must_use]
    pub fn signal(&self) -> Option<StopSignal> {
        self.request().signal().map(|signal| StopSignal::clone(&signal))
    }

    /// Returns every request since the last [`reset`](Self::reset) as a signal, the earliest first; equal ones once,
    /// and at most 64.
    #[must_use]
    pub fn signals(&self) -> Vec<StopSignal> {
        self.request().signals().iter().map(|signal| StopSignal::clone(signal)).collect()
    }

    /// Resolves when a cancellation is requested, even if the request is taken back in between. Resolves immediately
    /// if it already is.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any time and asked for again.
    pub async fn requested(&self) {
        self.request().cancelled().await;
    }

    /// Resolves with the signal of the first request when an abort is requested. Resolves immediately if it already
    /// is.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any time and asked for again.
    pub async fn aborted(&self) -> StopSignal {
        loop {
            let request = self.request();
            request.aborted().await;
            let current = self.request();
            if let (Some(Urgency::Now), Some(signal)) = (current.urgency(), current.signal()) {
                return StopSignal::clone(&signal);
            }
        }
    }

    fn request(&self) -> CancelToken {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
