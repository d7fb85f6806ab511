//! A source of cancellations that a program asks from another task or thread.

use std::sync::PoisonError;

use endstop_core::signal::{StopReason, StopSignal};

use super::{CancelToken, Urgency};
use crate::sync::{Arc, Mutex};

/// A request to cancel, made anywhere in the process and seen at the next checkpoint. Clones are the same
/// source.
#[derive(Clone, Debug, Default)]
pub struct InMemoryCancellationSource {
    /// The request that is waited for. Only one that was made is ever replaced, so nobody waits for one that
    /// cannot come.
    request: Arc<Mutex<CancelToken>>,
}

impl InMemoryCancellationSource {
    /// A source at which nothing is requested.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a cancellation. The first message stands until [`reset`](Self::reset).
    pub fn cancel(&self, message: impl Into<String>) {
        let signal = StopSignal::new(StopReason::UserRequested)
            .with_message(message)
            .with_source("cancellation");
        self.request().cancel(signal, Urgency::Graceful);
    }

    /// Takes the request back, if there is one. What was already told of it is not told otherwise.
    pub fn reset(&self) {
        let fresh = CancelToken::new();
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        if request.is_cancelled() {
            *request = fresh;
        }
    }

    /// Whether a cancellation is requested.
    #[must_use]
    pub fn is_cancellation_requested(&self) -> bool {
        self.request().is_cancelled()
    }

    /// The request as a signal with the reason `user_requested`.
    #[must_use]
    pub fn signal(&self) -> Option<StopSignal> {
        self.request().signal().map(|signal| StopSignal::clone(&signal))
    }

    /// Resolves when a cancellation is requested, at once if it already is; also if the request is taken back
    /// between.
    ///
    /// # Cancellation safety
    ///
    /// It may be dropped at any time and asked for again.
    pub async fn requested(&self) {
        self.request().cancelled().await;
    }

    fn request(&self) -> CancelToken {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
