//! How large the conversation can be as input.

use endstop_core::units::TokenUsage;
use endstop_runtime::{CountedInput, InputBound};

use crate::message::Message;

/// How large the input can be: the known size of the conversation up to a response, and a bound of the rest. Every
/// message is read once.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::agent) struct ContextBound {
    /// Of instructions and tools.
    fixed: u64,
    /// The number of messages whose bound is known.
    seen: usize,
    /// The bound of those, of instructions and of tools, by their bytes.
    bytes: u64,
    /// The provider's count of the messages up to here, the response to them included.
    known: Option<CountedInput>,
}

impl ContextBound {
    pub(in crate::agent) const fn new(fixed: u64) -> Self {
        Self { fixed, seen: 0, bytes: fixed, known: None }
    }

    /// The bound of the conversation as input to the model that counted.
    pub(in crate::agent) fn of(&mut self, messages: &[Message]) -> InputBound {
        self.look_at(messages);
        match self.known {
            Some(known) => {
                InputBound::continued(known.tokens, self.bytes.saturating_sub(known.bytes))
            }
            None => InputBound::of_bytes(self.bytes),
        }
    }

    /// The bound of other messages, or of these as input to another model.
    pub(in crate::agent) fn of_other(
        &mut self,
        messages: &[Message],
        sent: Option<&[Message]>,
    ) -> InputBound {
        self.look_at(messages);
        let bytes = sent.map_or(self.bytes, |sent| self.fixed.saturating_add(bound_of(sent)));
        InputBound::of_another(self.known, bytes)
    }

    /// Adds the messages that are new.
    fn look_at(&mut self, messages: &[Message]) {
        let new = messages.get(self.seen..).unwrap_or(&[]);
        self.bytes = self.bytes.saturating_add(bound_of(new));
        self.seen = messages.len().max(self.seen);
    }

    /// The state at the time of `told`.
    pub(in crate::agent) fn knowing(
        mut self,
        messages: &[Message],
        told: Option<(usize, u64)>,
    ) -> Self {
        if let Some((count, tokens)) = told {
            self.look_at(messages.get(..count).unwrap_or(messages));
            self.known = Some(CountedInput { tokens, bytes: self.bytes });
        }
        self
    }

    /// Records the provider's size of the conversation before its response; the response is the last message. Returns the
    /// part that a saved state keeps.
    pub(in crate::agent) fn learn(
        &mut self,
        messages: &[Message],
        usage: &TokenUsage,
    ) -> (usize, u64) {
        self.look_at(messages);
        let reply = messages.last().map_or(0, Message::token_bound).max(usage.output);
        let tokens = usage.total_input().saturating_add(reply);
        self.known = Some(CountedInput { tokens, bytes: self.bytes });
        (messages.len(), tokens)
    }
}

/// The most tokens of messages by their bytes.
fn bound_of(messages: &[Message]) -> u64 {
    messages.iter().map(Message::token_bound).fold(0, u64::saturating_add)
}
