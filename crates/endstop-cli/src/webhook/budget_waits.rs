//! The waits of runs for full budgets that were sent.

use std::collections::{BTreeMap, BTreeSet};

use endstop::store::RunId;

/// The waits of each run since its last call that began after one.
#[derive(Debug, Default)]
pub(super) struct BudgetWaits(BTreeMap<RunId, SentWaits>);

#[derive(Debug, Default)]
struct SentWaits {
    budgets: BTreeSet<String>,
    /// Whether no call waits any longer. It may have gone without an answer.
    is_over: bool,
    /// Whether a call has begun in the meantime.
    has_begun: bool,
}

impl BudgetWaits {
    /// A call begins to wait. Returns whether this must be sent: a client that tries again waits for the same budget again.
    pub(super) fn begin(&mut self, run: &RunId, budget: &str) -> bool {
        let waits = self.0.entry(run.clone()).or_default();
        waits.is_over = false;
        waits.has_begun = false;
        waits.budgets.insert(budget.to_owned())
    }

    /// No call waits any longer. Returns whether the run continues: a call begins before its wait ends.
    pub(super) fn end(&mut self, run: &RunId) -> bool {
        let Some(waits) = self.0.get_mut(run) else { return false };
        waits.is_over = true;
        self.take_continued(run)
    }

    /// A call has begun. Returns whether the run continues by it.
    pub(super) fn call_begins(&mut self, run: &RunId) -> bool {
        let Some(waits) = self.0.get_mut(run) else { return false };
        waits.has_begun = true;
        self.take_continued(run)
    }

    /// The run is over, or paused for another reason.
    pub(super) fn forget(&mut self, run: &RunId) {
        self.0.remove(run);
    }

    fn take_continued(&mut self, run: &RunId) -> bool {
        let continues = self.0.get(run).is_some_and(|waits| waits.is_over && waits.has_begun);
        if continues {
            self.forget(run);
        }
        continues
    }
}

#[cfg(test)]
mod tests;
