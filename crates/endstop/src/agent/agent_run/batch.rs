//! The tool calls of a response: begun in order, run side by side, each answered exactly once.

mod admit;

use std::any::Any;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use endstop_core::event::EventKind;
use endstop_core::signal::{StopReason, StopSignal};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use admit::Refusal;

use super::{About, AgentRun, Flow};
use crate::agent::hooks::{Trigger, words_of};
use crate::agent::node::AgentNode;
use crate::agent::state::ToolExecution;
use crate::limits::MAX_ANSWER_BYTES;
use crate::message::{Message, ToolCall, ToolOutcome};
use crate::observe::Detail;
use crate::tool::{Handoff, Tool, ToolContext, ToolEntry, ToolError, ToolOutput, answers};
use endstop_runtime::{CancelOn, OpenToolCall, Waited};

/// A call that runs.
type Running = BoxFuture<'static, Ran>;

/// The result of a call.
struct Ran {
    place: usize,
    result: Result<ToolOutput, ToolError>,
    outcome: ToolOutcome,
    took: Duration,
}

/// The answer to a call.
struct Answered {
    outcome: ToolOutcome,
    text: String,
    took: Duration,
}

/// The calls of one response.
struct Batch {
    /// Shared, so that one can be read while the others change.
    calls: Arc<Vec<ToolCall>>,
    /// The beginning and the answer of each of them.
    places: Vec<CallPlace>,
    running: FuturesUnordered<Running>,
    /// Calls that finished while the batch waited for something else.
    done: VecDeque<Ran>,
    next: usize,
}

/// A call of a batch.
#[derive(Default)]
struct CallPlace {
    begun: Option<RunningToolCall>,
    answer: Option<Answered>,
}

/// A call that has begun.
struct RunningToolCall {
    at: Instant,
    is_agent: bool,
    can_abort: bool,
}

impl Batch {
    /// Takes the call that has begun, once.
    fn take_begun(&mut self, place: usize) -> Option<RunningToolCall> {
        self.places.get_mut(place)?.begun.take()
    }
}

impl AgentRun {
    /// Answers all calls, or pauses before one of them.
    pub(super) async fn answer_calls(&mut self, calls: Vec<ToolCall>) -> Flow {
        let mut batch = Batch {
            places: calls.iter().map(|_| CallPlace::default()).collect(),
            calls: Arc::new(calls),
            running: FuturesUnordered::new(),
            done: VecDeque::new(),
            next: 0,
        };
        let mut is_paused = false;
        loop {
            // A call that was still running may have ended the run: the other calls are answered then.
            is_paused &= self.flow() == Flow::Pause;
            while !is_paused
                && batch.next < batch.calls.len()
                && batch.running.len() < self.agent.parallel_tools
            {
                let place = batch.next;
                if self.begin_call(&mut batch, place).await == Flow::Pause {
                    is_paused = true;
                } else {
                    batch.next = place.saturating_add(1);
                }
            }
            if let Some(ran) = batch.done.pop_front() {
                self.finish_call(&mut batch, ran).await;
                continue;
            }
            if batch.running.is_empty() {
                break;
            }
            match self.run().wait(&mut batch.running.next(), CancelOn::Abort).await {
                Waited::Done(Some(ran)) => self.finish_call(&mut batch, ran).await,
                Waited::Done(None) => break,
                Waited::Aborted => Box::pin(self.cut_calls(&mut batch)).await,
            }
        }
        self.put_answers(batch);
        if is_paused { Flow::Pause } else { self.flow() }
    }

    /// Begins a call, or answers it without running it.
    async fn begin_call(&mut self, batch: &mut Batch, place: usize) -> Flow {
        let calls = Arc::clone(&batch.calls);
        let Some(call) = calls.get(place) else { return Flow::On };
        let admitted = {
            let admitted = pin!(self.admit_or_ask(call));
            beside(&mut batch.running, &mut batch.done, admitted).await
        };
        match admitted {
            Ok(open) => self.dispatch(batch, place, call, open).await,
            Err(Refusal::Paused) => return Flow::Pause,
            Err(Refusal::Failed(outcome, text)) => {
                // It has begun for the limits: a model that keeps inventing tools or arguments meets them.
                let answered = Answered { outcome, text, took: Duration::ZERO };
                self.tell_end(call, &answered);
                self.answered(batch, place, answered).await;
            }
            Err(Refusal::Answer(outcome, text)) => {
                let detail = Detail::Tool { call, outcome: Some(outcome), took: Duration::ZERO };
                self.run().record(&EventKind::ToolRefused { tool: &call.tool }, detail);
                self.answered(batch, place, Answered { outcome, text, took: Duration::ZERO }).await;
            }
        }
        Flow::On
    }

