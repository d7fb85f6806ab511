//! Calls of a run that wait for the reset of a budget over time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_runtime::account::AccountRefused;

/// The latest reason why a call of a run waits or was refused, if no call was admitted since.
#[derive(Debug, Default)]
pub(crate) struct AccountWaits(Mutex<Option<Box<AccountRefused>>>);

impl AccountWaits {
    fn last_refused(&self) -> MutexGuard<'_, Option<Box<AccountRefused>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, refused: &AccountRefused) {
        *self.last_refused() = Some(Box::new(refused.clone()));
    }

    /// A call was admitted: no budget is in the way.
    pub(crate) fn admitted(&self) {
        *self.last_refused() = None;
    }

    /// The budget that admitted no call since one waited for it.
    pub(crate) fn last(&self) -> Option<AccountRefused> {
        self.last_refused().as_deref().cloned()
    }
}
