//! The model phase of a step: attempts, streaming, settling.

mod beside_others;
mod failure;

use std::collections::BTreeSet;
use std::future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::run::Directive;
use endstop_core::units::TokenUsage;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::Instant;

use failure::{do_not_send, panicked};

use super::{About, AgentRun, Flow};
use crate::agent::hooks::Trigger;
use crate::agent::retry::{BreakerDecision, CircuitBreaker, Trial};
use crate::limits::{MAX_CALLS_OF_REPLY, MAX_REPLY_BYTES};
use crate::message::{Message, TOKENS_PER_CALL, ToolCall};
use crate::model::{
    Model, ModelEnd, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ToolChoice,
};
use endstop_price::ReportedUsage;
use endstop_runtime::{
    CancelOn, Charge, OpenCall, Outcome, Pricing, Received, ResponseReport, Waited,
};

/// The result of a response. It is boxed, because it is handed on several times in each step.
#[derive(Default)]
struct AttemptResult {
    text: String,
    calls: Vec<ToolCall>,
    reasoning_bytes: usize,
    /// The last report of its usage before its end.
    reported: Option<Box<ReportedUsage>>,
    first_piece_after: Option<Duration>,
    end: Option<Box<ModelEnd>>,
    error: Option<ModelError>,
    /// The run has stopped in the middle.
    is_cut: bool,
    /// The request is on its way.
    is_sent: bool,
}

impl AttemptResult {
    /// The received part. A stream that is dropped is closed.
    fn received(&self) -> Received {
        let bytes_of = |call: &ToolCall| call.tool.len() + call.arguments.len() + TOKENS_PER_CALL;
        let calls = self.calls.iter().map(bytes_of);
        let bytes = self.text.len() + self.reasoning_bytes + calls.sum::<usize>();
        Received {
            usage: self.reported.as_ref().map(|reported| reported.tokens),
            output_bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            is_stream: true,
            ..Received::default()
        }
    }

    /// The charge for the answer, if it did not fail.
    fn charge(&self, call: &OpenCall, end: &ModelEnd) -> Charge {
        if self.is_cut && !self.is_sent {
            return Charge::NONE;
        }
        let report = ResponseReport {
            usage: end.usage.as_ref().or(self.reported.as_deref()),
            model: end.model.as_deref(),
            is_complete: !self.is_cut,
        };
        call.charge(&self.received(), &report)
    }
}

/// The known facts of an attempt that has begun. The call is boxed: it is handed on several times in each step.
struct Attempt {
    call: Box<OpenCall>,
    trial: Trial,
    /// Requests that failed one after the other before this one.
    failed: u32,
}

impl AgentRun {
    pub(super) fn model(&self) -> &Arc<dyn Model> {
        match &self.agent.retry_model {
            Some(model) if self.uses_retry_model => model,
            _ => &self.agent.model,
        }
    }

    fn pricing(agent: &crate::agent::Inner, uses_retry_model: bool) -> &Pricing {
        agent.retry_pricing.as_ref().filter(|_| uses_retry_model).unwrap_or(&agent.pricing)
    }

    /// Asks until there is a response, or the run ends or pauses.
    pub(super) async fn model_phase(&mut self) {
        let agent = Arc::clone(&self.agent);
        let mut failed = 0u32;
        let mut is_repeated = false;
        loop {
            if self.checkpoint().await != Flow::On {
                return;
            }
            let Some(trial) = self.breaker_lets().await else { return };
            let asked = self.hooks(Trigger::BeforeModelRequest, About::default()).await;
            if self.checkpoint().await != Flow::On {
                return;
            }
            let pricing = Self::pricing(&agent, self.uses_retry_model);
            let messages = asked.messages.as_deref();
            let takes_share = agent.fair_shares && !is_repeated;
            let begun = self.begin_beside_others(trial, pricing, messages, takes_share).await;
            let Some((mut call, trial)) = begun else {
                // While the run continues, the step ends for the wrap-up.
                if self.flow() != Flow::On && self.resolve_pause().await == Flow::On {
                    continue;
                }
                return;
            };
            call.end_step_on_drop();
            if let Some(step) = self.state.execution.steps.last_mut() {
                step.attempts = step.attempts.saturating_add(1);
            }
            self.flush().await;
            call.sent();
            let (output, begun) =
                (call.output_cap().or(self.agent.max_output_tokens), call.begun());
            let attempt = Attempt { call, trial, failed };
            if self.flow() == Flow::Stop {
                return do_not_send(attempt);
            }
            let model = Arc::clone(self.model());
            let messages = asked.messages.as_deref().unwrap_or(&self.state.messages);
            let answer = self.stream(&*model, messages, output, begun).await;
            failed = if answer.error.is_some() { failed.saturating_add(1) } else { 0 };
            if !is_repeated && self.is_worth_repeating(&answer, &attempt.call).await {
                is_repeated = true;
                Box::pin(self.discard(answer, attempt)).await;
                continue;
            }
            if !self.take_answer(answer, attempt, asked.messages.is_some()).await {
                return;
            }
        }
    }

