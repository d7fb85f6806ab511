//! The responses of a run that a later request may continue, by their ids, with the tokens of the conversation so far.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::limits::{MAX_RESPONSE_ID, MAX_RESPONSES};

/// ResponseHistory that were counted.
#[derive(Debug, Default)]
pub(crate) struct ResponseHistory(Mutex<VecDeque<(Box<str>, u64)>>);

impl ResponseHistory {
    /// Remembers a response with its input and output in tokens.
    pub(crate) fn remember(&self, id: &str, tokens: u64) {
        if id.len() > MAX_RESPONSE_ID {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| **known != *id);
        if all.len() >= MAX_RESPONSES {
            all.pop_front();
        }
        all.push_back((id.into(), tokens));
    }

    /// Returns the tokens of a conversation up to this response.
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
        let history = ResponseHistory::default();
        (0..300).for_each(|n| history.remember(&n.to_string(), n));
        history.remember("299", 7);
        history.remember(&"a".repeat(600), 1);
        assert_eq!([0, 43].map(|n: u64| history.tokens(&n.to_string())), [None; 2]);
        assert_eq!([44, 299].map(|n: u64| history.tokens(&n.to_string())), [Some(44), Some(7)]);
    }
}
