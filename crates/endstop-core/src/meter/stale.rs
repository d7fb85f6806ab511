//! The share of steps that got only what was already seen: the gauge `stale`.
//!
//! It is a separate gauge, so `no_progress(n)` keeps its simple meaning. `no_progress()` without a number combines
//! both at limits that were measured (docs/detection.md).

use alloc::boxed::Box;

use super::results::{Seen, digest};

/// A result of fewer words says too little to be recognised by itself: `ok`, an empty list, a count. Twice
/// the same one is the same only if the call was the same, so that three writes that all say `ok` are three
/// results. The number is that of the shortest reply that can be a near-duplicate.
const MIN_WORDS: usize = 12;
/// Looking at something again, and once more, is checking; a share of fewer steps is not a share.
const MIN_STEPS: u64 = 3;

/// Steps since the user last spoke, and what they got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    /// What was seen since the user last spoke.
    pub(crate) seen: Box<Seen>,
    /// Steps that got results.
    pub(crate) judged: u64,
    /// Those of them that got nothing else than what was already seen.
    pub(crate) stale: u64,
    /// Whether the open step got a result, and one that was not seen before.
    pub(crate) got_result: bool,
    pub(crate) got_news: bool,
    /// What the user has been told since is not known: the run was restored from a state without this.
    pub(crate) unknown: bool,
}

impl Stale {
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

    /// Stale steps of a hundred, rounded down.
    pub(crate) fn percent(&self) -> u64 {
        if self.stale < MIN_STEPS {
            return 0;
        }
        self.stale.saturating_mul(100).checked_div(self.judged).unwrap_or(0)
    }
}

/// Whether the text has at least [`MIN_WORDS`] words of letters and digits. O(the first of them).
fn has_words(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(MIN_WORDS).count() == MIN_WORDS
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
