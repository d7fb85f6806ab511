//! The ways to continue after a stop, for people.

use std::fmt;

use endstop_core::signal::{BUDGET_SOURCE, StopReason, StopSignal};

use crate::account::RESET_KEY;

/// The key in the context of a budget's signal that says whose limit it is.
pub(crate) const OWNER_KEY: &str = "owner";
/// Its value for the budget that all runs share.
pub(crate) const ALL_RUNS: &str = "all_runs";

/// What to do to continue after a run was stopped. As text it ends the sentence "To continue, …".
///
/// ```
/// use endstop_core::signal::{StopReason, StopSignal};
/// use endstop_runtime::observe::Remedy;
///
/// let signal = StopSignal::new(StopReason::StepsLimitReached);
/// let remedy = Remedy::of(&signal).unwrap();
/// assert_eq!(remedy, Remedy::RaiseLimit);
/// assert_eq!(remedy.to_string(), "raise the limit or start a new run");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// A limit of the run itself stopped it.
    RaiseLimit,
    /// The total of all runs is used up: a new run is refused as well.
    RaiseTotal,
    /// A budget over time is full, and this call fits once its window resets.
    AwaitReset,
    /// A budget over time is full, or too small for this call.
    RaiseBudget,
    /// A cost limit met a model without a price.
    SetPrice,
    /// Only another run continues.
    NewRun,
}

impl Remedy {
    /// Returns the remedy for a stop; `None` if the signal says nothing about it.
    #[must_use]
    pub fn of(signal: &StopSignal) -> Option<Self> {
        use StopReason as Reason;
        match signal.reason {
            Reason::CostLimitReached if is_for_want_of_a_price(&signal.message) => {
                Some(Self::SetPrice)
            }
            Reason::StepsLimitReached
            | Reason::ToolCallsLimitReached
            | Reason::MessagesLimitReached
            | Reason::CostLimitReached
            | Reason::TokenLimitReached
            | Reason::TimeLimitReached
            | Reason::RetryLimitReached => Some(Self::of_limit(signal)),
            Reason::UserRequested | Reason::ErrorForbade | Reason::NoProgress => Some(Self::NewRun),
            _ => None,
        }
    }

    fn of_limit(signal: &StopSignal) -> Self {
        let is_of_account = signal.source.as_deref().and_then(|it| it.strip_prefix(BUDGET_SOURCE));
        match is_of_account {
            Some(name) if name.starts_with(':') => {
                let resets = signal.context.get(RESET_KEY).is_some_and(|at| at.is_u64());
                if resets { Self::AwaitReset } else { Self::RaiseBudget }
            }
            Some(_) if signal.context.get(OWNER_KEY).is_some_and(|it| it == ALL_RUNS) => {
                Self::RaiseTotal
            }
            _ => Self::RaiseLimit,
        }
    }
}

/// Whether a cost limit met a call without a price. Only the message of a signal says that.
fn is_for_want_of_a_price(message: &str) -> bool {
    ["needs a price", "has no price"].iter().any(|text| message.contains(text))
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RaiseLimit => "raise the limit or start a new run",
            Self::RaiseTotal => "raise the total of all runs",
            Self::AwaitReset => "wait until the budget resets, and start a new run",
            Self::RaiseBudget => "raise the budget, and start a new run",
            Self::SetPrice => {
                "give the model a price (`--unpriced 3,15`, or `on_unpriced` in a policy), and start a new run"
            }
            Self::NewRun => "start a new run",
        })
    }
}

#[cfg(test)]
mod tests;
