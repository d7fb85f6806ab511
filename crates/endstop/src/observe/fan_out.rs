//! Several observers as one.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use endstop_core::Run;
use endstop_core::run::Notice;
use endstop_core::units::WallTime;

use super::{Observation, Observer, RunInfo, SettledCall};
use endstop_runtime::account::AccountRefused;
use endstop_runtime::ledger::Budget;

/// Observers that are called one after the other, in the order in which they were added. One that panics
/// does not keep the others from seeing what happened.
///
/// ```
/// use std::sync::Arc;
/// use endstop::observe::{ConsoleObserver, Observers, Recording};
///
/// let recording = Arc::new(Recording::new());
/// let observers = Observers::new().with(recording.clone()).with(Arc::new(ConsoleObserver::stderr()));
/// assert!(!observers.is_empty());
/// assert_eq!(observers.panics(), 0);
/// ```
#[derive(Default)]
pub struct Observers {
    list: Vec<Arc<dyn Observer>>,
    panics: AtomicU64,
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("observers", &self.list.len())
            .field("panics", &self.panics())
            .finish()
    }
}

impl Observers {
    /// Creates a fan-out without observers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `observer` after the others.
    #[must_use]
    pub fn with(mut self, observer: Arc<dyn Observer>) -> Self {
        self.push(observer);
        self
    }

    /// Adds `observer` after the others.
    pub fn push(&mut self, observer: Arc<dyn Observer>) {
        self.list.push(observer);
    }

    /// Returns whether it has no observers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns how often an observer panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    fn each(&self, call: impl Fn(&dyn Observer)) {
        for observer in &self.list {
            if catch_unwind(AssertUnwindSafe(|| call(&**observer))).is_err() {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Observer for Observers {
    fn observe(&self, observation: &Observation<'_>) {
        self.each(|observer| observer.observe(observation));
    }

    fn settled(&self, info: &RunInfo, call: &SettledCall<'_>) {
        self.each(|observer| observer.settled(info, call));
    }

    fn continues_from(&self, info: &RunInfo, charged: u64, until: WallTime) {
        self.each(|observer| observer.continues_from(info, charged, until));
    }

    fn warned(&self, info: &RunInfo, notice: &Notice, run: &Run) {
        self.each(|observer| observer.warned(info, notice, run));
    }

    fn account_awaited(&self, info: &RunInfo, refused: Option<&AccountRefused>) {
        self.each(|observer| observer.account_awaited(info, refused));
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, budget: &Budget) {
        self.each(|observer| observer.run_ended(info, run, budget));
    }
}
