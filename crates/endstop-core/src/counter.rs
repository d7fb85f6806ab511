//! The counters of a run, by name.

/// A counter.
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

impl Counter {
    /// Every counter, in order.
    pub(crate) const ALL: [Self; COUNTERS] = [
        Self::Steps,
        Self::Attempts,
        Self::Retries,
        Self::ToolCalls,
        Self::ToolErrors,
        Self::Errors,
        Self::Messages,
        Self::Tokens,
        Self::InputTokens,
        Self::OutputTokens,
        Self::CachedTokens,
        Self::Cost,
        Self::Subagents,
        Self::Handoffs,
    ];

    /// The name in a saved run. Apart from the cost, it is the gauge's.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Attempts => "attempts",
            Self::Retries => "retries",
            Self::ToolCalls => "tool_calls",
            Self::ToolErrors => "tool_errors",
            Self::Errors => "errors",
            Self::Messages => "messages",
            Self::Tokens => "tokens",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::CachedTokens => "cached_tokens",
            Self::Cost => "cost_picos",
            Self::Subagents => "subagents",
            Self::Handoffs => "handoffs",
        }
    }

    /// Whether it counts tokens of some kind.
    pub(crate) const fn is_of_tokens(self) -> bool {
        matches!(self, Self::Tokens | Self::InputTokens | Self::OutputTokens | Self::CachedTokens)
    }
}
