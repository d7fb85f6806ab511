//! Calls of a run that wait for the reset of a budget over time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_runtime::ShownAccountWait;
use endstop_runtime::account::{AccountRefused, AccountWait};
use tokio::time::Instant;

use super::entry::RunEntry;

/// The latest reason why a call of a run waits or was refused, if no call was admitted since.
#[derive(Debug, Default)]
pub(crate) struct AccountWaits(Mutex<Option<Box<AccountRefused>>>);

/// The wait of one call for budgets over time and their store, which its run shows.
#[derive(Debug, Default)]
pub(crate) struct CallAccountWait {
    since: Option<Instant>,
    shown: ShownAccountWait,
}

impl AccountWaits {
    fn last_refused(&self) -> MutexGuard<'_, Option<Box<AccountRefused>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, refused: &AccountRefused) {
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

impl CallAccountWait {
    /// The call waits for something else now. The time that it has waited for budgets counts on.
    pub(crate) fn interrupt(&mut self) {
        self.shown.end();
    }

    /// Takes the reason why the call waits now. Returns whether it has waited for too long.
    pub(crate) fn go_on(&mut self, run: &RunEntry, wait: &AccountWait, limit: Duration) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_over = wait.is_over() || since.elapsed() >= limit;
        if let AccountWait::Room { refused, until } = wait
            && (is_over || until.is_some())
        {
            run.account_waits().note(refused);
        }
        if !is_over {
            self.shown.show(run.handle(), wait);
        }
        is_over
    }
}
