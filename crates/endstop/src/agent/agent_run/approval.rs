//! Asking a person before a run continues.

use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_core::run::Run;
use endstop_core::signal::StopReason;
use endstop_core::units::Money;
use futures_util::future::BoxFuture;

use super::{AgentRun, Flow};
use crate::agent::state::AgentState;
use endstop_runtime::{CancelOn, Waited};

/// The question of a pause rule.
#[derive(Debug)]
pub struct ApprovalRequest<'a> {
    /// The rules that trip, by id.
    pub rules: &'a [String],
    /// Their observation, for people.
    pub message: &'a str,
    /// The run.
    pub state: &'a AgentState,
}

/// The decision of a person.
///
/// See the example of [`Approver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Continue; the rules no longer pause this run.
    Yes,
    /// Continue until `cost` has reached this, or `next_cost` if a rule names it; then the rules ask again. A rule
    /// that names neither is not approved by it, and the run pauses.
    UpTo(Money),
    /// Stop the run.
    No(String),
    /// No decision now: the run pauses and its state can be resumed later.
    Later,
}

/// Decides on runs that a pause rule pauses. Without one they pause.
///
/// A function that does not wait is one:
///
/// ```
/// use endstop::agent::{AgentLoop, Approval, ApprovalRequest};
/// use endstop::core::{Policy, signal::StopReason};
/// use endstop::model::{ScriptedModel, ScriptedResponse};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "[stop]\nsteps = \"steps >= 9\"\n[pause]\nstart = \"steps >= 0\"";
/// let agent = AgentLoop::builder("worker")
///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::text("Done.")))
///     .policy(Policy::from_toml(text)?)
///     .approver(|asked: &ApprovalRequest<'_>| Approval::No(format!("not {}", asked.rules[0])))
///     .build()?;
/// let state = agent.run("Delete everything.").await?;
/// assert_eq!((state.stop_reason(), state.step_count()), (Some(StopReason::StopRequested), 0));
/// # Ok(())
/// # }
/// ```
pub trait Approver: Send + Sync {
    /// Asks. May take as long as it takes; a cancellation of the run ends the wait.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped then, and nothing is approved.
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

impl AgentRun {
    /// Records the approvals that were given while the run was saved.
    pub(super) fn approve_what_was_approved(&mut self) {
        for approval in std::mem::take(&mut self.state.execution.approvals) {
            self.approve(&approval.rule, approval.limit_picos.map(Money::from_picos));
        }
    }

    fn approve(&mut self, rule: &str, limit: Option<Money>) {
        let is_approved = self.run().approve(rule, limit);
        if !is_approved && limit.is_some() {
            let error = format!("`{rule}` is not approved: it has no cost limit to raise");
            if let Some(step) = self.state.execution.steps.last_mut() {
                step.errors.push(error);
            }
        }
    }

    /// Waits until someone outside resumes the run. The state is stored before, because the wait may be long.
    async fn wait_while_paused(&mut self) -> Flow {
        self.run().record_plain(&EventKind::Paused);
        self.flush().await;
        let waited = self.run().wait_while_paused().await;
        self.run().record_plain(&EventKind::Resumed);
        match waited {
            Waited::Done(()) => self.flow(),
            Waited::Aborted => self.checkpoint().await,
        }
    }

    /// Nothing begins: someone outside has paused the run, or a pause rule trips and a person is asked, if one can be.
    pub(in crate::agent) fn resolve_pause(&mut self) -> BoxFuture<'_, Flow> {
        Box::pin(self.wait_or_ask())
    }

    async fn wait_or_ask(&mut self) -> Flow {
        if self.flow() != Flow::Stop && self.run().pause_request().is_some() {
            return self.wait_while_paused().await;
        }
        if self.flow() != Flow::Pause || self.held_up.is_some() {
            return self.flow();
        }
        let approver = self.agent.approver.as_ref().or(self.first.approver.as_ref());
        let Some(approver) = approver.cloned() else { return Flow::Pause };
        self.sync();
        let record = Box::new(self.run().look(Run::trip_record));
        let held = record.rules.iter().filter(|rule| rule.action == Action::Pause && rule.trips);
        let rules: Vec<String> = held.map(|rule| rule.id.clone()).collect();
        let message = record.to_string();
        self.run().record_plain(&EventKind::Paused);
        let request = ApprovalRequest { rules: &rules, message: &message, state: &self.state };
        let mut asking = approver.approve(request);
        let answer = self.run().wait(&mut asking, CancelOn::Any).await;
        drop(asking);
        self.run().record_plain(&EventKind::Resumed);
        match answer {
            Waited::Done(Approval::Yes) => self.approve_all(&rules, None),
            Waited::Done(Approval::UpTo(limit)) => {
                let given = (self.run().budget().settled(), limit);
                if self.last_limit.replace(given) == Some(given) {
                    // The same decision again, and nothing has begun: it would be repeated forever.
                    self.held_up = Some(record);
                    return Flow::Pause;
                }
                self.approve_all(&rules, Some(limit));
                if self.flow() == Flow::Pause {
                    // No rule was approved: the same question is not repeated.
                    self.held_up = Some(record);
                }
            }
            Waited::Done(Approval::No(why)) => {
                self.raise(StopReason::StopRequested, &why, "approval");
            }
            Waited::Done(Approval::Later) => {
                self.held_up = Some(record);
                return Flow::Pause;
            }
            Waited::Aborted => return self.checkpoint().await,
        }
        self.flow()
    }

    fn approve_all(&mut self, rules: &[String], limit: Option<Money>) {
        for rule in rules {
            self.approve(rule, limit);
        }
    }
}
