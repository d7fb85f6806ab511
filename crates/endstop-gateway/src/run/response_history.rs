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
mod tests;
