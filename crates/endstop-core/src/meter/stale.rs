//! The share of steps that got only what was already seen: the gauge `stale`.
//!
//! It is a separate gauge, so `no_progress(n)` keeps its simple meaning. `no_progress()` without a number combines
//! both at limits that were measured (docs/detection.md).

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::seen::{SeenResults, digest};
use crate::limits::{STALE_MIN_HALVES, STALE_MIN_STREAK};

/// Steps since the user last spoke, and what they got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stale {
    /// The results seen since the user's last message.
    seen: Box<SeenResults>,
    /// Steps that got results.
    judged: u64,
    /// Twice the number of those that got nothing else than what was already seen, and once of those among them that only
    /// failed.
    stale_halves: u64,
    /// Steps in a row that got nothing else, up to now.
    streak: u64,
    /// Whether one of these did anything else than the call before it again.
    streak_moved: bool,
    /// The text of the first result, and whether a step got another one.
    first_text: Option<u64>,
    is_varied: bool,
    /// The last result with its call.
    last: Option<u64>,
    /// Whether the open step got a result, one that was not seen before, one that did not fail, one with another text
    /// than the first, and one that differs from the result before it.
    got_result: bool,
    got_news: bool,
    got_success: bool,
    got_other_text: bool,
    got_other_call: bool,
    /// Results before this point are unknown: the run was restored from a state without this.
    unknown: bool,
}

impl Stale {
    /// Nothing is checked yet, in a run that may have `begun`.
    pub(crate) fn unseen(begun: bool) -> Self {
        Self { unknown: begun, ..Self::default() }
    }

    /// Records a result of an own call. The same result of another call is an acknowledgement, unless it says that
    /// the call failed.
    pub(crate) fn result(&mut self, tool: &str, arguments: &str, result: &str, failed: bool) {
        let text = xxh3_64(result.as_bytes());
        self.got_other_text |= *self.first_text.get_or_insert(text) != text;
        let call = digest(tool, arguments, result);
        self.got_other_call |= self.last.replace(call) != Some(call);
        self.got_result = true;
        self.got_success |= !failed;
        let known_by = if failed { digest(tool, FAILED, result) } else { call };
        self.got_news |= self.seen.insert(known_by);
    }

    /// The own step that was open is over.
    pub(crate) fn end_step(&mut self) {
        let news = core::mem::take(&mut self.got_news);
        let success = core::mem::take(&mut self.got_success);
        let moved = core::mem::take(&mut self.got_other_call);
        self.is_varied |= core::mem::take(&mut self.got_other_text);
        if !core::mem::take(&mut self.got_result) {
            return;
        }
        self.judged = self.judged.saturating_add(1);
        if news {
            self.streak = 0;
            self.streak_moved = false;
        } else {
            let halves = if success { 2 } else { 1 };
            self.stale_halves = self.stale_halves.saturating_add(halves);
            self.streak = self.streak.saturating_add(1);
            self.streak_moved |= moved;
        }
    }

    /// A user spoke: what comes now answers something else.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a part of the steps was not checked.
    pub(crate) const fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// Stale steps of a hundred, rounded down; 0 if they are too few, or if the run has just got something new. Also 0
    /// if one call is repeated by a run that has seen one text only: `repeats` counts that.
    pub(crate) const fn percent(&self) -> u64 {
        let is_stale = self.stale_halves >= STALE_MIN_HALVES
            && self.streak >= STALE_MIN_STREAK
            && (self.is_varied || self.streak_moved);
        match self.stale_halves.saturating_mul(50).checked_div(self.judged) {
            Some(percent) if is_stale => percent,
            _ => 0,
        }
    }
}

/// The replacement for the arguments of a call that failed. It cannot equal any arguments: it is not JSON.
const FAILED: &str = "\u{0}failed";

#[cfg(test)]
mod tests;