    /// Waits while the breaker is open. `None` if the run ends while it waits, or by a breaker that fails fast.
    async fn breaker_lets(&mut self) -> Option<Trial> {
        let breaker = self.agent.breaker.clone();
        loop {
            match breaker.as_ref().map(CircuitBreaker::ask) {
                None | Some(BreakerDecision::Send) => return Some(Trial::of(breaker)),
                Some(BreakerDecision::Fail(wait)) => {
                    Box::pin(self.fail_by_breaker(wait)).await;
                    return None;
                }
                Some(BreakerDecision::Wait(wait)) => {
                    if !Box::pin(self.sleep(wait)).await {
                        return None;
                    }
                }
            }
        }
    }

    async fn sleep(&mut self, wait: Duration) -> bool {
        let mut sleep = std::pin::pin!(tokio::time::sleep(wait));
        let waited = self.run().wait(&mut sleep, CancelOn::Any).await;
        if waited == Waited::Done(()) {
            // Many short waits must not hide a time limit.
            return !self.run().tick().stops();
        }
        self.checkpoint().await == Flow::On
    }

    /// Receives a response, complete or not.
    async fn stream(
        &self,
        model: &dyn Model,
        messages: &[Message],
        output: Option<u64>,
        begun: Instant,
    ) -> Box<AttemptResult> {
        let is_wrap_up = self.state.execution.steps.last().is_some_and(|step| step.is_wrap_up);
        let request = ModelRequest {
            system: &self.agent.instructions,
            messages,
            tools: if is_wrap_up { &[] } else { self.agent.tools.specs() },
            tool_choice: if is_wrap_up { ToolChoice::None } else { ToolChoice::Auto },
            max_output_tokens: output,
        };
        // To keep what has begun may have taken a while.
        if self.run().is_aborted() {
            return Box::new(AttemptResult { is_cut: true, ..AttemptResult::default() });
        }
        let mut answer = Box::new(AttemptResult { is_sent: true, ..AttemptResult::default() });
        // The making of the stream may panic as well as the stream.
        let made = catch_unwind(AssertUnwindSafe(|| model.stream(request)));
        let events =
            made.unwrap_or_else(|panic| stream::once(future::ready(panicked(panic))).boxed());
        let mut stream = AssertUnwindSafe(events).catch_unwind();
        loop {
            let piece = match self.run().wait(&mut stream.next(), CancelOn::Abort).await {
                Waited::Done(piece) => piece.map(|piece| piece.unwrap_or_else(panicked)),
                Waited::Aborted => {
                    answer.is_cut = true;
                    return answer;
                }
            };
            match piece {
                Some(Ok(event)) => {
                    if !matches!(event, ModelEvent::End(_) | ModelEvent::Usage(_)) {
                        answer.first_piece_after.get_or_insert_with(|| begun.elapsed());
                    }
                    if self.take_piece(&mut answer, event) {
                        return answer;
                    }
                }
                Some(Err(error)) => {
                    answer.error = Some(error);
                    return answer;
                }
                None => {
                    let message = "the stream ended without its end";
                    answer.error = Some(ModelError::new(ModelErrorKind::Truncated, message));
                    return answer;
                }
            }
        }
    }

    /// Records a piece, and returns whether it was the last one. A text condition that trips here ends the response:
    /// the text so far is kept and charged as an estimate, because a provider reports no usage of a closed stream.
    fn take_piece(&self, answer: &mut AttemptResult, event: ModelEvent) -> bool {
        let directive = match event {
            ModelEvent::Text(text) => {
                answer.text.push_str(&text);
                self.run().record_plain(&EventKind::Piece { text: &text })
            }
            ModelEvent::Reasoning(text) => {
                answer.reasoning_bytes = answer.reasoning_bytes.saturating_add(text.len());
                self.run().record_plain(&EventKind::Piece { text: "" })
            }
            ModelEvent::ToolCall(call) => {
                answer.calls.push(call);
                self.run().record_plain(&EventKind::Piece { text: "" })
            }
            ModelEvent::Usage(reported) => {
                answer.reported = Some(reported);
                return false;
            }
            ModelEvent::End(end) => {
                answer.end = Some(end);
                return true;
            }
        };
        if answer.text.len() > MAX_REPLY_BYTES || answer.calls.len() > MAX_CALLS_OF_REPLY {
            let message = "the answer is longer than any that is read";
            answer.error = Some(ModelError::new(ModelErrorKind::Malformed, message));
            return true;
        }
        answer.is_cut = directive.stops();
        answer.is_cut
    }

