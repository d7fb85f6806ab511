//! Calls of a run that wait for the reset of a budget over time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_runtime::account::AccountRefused;

/// The calls of a run that wait for the reset of a budget, and the last that did.
#[derive(Debug, Default)]
pub(crate) struct AccountWaits(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    calls: usize,
    /// The latest reason why one of them waits.
    current: Option<Box<AccountRefused>>,
    /// The latest reason why a call waits or was refused, if no call was admitted since.
    last: Option<Box<AccountRefused>>,
}

/// A call that waits, until it is dropped.
#[derive(Debug)]
pub(crate) struct AccountWaiting<'r>(&'r AccountWaits);

impl AccountWaits {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that waits.
    pub(crate) fn begin(&self) -> AccountWaiting<'_> {
        self.waits().calls += 1;
        AccountWaiting(self)
    }

    /// Notes why a call waits, or is refused.
    pub(crate) fn note(&self, refused: &AccountRefused) {
        let refused = Some(Box::new(refused.clone()));
        let mut waits = self.waits();
        waits.current.clone_from(&refused);
        waits.last = refused;
    }

    /// A call was admitted: the budget is in the way no longer.
    pub(crate) fn admitted(&self) {
        self.waits().last = None;
    }

    /// The budget that calls wait for now.
    pub(crate) fn current(&self) -> Option<AccountRefused> {
        self.waits().current.as_deref().cloned()
    }

    /// The budget that admitted no call since one waited for it.
    pub(crate) fn last(&self) -> Option<AccountRefused> {
        self.waits().last.as_deref().cloned()
    }
}

impl Drop for AccountWaiting<'_> {
    fn drop(&mut self) {
        let mut waits = self.0.waits();
        waits.calls = waits.calls.saturating_sub(1);
        if waits.calls == 0 {
            waits.current = None;
        }
    }
}
