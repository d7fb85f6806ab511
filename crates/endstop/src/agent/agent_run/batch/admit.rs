//! Whether a tool call may begin.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::units::Money;
use endstop_runtime::{CancelOn, OpenToolCall, ShownAccountWait, ToolNotBegun};

use super::super::{About, AgentRun, Flow};
use crate::agent::hooks::Trigger;
use crate::message::{ToolCall, ToolOutcome};
use crate::observe::Detail;
use crate::tool::answers;

/// Why a call does not begin.
pub(super) enum Refusal {
    Paused,
    /// There is no such tool, or not with such arguments. The call counts, as one that failed.
    Failed(ToolOutcome, String),
    Answer(ToolOutcome, String),
}

impl AgentRun {
    /// Like [`AgentRun::admit`], but asks a person first if possible.
    pub(super) async fn admit_or_ask(&mut self, call: &ToolCall) -> Result<OpenToolCall, Refusal> {
        self.checkpoint().await;
        loop {
            match self.admit(call).await {
                Err(Refusal::Paused) => match self.resolve_pause().await {
                    Flow::On => {}
                    Flow::Pause => return Err(Refusal::Paused),
                    Flow::Stop => return Err(self.not_executed(&call.tool)),
                },
                admitted => return admitted,
            }
        }
    }

    /// Whether the call may begin: tool, arguments, hooks, limits, in this order.
    async fn admit(&mut self, call: &ToolCall) -> Result<OpenToolCall, Refusal> {
        match self.flow() {
            // Hooks see the call once it can begin.
            Flow::On if self.run().pause_request().is_none() => {}
            Flow::On | Flow::Pause => return Err(Refusal::Paused),
            Flow::Stop => return Err(self.not_executed(&call.tool)),
        }
        let agent = Arc::clone(&self.agent);
        let Some(entry) = agent.tools.get(&call.tool) else {
            let known: Vec<&str> = agent.tools.specs().iter().map(|s| s.name.as_str()).collect();
            let text = answers::unknown_tool(&call.tool, &agent.tools.nearest(&call.tool), &known);
            self.begin_tool_call(call)?;
            return Err(Refusal::Failed(ToolOutcome::Unknown, text));
        };
        if let Err(why) = entry.schema.check(&call.arguments) {
            let text = answers::invalid_arguments(&call.tool, &why.to_string());
            self.begin_tool_call(call)?;
            return Err(Refusal::Failed(ToolOutcome::Invalid, text));
        }
        let about = About { call: Some(call), ..About::default() };
        let asked = self.hooks(Trigger::BeforeToolUse, about).await;
        if let Some((hook, why)) = asked.blocked {
            let text = answers::blocked(&call.tool, &hook, &why);
            return Err(Refusal::Answer(ToolOutcome::Blocked, text));
        }
        if self.checkpoint().await == Flow::Stop {
            return Err(self.not_executed(&call.tool));
        }
        if entry.tool.is_agent()
            && let Some(refusal) = self.child_refusal(call)
        {
            return Err(refusal);
        }
        self.begin_with_cost(call, entry.tool.cost_at_most()).await
    }

    /// Begins a call when those in flight leave enough for the most that it can cost. They finish in the meantime.
    async fn begin_with_cost(
        &mut self,
        call: &ToolCall,
        most: Option<Money>,
    ) -> Result<OpenToolCall, Refusal> {
        let mut account_wait = ShownAccountWait::default();
        loop {
            let detail = Detail::Tool { call, outcome: None, took: Duration::ZERO };
            match self.run().begin_tool_call_at_most(&call.tool, most, detail) {
                Ok(open) => return Ok(open),
                Err(ToolNotBegun::Refused(directive)) => return Err(self.refusal(call, directive)),
                Err(ToolNotBegun::OthersHold) => {
                    account_wait.end();
                    Box::pin(self.run().wait_for_others(pending(), CancelOn::Any)).await;
                }
                Err(ToolNotBegun::AwaitsAccount(wait)) if wait.is_over() => {
                    self.run().give_up_on_account(&wait);
                }
                Err(ToolNotBegun::AwaitsAccount(wait)) => {
                    account_wait.show(self.run(), &wait);
                    Box::pin(self.run().wait_for_account(&wait)).await;
                }
            }
            match self.checkpoint().await {
                Flow::On => {}
                Flow::Pause => return Err(Refusal::Paused),
                Flow::Stop => return Err(self.not_executed(&call.tool)),
            }
        }
    }

    /// Why a sub-agent may not begin. Asked before the call counts: what is refused was not dispatched, and
    /// what waits for a person can still be made.
    fn child_refusal(&self, call: &ToolCall) -> Option<Refusal> {
        let depth = self.run().info().depth.saturating_add(1);
        let begin = EventKind::ChildBegin { depth };
        let directive = self.run().refusal_of(&begin, Detail::Child { agent: &call.tool })?;
        Some(self.refusal(call, directive))
    }

    fn begin_tool_call(&mut self, call: &ToolCall) -> Result<(), Refusal> {
        let detail = Detail::Tool { call, outcome: None, took: Duration::ZERO };
        let directive = self.run().begin_tool_call(&call.tool, detail);
        if directive.admits() { Ok(()) } else { Err(self.refusal(call, directive)) }
    }

    fn refusal(&self, call: &ToolCall, directive: Directive) -> Refusal {
        match directive {
            Directive::Pause => Refusal::Paused,
            _ => Refusal::Answer(ToolOutcome::Refused, self.refused_text(&call.tool)),
        }
    }

    /// Which limit refused the call, for the model.
    pub(super) fn refused_text(&self, tool: &str) -> String {
        let (record, program, finishing) = self.run().look(|run| {
            (run.trip_record(), Arc::clone(run.program()), run.finishing().map(str::to_owned))
        });
        let rule = record.rule.as_deref().or(finishing.as_deref());
        let condition =
            rule.and_then(|id| program.policy().rule(id)).map(|r| r.condition.to_string());
        let now = record.primary.map(|signal| signal.message).unwrap_or_default();
        answers::refused(tool, rule.unwrap_or(""), &condition.unwrap_or_default(), &now)
    }

    fn not_executed(&self, tool: &str) -> Refusal {
        let text = answers::not_executed(tool, &self.why_stopped());
        Refusal::Answer(ToolOutcome::NotExecuted, text)
    }
}
