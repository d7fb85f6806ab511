//! Calls of a run that wait for the reset of a budget over time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_runtime::account::{AccountRefused, AccountWait};
use tokio::time::Instant;

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

/// The wait of one call for budgets over time and their store, which its run shows.
#[derive(Debug, Default)]
pub(crate) struct CallAccountWait<'r> {
    since: Option<Instant>,
    shown: Option<ShownWait<'r>>,
}

/// A call that is counted until this is dropped.
#[derive(Debug)]
struct ShownWait<'r>(&'r AccountWaits);

impl AccountWaits {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> ShownWait<'_> {
        self.waits().calls += 1;
        ShownWait(self)
    }

    fn note(&self, refused: &AccountRefused) {
        let refused = Some(Box::new(refused.clone()));
        let mut waits = self.waits();
        waits.current.clone_from(&refused);
        waits.last = refused;
    }

    /// A call was admitted: no budget is in the way.
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

impl<'r> CallAccountWait<'r> {
    /// Takes the reason why the call waits now. Returns whether it has waited for too long.
    pub(crate) fn go_on(
        &mut self,
        waits: &'r AccountWaits,
        wait: &AccountWait,
        limit: Duration,
    ) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_over = wait.is_over() || since.elapsed() >= limit;
        match wait {
            AccountWait::Room { refused, until } if is_over || until.is_some() => {
                self.shown.get_or_insert_with(|| waits.begin());
                waits.note(refused);
            }
            _ => self.shown = None,
        }
        is_over
    }
}

impl Drop for ShownWait<'_> {
    fn drop(&mut self) {
        let mut waits = self.0.waits();
        waits.calls = waits.calls.saturating_sub(1);
        if waits.calls == 0 {
            waits.current = None;
        }
    }
}
