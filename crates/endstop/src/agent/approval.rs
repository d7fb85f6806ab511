//! Asking a person before a run goes on.

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
    /// Go on until `cost` has reached this; then the rules ask again.
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