    /// Settles a response. Returns whether the model should be called again.
    async fn take_answer(
        &mut self,
        mut answer: Box<AttemptResult>,
        mut attempt: Attempt,
        other_messages: bool,
    ) -> bool {
        match (&answer.end, &answer.error) {
            (Some(_), _) => attempt.trial.record(true),
            (None, Some(error)) if error.kind.is_retryable() => attempt.trial.record(false),
            _ => attempt.trial.forget(),
        }
        match answer.error.take() {
            Some(error) => Box::pin(self.take_failure(&answer, error, attempt)).await,
            None => self.take_reply(answer, attempt, other_messages).await,
        }
    }

    /// A response, or the part of one that was received before an abort.
    async fn take_reply(
        &mut self,
        mut answer: Box<AttemptResult>,
        attempt: Attempt,
        other_messages: bool,
    ) -> bool {
        if answer.is_cut {
            // The core ends first, for its reason; then the usage is settled.
            self.checkpoint().await;
        }
        let end = answer.end.take();
        let is_whole = end.is_some();
        let end = end.unwrap_or_default();
        let charge = answer.charge(&attempt.call, &end);
        let told = (!charge.is_estimate).then_some(charge.usage).filter(|_| is_whole);
        let step = self.state.execution.steps.last().map_or(0, |step| step.number);
        name_calls(step, &mut answer.calls);
        let calls: &[ToolCall] = if is_whole { &answer.calls } else { &[] };
        let lowered_by = attempt.call.lowered_by();
        let is_cut_by_others = attempt.call.is_cut_by_others(end.finish.as_deref());
        let directive = attempt.call.replied(&Outcome {
            model: end.model.as_deref(),
            usage: charge.usage,
            cost: Some(charge.cost),
            is_estimate: charge.is_estimate,
            unconfirmed: charge.unconfirmed,
            finish: end.finish.as_deref(),
            tool_calls: calls,
            text: &answer.text,
            reasoning_tokens: end.usage.as_ref().and_then(|usage| usage.reasoning),
            first_piece_after: answer.first_piece_after,
        });
        self.count_spent(&charge);
        self.flush().await;
        if directive == Directive::Retry {
            self.uses_retry_model = self.agent.retry_model.is_some();
            return true;
        }
        // Another tokenizer's count of the conversation says nothing about this one's.
        let is_of_context = !other_messages && !self.uses_retry_model;
        self.keep_reply(*answer, end, is_whole, told.filter(|_| is_of_context));
        self.end_by_cap(lowered_by);
        if is_cut_by_others {
            self.state.warn_of_cut_by_others();
        }
        self.hooks(Trigger::AfterModelResponse, About::default()).await;
        false
    }

    /// Puts the response into the conversation.
    fn keep_reply(
        &mut self,
        answer: AttemptResult,
        end: Box<ModelEnd>,
        is_whole: bool,
        told: Option<TokenUsage>,
    ) {
        let name = end.model.unwrap_or_else(|| self.model().name().to_owned());
        let at = self.state.messages.len();
        let is_natural_end = is_whole && answer.calls.is_empty();
        let Some(step) = self.state.execution.steps.last_mut() else { return };
        if is_whole {
            // Of a request before it, after which a hook let the run continue.
            self.state.execution.error = None;
        }
        step.model = Some(name);
        step.finish = end.finish;
        step.is_natural_end = is_natural_end;
        if is_whole || !answer.text.is_empty() {
            step.reply = Some(at);
            // Half a tool call must not be run, nor sent back.
            let tool_calls = if is_whole { answer.calls } else { Vec::new() };
            let opaque = end.opaque;
            self.state.messages.push(Message::Assistant { text: answer.text, tool_calls, opaque });
            if let Some(usage) = told {
                let learned = self.context.learn(&self.state.messages, &usage);
                self.state.execution.context = Some(learned);
            }
        }
    }
}

/// Every call needs a unique id; not every provider sets one.
fn name_calls(step: u64, calls: &mut [ToolCall]) {
    if let [call] = &*calls
        && !call.id.is_empty()
    {
        return;
    }
    let mut taken: BTreeSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    let mut seen = BTreeSet::new();
    for (place, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = format!("call_{step}_{place}");
            while !taken.insert(call.id.clone()) {
                call.id.push('_');
            }
        }
    }
}
