//! Counters: what has been counted, in all and by the run itself.

use crate::units::{Money, TokenUsage};

/// A counter, as an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counter {
    Steps,
    Attempts,
    Retries,
    ToolCalls,
    ToolErrors,
    Errors,
    Messages,
    Tokens,
    InputTokens,
    OutputTokens,
    CachedTokens,
    Cost,
    Subagents,
    Handoffs,
}

pub(crate) const COUNTERS: usize = 14;

/// The names of the counters in a saved state, in the order of [`Counter`].
pub(crate) const NAMES: [&str; COUNTERS] = [
    "steps",
    "attempts",
    "retries",
    "tool_calls",
    "tool_errors",
    "errors",
    "messages",
    "tokens",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost_picos",
    "subagents",
    "handoffs",
];

/// An amount did not fit 64 bits: the run's books can no longer be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// One set of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters(pub(crate) [u64; COUNTERS]);

impl Counters {
    #[inline]
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.at(counter as usize)
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// Adds; on overflow the counter stays at its largest value.
    pub(crate) fn add(&mut self, counter: Counter, amount: u64) -> Result<(), Overflow> {
        let Some(slot) = self.0.get_mut(counter as usize) else { return Ok(()) };
        match slot.checked_add(amount) {
            Some(sum) => {
                *slot = sum;
                Ok(())
            }
            None => {
                *slot = u64::MAX;
                Err(Overflow)
            }
        }
    }

    pub(crate) fn add_usage(&mut self, usage: &TokenUsage) -> Result<(), Overflow> {
        let results = [
            self.add(Counter::Tokens, usage.total()),
            self.add(Counter::InputTokens, usage.total_input()),
            self.add(Counter::OutputTokens, usage.output),
            self.add(Counter::CachedTokens, usage.cache_read),
        ];
        if usage.total() == u64::MAX || results.contains(&Err(Overflow)) {
            Err(Overflow)
        } else {
            Ok(())
        }
    }

    pub(crate) fn add_cost(&mut self, cost: Money) -> Result<(), Overflow> {
        self.add(Counter::Cost, cost.picos())
    }
}
