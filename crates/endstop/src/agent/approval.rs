//! Asking a person before a run goes on.

use endstop_core::condition::{Condition, GaugeId};
use endstop_core::event::Cap;
use endstop_core::policy::Rule;
use endstop_core::units::Money;
use futures_util::future::BoxFuture;

use super::state::AgentState;

/// What a pause rule asks.
#[derive(Debug)]
pub struct ApprovalRequest<'a> {
    /// The rules that hold, by id.
    pub rules: &'a [String],
    /// What they observed, for people.
    pub message: &'a str,
    /// The run.
    pub state: &'a AgentState,
}

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Go on; the rules no longer hold up this run.
    Yes,
    /// Go on until `cost` has reached this, or `next_cost` where a rule names it; then the rules ask again.
    UpTo(Money),
    /// Stop the run.
    No(String),
    /// Nobody decides now: the run pauses and its state can be resumed later.
    Later,
}

/// Decides on runs that a pause rule holds up. Without one they pause.
pub trait Approver: Send + Sync {
    /// Asks. May take as long as it takes; a cancellation of the run ends the wait.
    fn approve<'a>(&'a self, request: ApprovalRequest<'a>) -> BoxFuture<'a, Approval>;
}

impl<F> Approver for F
where
    F: for<'a> Fn(&ApprovalRequest<'a>) -> Approval + Send + Sync,
{
    fn approve<'a>(&'a self, request: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        let answer = self(&request);
        Box::pin(std::future::ready(answer))
    }
}

/// The events' caps that an approval of a rule is told with: one for each gauge of money in it.
pub(super) fn caps_of(rule: Option<&Rule>, cap: Option<Money>) -> Vec<Option<Cap<'static>>> {
    let Some(limit) = cap.map(Money::picos) else { return vec![None] };
    let names = |id| rule.is_some_and(|rule| names(&rule.condition, id));
    let gauges = [(GaugeId::Cost, "cost"), (GaugeId::NextCost, "next_cost")];
    let named = gauges.into_iter().filter(|(id, _)| names(*id));
    let caps: Vec<_> = named.map(|(_, gauge)| Some(Cap { gauge, limit })).collect();
    if caps.is_empty() { vec![None] } else { caps }
}

/// Recursion is bounded by the depth that a policy may have.
fn names(condition: &Condition, id: GaugeId) -> bool {
    match condition {
        Condition::Compare(comparison) => comparison.gauge.id == id,
        Condition::Fact(_) => false,
        Condition::Not(inner) => names(inner, id),
        Condition::And(parts) | Condition::Or(parts) => parts.iter().any(|part| names(part, id)),
        Condition::Named(named) => names(named.expansion(), id),
        Condition::Temporal(temporal) => temporal.parts().into_iter().any(|part| names(part, id)),
    }
}