    /// Why the run stopped, for the model.
    pub(super) fn why_stopped(&self) -> StopSignal {
        let signal = self.run().look(|run| run.last_stop_signal().cloned());
        signal.unwrap_or_else(|| StopSignal::new(StopReason::StopRequested))
    }

    /// Runs an admitted call.
    async fn dispatch(
        &mut self,
        batch: &mut Batch,
        place: usize,
        call: &ToolCall,
        open: OpenToolCall,
    ) {
        self.flush().await;
        if self.flow() == Flow::Stop {
            // A call that could not be recorded must not happen either.
            open.not_made();
            let text = answers::not_executed(&call.tool, &self.why_stopped());
            let outcome = ToolOutcome::NotExecuted;
            let answered = Answered { outcome, text, took: Duration::ZERO };
            self.tell_end(call, &answered);
            return self.answered(batch, place, answered).await;
        }
        let agent = Arc::clone(&self.agent);
        let Some(entry) = agent.tools.get(&call.tool) else { return open.not_made() };
        let is_agent = entry.tool.is_agent();
        if is_agent {
            let depth = self.run().info().depth.saturating_add(1);
            let detail = Detail::Child { agent: &call.tool };
            let directive = self.run().try_begin(&EventKind::ChildBegin { depth }, detail);
            if !directive.admits() {
                open.not_made();
                let text = self.refused_text(&call.tool);
                let answered =
                    Answered { outcome: ToolOutcome::Refused, text, took: Duration::ZERO };
                self.tell_end(call, &answered);
                self.answered(batch, place, answered).await;
                return;
            }
        }
        let begun = RunningToolCall {
            at: Instant::now(),
            is_agent,
            can_abort: entry.tool.can_abort() || is_agent,
        };
        batch.running.push(self.run_tool(entry, place, call.clone(), open));
        if let Some(known) = batch.places.get_mut(place) {
            known.begun = Some(begun);
        }
    }

