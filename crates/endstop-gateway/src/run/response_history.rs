//! The answers of a run that a later request may go on from: by their ids, with the tokens that stand behind them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Most answers of a run that are known; the oldest is forgotten first.
const MAX_ANSWERS: usize = 256;
/// Longest id that is known, in bytes.
const MAX_ID: usize = 512;

/// Answers that were counted.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<VecDeque<(Box<str>, u64)>>);

impl Answers {
    /// An answer that was counted: its input and output in tokens.
    pub(crate) fn keep(&self, id: &str, tokens: u64) {
        if id.len() > MAX_ID {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| **known != *id);
        if all.len() >= MAX_ANSWERS {
            all.pop_front();
        }
        all.push_back((id.into(), tokens));
    }

    /// The tokens of a conversation up to this answer.
    pub(crate) fn tokens(&self, id: &str) -> Option<u64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().find(|(known, _)| **known == *id).map(|(_, tokens)| *tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_answers_are_known_with_their_tokens() {
        let answers = Answers::default();
        (0..300).for_each(|n| answers.keep(&n.to_string(), n));
        answers.keep("299", 7);
        answers.keep(&"a".repeat(600), 1);
        assert_eq!([0, 43].map(|n: u64| answers.tokens(&n.to_string())), [None; 2]);
        assert_eq!([44, 299].map(|n: u64| answers.tokens(&n.to_string())), [Some(44), Some(7)]);
    }
}
