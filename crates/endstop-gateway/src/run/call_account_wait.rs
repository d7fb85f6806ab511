//! A call that waits for budgets over time and their store.

use std::time::Duration;

use endstop_runtime::ShownAccountWait;
use endstop_runtime::account::AccountWait;
use tokio::time::Instant;

use super::entry::RunEntry;

/// The wait of one call for budgets over time and their store, which its run shows.
#[derive(Debug, Default)]
pub(crate) struct CallAccountWait {
    since: Option<Instant>,
    shown: ShownAccountWait,
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
