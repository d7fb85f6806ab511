//! One step: one model call and the tool calls that it asks for.

use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::units::Cost;
use tokio::time::Instant;

use super::{About, AgentRun, Flow};
use crate::agent::hooks::Trigger;
use crate::agent::state::{OpenStep, Step};
use crate::message::Message;
use crate::observe::Detail;
use endstop_runtime::{CallPlan, Charge, DEFAULT_MAX_OUTPUT_TOKENS, Pricing, WRAP_UP_NOTE};

impl AgentRun {
    /// Takes one step, or continues an interrupted one.
    pub(in crate::agent) async fn step(&mut self) -> Flow {
        let begun = Instant::now();
        match self.state.execution.open_step.take() {
            None => {
                // Of a step that was closed when its process was found dead.
                self.hand_off();
                if self.before_step().await != Flow::On {
                    return self.flow();
                }
                self.uses_retry_model = false;
                loop {
                    if self.wait_for_others().await != Flow::On {
                        return self.flow();
                    }
                    match self.begin_step() {
                        Flow::On => break,
                        Flow::Pause if self.resolve_pause().await == Flow::On => {}
                        flow => return flow,
                    }
                }
                self.model_phase().await;
            }
            Some(OpenStep::Model) => self.model_phase().await,
            Some(OpenStep::Tools) => {}
        }
        while self.flow() == Flow::Pause {
            if self.is_interrupted().await {
                self.count_time(begun);
                return Flow::Pause;
            }
            if self.flow() == Flow::On && !self.has_reply() {
                self.model_phase().await;
            }
        }
        let calls = self.state.unanswered();
        if !calls.is_empty() && self.answer_calls(calls).await == Flow::Pause {
            self.state.execution.open_step = Some(OpenStep::Tools);
            self.count_time(begun);
            return Flow::Pause;
        }
        self.end_step(begun).await
    }

    /// A pause in the middle of the step that is not resolved.
    async fn is_interrupted(&mut self) -> bool {
        if self.resolve_pause().await != Flow::Pause {
            return false;
        }
        let open = if self.has_reply() { OpenStep::Tools } else { OpenStep::Model };
        self.state.execution.open_step = Some(open);
        true
    }

    fn has_reply(&self) -> bool {
        self.state.execution.steps.last().is_some_and(|step| step.reply.is_some())
    }

    async fn before_step(&mut self) -> Flow {
        if self.checkpoint().await != Flow::On {
            return self.flow();
        }
        self.hooks(Trigger::BeforeStep, About::default()).await;
        self.note_warnings();
        self.checkpoint().await
    }

    /// Admits the step, for the run and its ancestors.
    fn begin_step(&mut self) -> Flow {
        let agent = std::sync::Arc::clone(&self.agent);
        let plan = self.plan(&agent.pricing, None);
        let directive = self.run().begin_step(&plan);
        if !directive.admits() {
            return self.flow();
        }
        let is_wrap_up = directive == Directive::Finish;
        if is_wrap_up {
            self.state.messages.push(Message::system(WRAP_UP_NOTE));
        }
        let number = u64::try_from(self.state.execution.steps.len()).unwrap_or(u64::MAX);
        let step = Step {
            number: number.saturating_add(1),
            agent: self.agent.name.clone(),
            at_ms: self.run().look(|run| run.at().0),
            cost_picos: Some(0),
            is_wrap_up,
            ..Step::default()
        };
        self.state.execution.steps.push(step);
        Flow::On
    }

    /// The plan of the next call.
    pub(super) fn plan<'p>(
        &mut self,
        pricing: &'p Pricing,
        messages: Option<&[Message]>,
    ) -> CallPlan<'p> {
        let is_other = messages.is_some() || self.uses_retry_model;
        let input = if is_other {
            self.context.of_other(&self.state.messages, messages)
        } else {
            self.context.of(&self.state.messages)
        };
        let of_model = self.model().max_output_tokens();
        let max_output = match (self.agent.max_output_tokens, of_model) {
            (Some(agent), Some(model)) => agent.min(model),
            (agent, model) => agent.or(model).unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS),
        };
        let is_wrap_up = self.state.execution.steps.last().is_some_and(|step| step.is_wrap_up);
        CallPlan {
            pricing,
            input,
            tool_input: 0,
            max_output,
            min_output: self.run().min_output_tokens(),
            is_wrap_up,
            // Hooks may change the conversation after the step has begun.
            is_final: false,
            takes_share: false,
            accounts: None,
        }
    }

    /// Closes the step: it counts, whatever cut it short, and so does what it spent.
    async fn end_step(&mut self, begun: Instant) -> Flow {
        self.hand_off();
        // A cancellation during the last step is seen before the step can end the run naturally.
        self.checkpoint().await;
        let took = self.count_time(begun);
        self.state.execution.messages_told = self.state.messages.len();
        self.run().record(&EventKind::StepEnd, Detail::Step { took });
        self.flush().await;
        self.hooks(Trigger::AfterStep, About::default()).await;
        self.flow()
    }

    /// Adds the time since then to the step's record, and gives it.
    fn count_time(&mut self, begun: Instant) -> Duration {
        let took = begun.elapsed();
        if let Some(step) = self.state.execution.steps.last_mut() {
            step.took_ms = step.took_ms.saturating_add(endstop_runtime::clock::millis(took));
        }
        took
    }

    /// Adds a charge to the step's record.
    pub(super) fn count_spent(&mut self, charge: &Charge) {
        let Some(step) = self.state.execution.steps.last_mut() else { return };
        step.usage = step.usage.checked_add(&charge.usage).unwrap_or(step.usage);
        step.cost_picos = match (step.cost_picos, charge.cost) {
            (Some(sum), Cost::Known(cost)) => sum.checked_add(cost.picos()),
            _ => None,
        };
        step.is_estimate |= charge.is_estimate;
    }
}
