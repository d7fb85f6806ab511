//! Which gauges and facts all drivers read alike. One table, from which the published list is generated
//! and the differential test of the drivers takes what it generates.

/// Whether the agent loop, the gateway, a dry run and replay read a gauge or a fact alike, so that a rule on it stops
/// the same run at the same step, for the same reason and by the same leaves (docs/semantics.md, section 2).
///
/// ```
/// use endstop_core::condition::GaugeId;
/// use endstop_core::condition::contract::Contract;
///
/// assert!(GaugeId::Steps.row().contract.is_same());
/// assert_eq!(GaugeId::Cost.row().contract, Contract::WorstCase);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contract {
    /// All four read the same.
    Same,
    /// All four read the same spend. A live run also refuses a call by its worst case.
    WorstCase,
    /// Only a live run has it, and `replay --as-live` of its trace.
    Reservation,
    /// All four read the same if the API marks failed tool calls.
    MarkedFailures,
    /// All four read it, at other moments.
    Clock,
    /// The gateway recognizes it by the names of tools.
    ToolNames,
    /// The gateway recognizes it by the path or header of a request.
    NamedSubAgents,
    /// The provider of a subscription reports it to the gateway.
    Plan,
    /// Only a program that drives its own run reports it.
    Program,
    /// It comes from outside at some moment of a live run.
    Outside,
}

impl Contract {
    /// Every value, in the order of the published list.
    pub const ALL: &'static [Self] = &[
        Self::Same,
        Self::WorstCase,
        Self::Reservation,
        Self::MarkedFailures,
        Self::ToolNames,
        Self::NamedSubAgents,
        Self::Clock,
        Self::Plan,
        Self::Program,
        Self::Outside,
    ];

    /// Returns whether all four read the same, in every run.
    #[must_use]
    pub const fn is_same(self) -> bool {
        matches!(self, Self::Same)
    }

    /// Returns which drivers read it, and why they may differ, as a sentence or two.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Same => "All four read the same, and stop alike.",
            Self::WorstCase => {
                "All four read the same spend. A live run also refuses a call by its worst case, \
                 which a dry run and replay do not see: it stops at the same step or earlier. \
                 `replay --as-live` reads the reservations of a trace and stops alike. The loop \
                 and the gateway bound a request differently, so their worst cases differ."
            }
            Self::Reservation => {
                "The loop and the gateway read it while a call is reserved, each with its own bound \
                 of the request. A dry run and the replay of an Endstop trace read what that driver \
                 reserved. Other transcripts do not record it."
            }
            Self::MarkedFailures => {
                "All four read the same with Anthropic messages and Gemini. Chat completions and \
                 responses do not mark a failed tool call: there the gateway counts it as a success. A \
                 call that a hook of the loop blocks is not made, and does not count as a failure; of a \
                 program that blocks calls on its own, the gateway sees a result."
            }
            Self::ToolNames => {
                "The loop reads what a tool returns. The gateway recognizes a handoff by the tool \
                 names `transfer_to_NAME` and `handoff_to_NAME`."
            }
            Self::NamedSubAgents => {
                "The loop reads the sub-agents that it starts, the gateway those that a path or \
                 header names."
            }
            Self::Clock => {
                "All four read it, but time passes differently: the gateway sees tool results only \
                 with the next request, and a trace has no timers."
            }
            Self::Plan => {
                "The gateway reads it from the responses of the provider, as do a dry run and the replay of its \
                 trace. The loop does not read it, and other transcripts do not record it."
            }
            Self::Program => {
                "Only your own program reports it. The gateway does not read it, and replay finds it \
                 only in a trace of such a program."
            }
            Self::Outside => {
                "A person or a program outside sets it. Replay finds it in a trace; a dry run ends \
                 with a cancellation."
            }
        }
    }
}
