//! An agent as a tool of another: one ledger, one tree of tokens, one set of observers.
//!
//! A sub-agent is never resumed. If a pause rule of an ancestor trips inside it, it ends with its partial answer, and
//! the ancestor pauses at its own next checkpoint. If its own pause rule trips, it ends too, and the parent's model
//! reads what waits for approval.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use endstop_core::policy::Action;
use endstop_core::run::Status;
use endstop_core::signal::{StopReason, StopSignal};

use super::agent_run::{ChildArgs, child, root_at};
use super::node::AgentNode;
use super::state::AgentState;
use super::{AgentLoop, Iteration};
use crate::message::ToolCall;
use crate::tool::answers::{self, StoppedAgent};
use crate::tool::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};

/// The tool that begins a run of an agent.
struct SubAgent {
    agent: AgentLoop,
    spec: ToolSpec,
}

/// The arguments that the model passes.
#[derive(Deserialize)]
struct Task {
    task: String,
}

impl AgentLoop {
    /// Returns the agent as a tool of another agent, under its own name. Its argument is the `task`, a text.
    ///
    /// A run that the tool begins draws on the ledger of the run that called it, is cancelled with it, is
    /// watched by the same observers, and counts in the limits of every run above it. When it is stopped,
    /// the model of the parent reads why, with what there is of an answer.
    ///
    /// The agent's own kill switch, token and sources end its runs here too. Its observers and its store are not
    /// used: the root run uses its own. A call to an agent with a budget or accounts that the calling run does not
    /// draw on as well fails, because they could not bind it.
    #[must_use]
    pub fn as_tool(&self, description: impl Into<String>) -> Arc<dyn Tool> {
        let parameters = json!({
            "type": "object",
            "properties": {
                "task": { "type": "string", "description": "What to do, with all that is needed to know." }
            },
            "required": ["task"],
            "additionalProperties": false
        });
        let name = self.name().to_owned();
        let spec = ToolSpec { name, description: description.into(), parameters };
        Arc::new(SubAgent { agent: self.clone(), spec })
    }
}

impl Tool for SubAgent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(
        self: Arc<Self>,
        call: ToolCall,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        async move {
            let task: Task = serde_json::from_str(&call.arguments)?;
            let state = AgentState::with_prompt(task.task);
            let run = match AgentNode::caller(&context) {
                None => root_at(&self.agent.0, state, Some(&context.cancel), None)?,
                Some(parent) => {
                    let own = self.agent.0.budget.as_ref();
                    if let Some(own) = own.filter(|own| !parent.run.budget().is_within(own)) {
                        return Err(ToolError::failed(format!(
                            "`{}` cannot run here: its budget ({own:?}) is not one of the run that called it",
                            self.agent.name()
                        )));
                    }
                    let own = self.agent.0.accounts.as_ref();
                    if own.is_some_and(|own| !parent.run.draws_on(own)) {
                        return Err(ToolError::failed(format!(
                            "`{}` cannot run here: the run that called it does not draw on its accounts",
                            self.agent.name()
                        )));
                    }
                    let token = context.cancel.child();
                    child(&self.agent.0, state, ChildArgs { parent, token })
                }
            };
            let mut iteration = Iteration::new(run);
            while iteration.advance().await {}
            let state = iteration.into_state();
            let is_failed = state.status() == Status::Failed;
            let text = answer_of(&self.agent, &state);
            Ok(ToolOutput { is_failed, ..ToolOutput::text(text) })
        }
        .boxed()
    }

    fn is_agent(&self) -> bool {
        true
    }
}

/// The answer for the parent's model.
fn answer_of(agent: &AgentLoop, state: &AgentState) -> String {
    match state.final_response() {
        Some(text) if state.status() == Status::Completed => text.to_owned(),
        _ => {
            let signal = if state.status() == Status::Paused {
                let why = what_it_waits_for(agent, state);
                Some(StopSignal::new(StopReason::StopRequested).with_message(why))
            } else {
                state.last_stop_signal().cloned()
            };
            answers::stopped_agent(&StoppedAgent {
                agent: agent.name(),
                signal: &signal.unwrap_or_else(|| StopSignal::new(StopReason::Unknown)),
                limit: limit_of(state).unwrap_or(""),
                steps: state.step_count(),
                tokens: state.usage().total(),
                cost: state.cost(),
                partial: state.current_response().unwrap_or(""),
            })
        }
    }
}

/// A sub-agent is not resumed: what its pause rules ask is for the parent's model to settle otherwise.
fn what_it_waits_for(agent: &AgentLoop, state: &AgentState) -> String {
    let policy = agent.0.program.policy();
    let rules = state.execution.trip_record.iter().flat_map(|record| &record.rules);
    let holding = rules.filter(|rule| rule.action == Action::Pause && rule.trips);
    let texts = holding.filter_map(|rule| policy.rule(&rule.id));
    let texts: Vec<String> =
        texts.map(|rule| format!("`{}` ({})", rule.id, rule.condition)).collect();
    format!("paused, waits for the approval of a person: {}", texts.join(", "))
}

/// The condition that stopped the run, as written.
fn limit_of(state: &AgentState) -> Option<&str> {
    state.execution.trip_record.as_ref()?.terminated_by.as_deref()
}