    fn run_tool(
        &self,
        entry: &ToolEntry,
        place: usize,
        call: ToolCall,
        open: OpenToolCall,
    ) -> Running {
        let tool = Arc::clone(&entry.tool);
        let context = ToolContext {
            run: self.state.id.clone(),
            agent: self.agent.name.clone(),
            depth: self.run().info().depth,
            cancel: self.run().in_flight(),
            caller: Some(Arc::clone(&self.node) as Arc<dyn Any + Send + Sync>),
            cost: open.report(),
        };
        let limit = tool.timeout().filter(|_| !tool.is_agent());
        let runs_alone = !tool.can_abort() && !tool.is_agent();
        let work = guarded(tool, call, context);
        let work: BoxFuture<'static, _> = if runs_alone {
            let task = tokio::spawn(work);
            async move { task.await.unwrap_or_else(|error| Err(error.into())) }.boxed()
        } else {
            work
        };
        async move {
            let begun = Instant::now();
            let (result, outcome) = match limit {
                None => (work.await, ToolOutcome::Succeeded),
                Some(limit) => match tokio::time::timeout(limit, work).await {
                    Ok(result) => (result, ToolOutcome::Succeeded),
                    Err(_) => (Ok(ToolOutput::default()), ToolOutcome::TimedOut),
                },
            };
            // Here and not with the answer: a call that waits for the amount continues while a hook or a person takes
            // time.
            settle(open, &result, outcome);
            Ran { place, result, outcome, took: begun.elapsed() }
        }
        .boxed()
    }

    /// Ends a call that has finished.
    async fn finish_call(&mut self, batch: &mut Batch, ran: Ran) {
        let calls = Arc::clone(&batch.calls);
        let Some(call) = calls.get(ran.place) else { return };
        let begun = batch.take_begun(ran.place);
        if begun.as_ref().is_some_and(|begun| begun.is_agent) {
            self.run().record(&EventKind::ChildEnd, Detail::Child { agent: &call.tool });
        }
        let (outcome, text) = match ran.result {
            _ if ran.outcome == ToolOutcome::TimedOut => {
                if begun.is_some_and(|begun| !begun.can_abort) {
                    self.run().add_still_running(&call.tool);
                }
                (ToolOutcome::TimedOut, answers::timed_out(&call.tool, ran.took))
            }
            Ok(output) => self.take_output(output),
            Err(ToolError::Failed(why)) => (ToolOutcome::Failed, answers::failed(&call.tool, &why)),
            Err(ToolError::Stop(stop)) => {
                let signal = stop.into_signal(&call.tool);
                self.run().record_plain(&EventKind::StopRaised { signal: &signal });
                (ToolOutcome::Succeeded, signal.to_string())
            }
        };
        let answered = Answered { outcome, text: capped(text), took: ran.took };
        self.tell_end(call, &answered);
        self.flush().await;
        self.answered(batch, ran.place, answered).await;
    }

    fn take_output(&mut self, output: ToolOutput) -> (ToolOutcome, String) {
        for (name, value) in output.facts {
            self.run().record_plain(&EventKind::Fact { name: &name, value });
        }
        if let Some(handoff) = output.handoff {
            self.run().try_begin(&EventKind::HandOff { to: &handoff.to }, Detail::None);
            // A rule may wait for it: the agent that is named is outside then.
            if self.flow() == Flow::On {
                if self.next_agent(&handoff.to).is_none() {
                    let known: Vec<&str> = self.agent.handoffs.keys().map(String::as_str).collect();
                    let text = format!(
                        "There is no agent `{}` to hand off to (there are: {}); you continue.",
                        handoff.to,
                        known.join(", ")
                    );
                    return (ToolOutcome::Failed, text);
                }
                self.state.execution.handoff.get_or_insert(handoff);
            }
        }
        let outcome = if output.is_failed { ToolOutcome::Failed } else { ToolOutcome::Succeeded };
        (outcome, output.text)
    }

    fn tell_end(&self, call: &ToolCall, answered: &Answered) {
        let detail = Detail::Tool { call, outcome: Some(answered.outcome), took: answered.took };
        let end = EventKind::ToolEnd {
            tool: &call.tool,
            arguments: &call.arguments,
            result: &answered.text,
            failed: answered.outcome.is_error(),
        };
        self.run().record(&end, detail);
    }

    /// Aborts the calls in flight: sub-agents end on their own, since they share the cancellation; a call that cannot
    /// be aborted continues, and is reported.
    async fn cut_calls(&mut self, batch: &mut Batch) {
        self.checkpoint().await;
        let is_agent = |it: &CallPlace| it.begun.as_ref().is_some_and(|begun| begun.is_agent);
        loop {
            let ran = match batch.done.pop_front() {
                None if batch.places.iter().any(is_agent) => batch.running.next().await,
                ran => ran,
            };
            let Some(ran) = ran else { break };
            self.finish_call(batch, ran).await;
        }
        batch.running = FuturesUnordered::new();
        for place in 0..batch.calls.len() {
            let Some(begun) = batch.take_begun(place) else { continue };
            let Some(call) = batch.calls.get(place).cloned() else { continue };
            if !begun.can_abort {
                self.run().add_still_running(&call.tool);
            }
            let took = begun.at.elapsed();
            let why = self.why_stopped();
            let text = if begun.can_abort {
                answers::cut_off(&call.tool, &why, took)
            } else {
                answers::still_running(&call.tool, &why, took)
            };
            let answered = Answered { outcome: ToolOutcome::Aborted, text, took };
            self.tell_end(&call, &answered);
            self.answered(batch, place, answered).await;
        }
    }

    async fn answered(&mut self, batch: &mut Batch, place: usize, answered: Answered) {
        if let Some(call) = batch.calls.get(place) {
            let answer = Some((answered.outcome, answered.text.as_str()));
            let about = About { call: Some(call), answer, error: None };
            let told = async {
                self.hooks(Trigger::AfterToolUse, about).await;
                if answered.outcome.is_error() {
                    let about = About { call: Some(call), answer, error: Some(&answered.text) };
                    self.hooks(Trigger::OnError, about).await;
                }
            };
            beside(&mut batch.running, &mut batch.done, pin!(told)).await;
        }
        if let Some(known) = batch.places.get_mut(place) {
            known.answer = Some(answered);
        }
    }

    /// Puts the answers into the conversation, in the order of the calls.
    fn put_answers(&mut self, batch: Batch) {
        let calls = Arc::unwrap_or_clone(batch.calls);
        for (call, known) in calls.into_iter().zip(batch.places) {
            let Some(answered) = known.answer else { continue };
            let place = self.state.place_of_answer();
            let execution = ToolExecution {
                id: call.id.clone(),
                tool: call.tool.clone(),
                outcome: answered.outcome,
                took_ms: endstop_runtime::clock::millis(answered.took),
                answer: place,
            };
            if let Some(step) = self.state.execution.steps.last_mut() {
                step.tool_executions.push(execution);
            }
            let Answered { outcome, text, .. } = answered;
            let answer = Message::Tool { id: call.id, tool: call.tool, outcome, text };
            self.state.insert_answer(place, answer);
        }
    }

    /// Whom the agent may hand off to: one that it was built with, or one that had the run before.
    fn next_agent(&self, to: &str) -> Option<Arc<crate::agent::Inner>> {
        if let Some(agent) = self.agent.handoffs.get(to) {
            return Some(Arc::clone(&agent.0));
        }
        let had_it = self.state.execution.steps.iter().any(|step| step.agent == to);
        if had_it { super::start::find(&self.first, to) } else { None }
    }

    /// Another agent continues, on the same ledger and under the same policy.
    pub(super) fn hand_off(&mut self) {
        let Some(Handoff { to, message }) = self.state.execution.handoff.take() else { return };
        if self.flow() != Flow::On {
            return;
        }
        let Some(next) = self.next_agent(&to) else { return };
        self.become_agent(next);
        self.state.messages.push(Message::system(format!("You are `{to}` now. {message}")));
    }
}

