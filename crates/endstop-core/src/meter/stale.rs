//! The share of steps that got only what was already seen: the gauge `stale`.
//!
//! It is a separate gauge, so `no_progress(n)` keeps its simple meaning. `no_progress()` without a number combines
//! both at limits that were measured (docs/detection.md).

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::progress::{SeenResults, digest};
use crate::limits::{STALE_MIN_HALVES, STALE_MIN_STREAK};

/// Steps since the user last spoke, and what they got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stale {
    /// What was seen since the user last spoke.
    seen: Box<SeenResults>,
    /// Steps that got results.
    judged: u64,
    /// Twice the number of those that got nothing else than what was already seen, and once of those among them that only
    /// failed.
    stale_halves: u64,
    /// Steps in a row that got nothing else, up to now.
    streak: u64,
    /// Whether the open step got a result, one that was not seen before, and one that did not fail.
    got_result: bool,
    got_news: bool,
    got_success: bool,
    /// What the user has been told since is not known: the run was restored from a state without this.
    unknown: bool,
}

impl Stale {
    /// Nothing was looked at yet, in a run that may have `begun`.
    pub(crate) fn unseen(begun: bool) -> Self {
        Self { unknown: begun, ..Self::default() }
    }

    /// Takes in a result of an own call. The same result of another call is an acknowledgement, unless it says that the
    /// call failed.
    pub(crate) fn result(&mut self, tool: &str, arguments: &str, result: &str, failed: bool) {
        let (arguments, tool) = if failed { (FAILED, tool) } else { (arguments, tool) };
        self.got_result = true;
        self.got_success |= !failed;
        self.got_news |= self.seen.insert(digest(tool, arguments, result));
    }

    /// The own step that was open is over.
    pub(crate) fn end_step(&mut self) {
        let news = core::mem::take(&mut self.got_news);
        let success = core::mem::take(&mut self.got_success);
        if !core::mem::take(&mut self.got_result) {
            return;
        }
        self.judged = self.judged.saturating_add(1);
        if news {
            self.streak = 0;
        } else {
            let halves = if success { 2 } else { 1 };
            self.stale_halves = self.stale_halves.saturating_add(halves);
            self.streak = self.streak.saturating_add(1);
        }
    }

    /// A user spoke: what comes now answers something else.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a part of the steps was not looked at.
    pub(crate) const fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// Stale steps of a hundred, rounded down; 0 if they are too few, or if the run has just got something new.
    pub(crate) const fn percent(&self) -> u64 {
        let is_stale = self.stale_halves >= STALE_MIN_HALVES && self.streak >= STALE_MIN_STREAK;
        match self.stale_halves.saturating_mul(50).checked_div(self.judged) {
            Some(percent) if is_stale => percent,
            _ => 0,
        }
    }
}

/// What stands for the arguments of a call that failed. No arguments are so written: it is no JSON.
const FAILED: &str = "\u{0}failed";

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "The file /a/b/c.go has been updated successfully, as it was asked for.";

    /// Steps of results: the arguments, the result, whether it failed.
    fn after(steps: &[&[(&str, &str, bool)]]) -> Stale {
        let mut stale = Stale::default();
        for step in steps {
            for (arguments, result, failed) in *step {
                stale.result("tool", arguments, result, *failed);
            }
            stale.end_step();
        }
        stale
    }

    #[test]
    fn a_result_is_known_again_with_its_call_and_a_failure_without() {
        let edits: [&[_]; 4] =
            [&[("a", OK, false)], &[("b", OK, false)], &[("c", OK, false)], &[("d", OK, false)]];
        assert_eq!(after(&edits).stale_halves, 0, "an acknowledgement, however long");
        assert_eq!(after(&[edits[0]; 4]).stale_halves, 6);
        let errors: [&[_]; 4] = [
            &[("a", "no", true)],
            &[("b", "no", true)],
            &[("c", "no", true)],
            &[("d", "no", true)],
        ];
        assert_eq!(after(&errors).stale_halves, 3, "failures count half");
        assert_eq!(after(&[&[("a", "no", false)], errors[0]]).stale_halves, 0);
    }

    #[test]
    fn a_share_is_of_the_steps_that_got_results() {
        let (news, again): (&[_], &[_]) = (&[("b", "2", false)], &[("a", "1", false)]);
        assert_eq!(after(&[again, again, again]).percent(), 0, "two are too few");
        let twice = [again, again, again, news, again, again];
        assert_eq!(after(&twice).stale_halves, 8);
        assert_eq!(after(&twice).percent(), 0, "two in a row since the news");
        assert_eq!(after(&[&twice[..], &[again]].concat()).percent(), 71);
        assert_eq!(after(&[&twice[..], &[&[], again]].concat()).percent(), 71);
        let mixed: &[_] = &[("a", "1", false), ("c", "3", false)];
        assert_eq!(after(&[&twice[..], &[mixed, again, again, again]].concat()).percent(), 70);
        let failed: &[_] = &[("a", "no", true)];
        assert_eq!(after(&[failed; 6]).percent(), 0, "five halves");
        assert_eq!(after(&[failed; 7]).percent(), 42);
    }
}
