//! Attempts after a failed one: when to make them, how long to wait, and a breaker that many runs share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::FOR_EVER;
use crate::model::ModelError;

/// The retries of a step after failed requests.
///
/// ```
/// use std::time::Duration;
/// use endstop::agent::RetryPolicy;
///
/// let patient = RetryPolicy { max_attempts: 5, ..RetryPolicy::default() };
/// assert_eq!(patient.first_wait, Duration::from_millis(500));
/// assert_eq!(RetryPolicy::never().max_attempts, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests of one step that fail one after the other, at most; the first is always made. A response that a retry
    /// rule drops does not count as failed.
    pub max_attempts: u32,
    /// The wait before the second request; doubled for each further one.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
    /// The longest `Retry-After` of a provider that is obeyed; one that asks for more is not asked again.
    pub longest_retry_after: Duration,
}

impl Default for RetryPolicy {
    /// Three requests, half a second and one second apart.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            longest_retry_after: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// Creates a policy without retries.
    #[must_use]
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// How long to wait before the next request; `None` for no further request.
    pub(super) fn wait(&self, failed: u32, error: &ModelError) -> Option<Duration> {
        if failed >= self.max_attempts || !error.kind.is_retryable() {
            return None;
        }
        match error.retry_after {
            Some(asked) if asked > self.longest_retry_after => None,
            Some(asked) => Some(asked),
            None => {
                let doubled = 1u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
                Some(self.first_wait.saturating_mul(doubled).min(self.longest_wait))
            }
        }
    }
}

/// Keeps requests from a model that fails: after a number of failures in a row none is sent for a while, then one at
/// a time until one succeeds. Shared by clones.
///
/// ```
/// use std::time::Duration;
/// use endstop::agent::{BreakerDecision, CircuitBreaker};
///
/// let breaker = CircuitBreaker::new(2, Duration::from_secs(60));
/// breaker.record(false);
/// assert_eq!(breaker.ask(), BreakerDecision::Send);
/// breaker.record(false);
/// assert!(matches!(breaker.ask(), BreakerDecision::Wait(_)));
/// breaker.record(true);
/// assert!(!breaker.is_open());
/// ```
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    failures_to_open: u32,
    stays_open: Duration,
    fails_fast: bool,
    state: Arc<Mutex<Breaker>>,
}

#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
    /// A request is out that decides whether the breaker closes.
    is_trying: bool,
}

/// A request that a breaker lets pass. Dropped without a record, as with a run that is, it says nothing of
/// the model, and the breaker lets the next one pass.
pub(super) struct Trial(Option<CircuitBreaker>);

impl Trial {
    pub(super) const fn of(breaker: Option<CircuitBreaker>) -> Self {
        Self(breaker)
    }

    pub(super) fn record(&mut self, succeeded: bool) {
        if let Some(breaker) = self.0.take() {
            breaker.record(succeeded);
        }
    }

    pub(super) fn forget(&mut self) {
        if let Some(breaker) = self.0.take() {
            breaker.forget();
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The decision of a breaker about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    /// Send it.
    Send,
    /// Wait so long and ask again.
    Wait(Duration),
    /// Fail now: the breaker is open for that long, and [fails fast](CircuitBreaker::fail_fast).
    Fail(Duration),
}

impl CircuitBreaker {
    /// Creates a breaker that opens after `failures` in a row (at least one) and stays open for `stays_open`.
    #[must_use]
    pub fn new(failures: u32, stays_open: Duration) -> Self {
        let failures_to_open = failures.max(1);
        Self { failures_to_open, stays_open, fails_fast: false, state: Arc::default() }
    }

    /// While it is open, runs do not wait: a run that needs the model ends with `error`, and a request that failed is not
    /// sent again. Clones made before still wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use endstop::agent::{BreakerDecision, CircuitBreaker};
    ///
    /// let breaker = CircuitBreaker::new(1, Duration::from_secs(60)).fail_fast();
    /// breaker.record(false);
    /// assert!(matches!(breaker.ask(), BreakerDecision::Fail(_)));
    /// ```
    #[must_use]
    pub const fn fail_fast(mut self) -> Self {
        self.fails_fast = true;
        self
    }

    /// Asks before a request.
    #[must_use]
    pub fn ask(&self) -> BreakerDecision {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = state.open_until else { return BreakerDecision::Send };
        let now = Instant::now();
        if now < until {
            return self.held_back(until - now);
        }
        if state.is_trying {
            return self.held_back(self.stays_open.min(Duration::from_millis(100)));
        }
        state.is_trying = true;
        BreakerDecision::Send
    }

    const fn held_back(&self, wait: Duration) -> BreakerDecision {
        if self.fails_fast { BreakerDecision::Fail(wait) } else { BreakerDecision::Wait(wait) }
    }

    /// Whether a request that failed is not sent again.
    pub(super) fn ends_attempts(&self) -> bool {
        self.fails_fast && self.is_open()
    }

    /// Records whether a request that was sent succeeded.
    pub fn record(&self, succeeded: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if succeeded {
            *state = Breaker::default();
            return;
        }
        state.is_trying = false;
        state.failures = state.failures.saturating_add(1);
        if state.failures >= self.failures_to_open {
            let now = Instant::now();
            // A time beyond the clock's range is forever.
            state.open_until = now.checked_add(self.stays_open).or(now.checked_add(FOR_EVER));
        }
    }

    /// Records that a request ended without a result that says anything about the model, such as by a cancellation.
    pub fn forget(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_trying = false;
    }

    /// Returns whether requests are held back now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open_until.is_some_and(|until| Instant::now() < until || state.is_trying)
    }
}