/// An answer that a model and a store can take.
fn capped(mut text: String) -> String {
    let bytes = text.len();
    if bytes > MAX_ANSWER_BYTES {
        text.truncate(text.floor_char_boundary(MAX_ANSWER_BYTES));
        text.push_str(&format!(
            "\n[Cut: these are the first {MAX_ANSWER_BYTES} of {bytes} bytes.]"
        ));
    }
    text
}

/// Settles what a call cost. One whose future is dropped is settled by that.
fn settle(open: OpenToolCall, result: &Result<ToolOutput, ToolError>, outcome: ToolOutcome) {
    match result {
        Ok(output) if outcome == ToolOutcome::Succeeded && !output.is_failed => {
            open.succeeded(output.cost);
        }
        Ok(output) => open.failed(output.cost),
        Err(ToolError::Stop(_)) => open.succeeded(None),
        Err(ToolError::Failed(_)) => open.failed(None),
    }
}

/// Runs a tool; a panic of it is a failure of the call.
fn guarded(
    tool: Arc<dyn Tool>,
    call: ToolCall,
    context: ToolContext,
) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
    async move {
        // A separate task may begin later than it was admitted.
        if AgentNode::caller(&context).is_some_and(|node| node.run.is_aborted()) {
            return Err(ToolError::failed("cut before it began"));
        }
        let run = AssertUnwindSafe(async { tool.call(call, context).await });
        match run.catch_unwind().await {
            Ok(result) => result,
            Err(panic) => Err(ToolError::failed(format!("panicked: {}", words_of(&*panic)))),
        }
    }
    .boxed()
}

/// Waits for `work`, a hook or a person; calls that finish in the meantime are put into `done`.
async fn beside<T>(
    running: &mut FuturesUnordered<Running>,
    done: &mut VecDeque<Ran>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> T {
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            Some(ran) = running.next() => done.push_back(ran),
        }
    }
}
