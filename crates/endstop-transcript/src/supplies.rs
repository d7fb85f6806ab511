//! The data that the formats have.

/// The data that a format has. A rule on a gauge that is not supplied cannot be tested on its runs.
///
/// Steps, tool calls, their arguments and results, the text of model responses and user turns are always supplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supplies {
    /// Token counts of each model call.
    pub tokens: bool,
    /// Money of each model call, billed or through the price table.
    pub money: bool,
    /// Times: `elapsed`, `active`, `idle`, `now`.
    pub time: bool,
    /// Whether a tool call failed: `tool_errors`, and with attempts `errors`.
    pub tool_failures: bool,
    /// Failed model requests: `attempts` beyond the steps, `retries`.
    pub retries: bool,
    /// The provider's finish reason: `finished`.
    pub finish: bool,
    /// Sub-agents: `subagents`, `depth`.
    pub subagents: bool,
    /// Everything else that a live run reports: facts, signals, hand-offs, approvals.
    pub interventions: bool,
}

impl Supplies {
    /// Nothing beyond what is always supplied.
    pub(crate) const NONE: Self = Self {
        tokens: false,
        money: false,
        time: false,
        tool_failures: false,
        retries: false,
        finish: false,
        subagents: false,
        interventions: false,
    };

    /// Usage, cost and times of calls.
    pub(crate) const USAGE_AND_TIME: Self =
        Self { tokens: true, money: true, time: true, ..Self::NONE };

    /// All that is known of model calls and tool calls.
    pub(crate) const EVERY_CALL: Self = Self {
        tool_failures: true,
        retries: true,
        finish: true,
        subagents: true,
        ..Self::USAGE_AND_TIME
    };
}
