//! Events that equal the one before, except for their text: almost all of a stream.

use crate::json::{Raw, is_plain};

/// The parts around the text of the last event.
#[derive(Debug, Default)]
pub(crate) struct DeltaTemplate {
    /// Up to the quote before the text; empty without one.
    before: String,
    /// From the quote after them.
    after: String,
}

impl DeltaTemplate {
    /// Keeps the parts around `words`, a string in `data`. Anything else is not kept.
    pub(crate) fn keep(&mut self, data: &str, words: Raw<'_>) {
        self.forget();
        let start = words.json().as_ptr().addr().checked_sub(data.as_ptr().addr());
        let Some(start) = start else { return };
        let first = start.saturating_add(1);
        let last = start.saturating_add(words.json().len()).saturating_sub(1);
        if data.get(first.saturating_sub(1)..=last) == Some(words.json())
            && words.json().starts_with('"')
            && first <= last
        {
            self.before.push_str(data.get(..first).unwrap_or_default());
            self.after.push_str(data.get(last..).unwrap_or_default());
        }
    }

    /// Keeps nothing.
    pub(crate) fn forget(&mut self) {
        self.before.clear();
        self.after.clear();
    }

    /// The words of an event with the same around them. They are no escapes, so that they are what a parser would
    /// find, and it would find nothing else that is new.
    pub(crate) fn words<'e>(&self, data: &'e str) -> Option<&'e str> {
        if self.before.is_empty() {
            return None;
        }
        // The end differs more often.
        let words = data.strip_suffix(&*self.after)?.strip_prefix(&*self.before)?;
        is_plain(words).then_some(words)
    }
}

#[cfg(test)]
mod tests;
