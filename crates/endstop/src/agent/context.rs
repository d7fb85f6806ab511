//! How large the conversation can be as input.

use endstop_core::units::TokenUsage;

use crate::message::Message;

/// How large the input can be: the known size of the conversation up to a reply, and a bound of the rest. Every
/// message is read once.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::agent) struct ContextBound {
    /// Of instructions and tools.
    fixed: u64,
    /// Messages read so far, and their bound.
    seen: usize,
    bound: u64,
    /// The size that the provider reported for the messages up to here, the reply to them included.
    known: Option<(u64, u64)>,
}

impl ContextBound {
    pub(in crate::agent) const fn new(fixed: u64) -> Self {
        Self { fixed, seen: 0, bound: 0, known: None }
    }

    /// The most tokens that the conversation is as input to the model that reported a size. Before the first report,
    /// bytes are the only measure, and a template that the provider adds unseen can be longer.
    pub(in crate::agent) fn of(&mut self, messages: &[Message]) -> u64 {
        let new = messages.get(self.seen..).unwrap_or(&[]);
        let added = new.iter().map(Message::token_bound).fold(0, u64::saturating_add);
        self.bound = self.bound.saturating_add(added);
        self.seen = messages.len().max(self.seen);
        match self.known {
            // Even if it is more than the bytes: the provider counts text that is invisible here.
            Some((tokens, bound)) => tokens.saturating_add(self.bound.saturating_sub(bound)),
            None => self.fixed.saturating_add(self.bound),
        }
    }

    /// The most tokens that other messages are, or these to another model: a saving by one tokenizer is not assumed
    /// again, but tokens counted beyond the bytes may occur again.
    pub(in crate::agent) fn of_other(
        &mut self,
        messages: &[Message],
        sent: Option<&[Message]>,
    ) -> u64 {
        self.of(messages);
        let unseen = self.told(true);
        let bytes = sent.map_or(self.bound, |sent| {
            sent.iter().map(Message::token_bound).fold(0, u64::saturating_add)
        });
        self.fixed.saturating_add(bytes).saturating_add(unseen)
    }

    /// The part of that bound that a provider has counted: for other messages or another model, its count beyond the
    /// bytes.
    pub(in crate::agent) fn told(&self, is_other: bool) -> u64 {
        let Some((tokens, bound)) = self.known else { return 0 };
        let bytes = if is_other { self.fixed.saturating_add(bound) } else { 0 };
        tokens.saturating_sub(bytes)
    }

    /// As it was when `told` was learned.
    pub(in crate::agent) fn knowing(
        mut self,
        messages: &[Message],
        told: Option<(usize, u64)>,
    ) -> Self {
        if let Some((count, tokens)) = told {
            self.of(messages.get(..count).unwrap_or(messages));
            self.known = Some((tokens, self.bound));
        }
        self
    }

    /// Records the provider's size of the conversation before its reply; the reply is the last message. Returns the
    /// part that a saved state keeps.
    pub(in crate::agent) fn learn(
        &mut self,
        messages: &[Message],
        usage: &TokenUsage,
    ) -> (usize, u64) {
        self.of(messages);
        let reply = messages.last().map_or(0, Message::token_bound).max(usage.output);
        let tokens = usage.total_input().saturating_add(reply);
        self.known = Some((tokens, self.bound));
        (messages.len(), tokens)
    }
}
