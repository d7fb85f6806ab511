//! The share of steps that got only what was already seen: the gauge `stale`.
//!
//! It is a separate gauge, so `no_progress(n)` keeps its simple meaning. `no_progress()` without a number combines
//! both at limits that were measured (docs/detection.md).

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::progress::{SeenResults, digest};
use crate::limits::{STALE_MIN_STEPS, STALE_MIN_WORDS};

/// Steps since the user last spoke, and what they got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stale {
    /// What was seen since the user last spoke.
    seen: Box<SeenResults>,
    /// Steps that got results.
    judged: u64,
    /// Those of them that got nothing else than what was already seen.
    stale: u64,
    /// Whether the open step got a result, and one that was not seen before.
    got_result: bool,
    got_news: bool,
    /// What the user has been told since is not known: the run was restored from a state without this.
    unknown: bool,
}

impl Stale {
    /// Nothing was looked at yet, in a run that may have `begun`.
    pub(crate) fn unseen(begun: bool) -> Self {
        Self { unknown: begun, ..Self::default() }
    }

    /// Takes in a result of an own call.
    pub(crate) fn result(&mut self, tool: &str, arguments: &str, result: &str) {
        let arguments = if has_words(result) { "" } else { arguments };
        self.got_result = true;
        self.got_news |= self.seen.insert(digest(tool, arguments, result));
    }

    /// The own step that was open is over.
    pub(crate) fn end_step(&mut self) {
        if core::mem::take(&mut self.got_result) {
            self.judged = self.judged.saturating_add(1);
            let news = core::mem::take(&mut self.got_news);
            self.stale = self.stale.saturating_add(u64::from(!news));
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

    /// Stale steps of a hundred, rounded down.
    pub(crate) const fn percent(&self) -> u64 {
        match self.stale.saturating_mul(100).checked_div(self.judged) {
            Some(percent) if self.stale >= STALE_MIN_STEPS => percent,
            _ => 0,
        }
    }
}

/// Whether the text has at least [`STALE_MIN_WORDS`] words of letters and digits. O(the first of them).
fn has_words(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(STALE_MIN_WORDS).count() == STALE_MIN_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "one two three four five six seven eight nine ten eleven twelve";

    fn after(steps: &[&[(&str, &str)]]) -> Stale {
        let mut stale = Stale::default();
        for step in steps {
            for (arguments, result) in *step {
                stale.result("tool", arguments, result);
            }
            stale.end_step();
        }
        stale
    }

    #[test]
    fn eleven_words_are_short_and_twelve_are_not() {
        assert!(has_words(LONG));
        assert!(!has_words(LONG.strip_suffix("twelve").unwrap_or("")));
        assert!(has_words("1-2-3-4-5-6-7-8-9-10-11-12"));
        assert!(!has_words("[[[ ((( {{{ ;;; ,,, ... !!! ??? --- === +++ *** ///"));
    }

    #[test]
    fn a_share_is_of_the_steps_that_got_results() {
        let (first, again): (&[_], &[_]) = (&[("a", LONG)], &[("b", LONG)]);
        assert_eq!(after(&[first, again, again]).percent(), 0, "two are too few");
        assert_eq!(after(&[first, again, again, again]).percent(), 75);
        assert_eq!(after(&[first, again, &[], again, again]).percent(), 75);
        assert_eq!(
            after(&[first, again, again, again, &[("b", LONG), ("b", "new")]]).percent(),
            60
        );
    }

    #[test]
    fn a_short_result_is_told_apart_by_its_call() {
        let writes: Vec<&[(&str, &str)]> =
            alloc::vec![&[("a", "ok")], &[("b", "ok")], &[("c", "ok")], &[("d", "ok")]];
        assert_eq!(after(&writes).stale, 0);
        assert_eq!(after(&[writes[0]; 4]).stale, 3);
    }

    use alloc::vec::Vec;
}
