//! Notes on the remaining budget to the model of a run ([`Config::tell_model`](crate::Config::tell_model)).

use std::sync::{Mutex, PoisonError};

use endstop_runtime::RunHandle;

use crate::limits::TOKENS_AROUND_MESSAGE;

/// The notes of one run, its sub-agents included.
#[derive(Debug)]
pub(crate) struct BudgetNotes(Mutex<ToldNotes>);

#[derive(Debug, Default)]
struct ToldNotes {
    /// The highest percentage whose note the model has.
    percent: u64,
    /// The last note.
    last: Option<BudgetNote>,
}

/// A line for the model, with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BudgetNote {
    percent: u64,
    /// The digest of the request's body.
    digest: u64,
    pub(crate) text: String,
}

impl BudgetNote {
    /// The most tokens that a text can be as a note.
    pub(crate) fn tokens_of(text: &str) -> u64 {
        u64::try_from(text.len()).unwrap_or(u64::MAX).saturating_add(TOKENS_AROUND_MESSAGE)
    }
}

impl BudgetNotes {
    /// The notes of a run that begins, or continues: what it has used by now is known to its model.
    pub(super) fn of(run: &RunHandle, percents: &[u64]) -> Self {
        let used = if percents.is_empty() { None } else { run.budget_use() };
        let percent = used.map_or(0, |used| used.percent);
        Self(Mutex::new(ToldNotes { percent, last: None }))
    }

    /// The note for a request with this digest: of the highest of `percents` that the run has reached and whose note its
    /// model does not have. A further attempt of the same step has the note of the first.
    pub(crate) fn next(
        &self,
        run: &RunHandle,
        percents: &[u64],
        digest: u64,
        is_attempt: bool,
    ) -> Option<BudgetNote> {
        if percents.is_empty() {
            return None;
        }
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_attempt {
            return told.last.clone().filter(|last| last.digest == digest);
        }
        let used = run.budget_use()?;
        let reached = percents.iter().filter(|percent| **percent <= used.percent);
        let percent = *reached.max().filter(|percent| **percent > told.percent)?;
        Some(BudgetNote { percent, digest, text: format!("[Endstop] {used}") })
    }

    /// Remembers that the model gets the note.
    pub(crate) fn told(&self, note: &BudgetNote) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.percent = told.percent.max(note.percent);
        told.last = Some(note.clone());
    }
}
