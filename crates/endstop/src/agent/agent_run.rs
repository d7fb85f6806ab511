//! Driving one run: its phases, its checkpoints, what hooks ask for, pausing and saving.
//!
//! Futures that a run seldom waits for are boxed: otherwise its own, parts of which are copied at every step, would have room
//! for them.

mod approval;
mod ask;
mod batch;
mod start;
mod step;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use endstop_core::event::EventKind;
use endstop_core::limits::DEFAULT_OVERRIDES;
use endstop_core::run::{Run, Status};
use endstop_core::signal::{ExecutionContinuation, StopReason, StopSignal, StopSignals};
use endstop_core::trip_record::TripRecord;
use endstop_core::units::Money;
use futures_util::FutureExt as _;

use super::Inner;
use super::context::ContextBound;
use super::hooks::{HookContext, HookRequests, Trigger};
use super::journal::Stored;
use super::node::AgentNode;
use super::source::CancellationSource;
use super::state::AgentState;
use crate::limits::HOOK_GRACE;
use crate::message::{Message, ToolCall, ToolOutcome};
use crate::observe::Detail;
pub use approval::{Approval, ApprovalRequest, Approver};
use endstop_runtime::cancel::{CancelToken, Urgency};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::{RunHandle, Waited};
pub(super) use start::{ChildArgs, Watch, child, root, root_at};

/// Whether the run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    /// A person decides; the state can be resumed.
    Pause,
    /// The core has ended the run.
    Stop,
}

const fn flow_of(status: Status) -> Flow {
    match status {
        Status::Paused => Flow::Pause,
        Status::Completed | Status::Stopped | Status::Failed => Flow::Stop,
        _ => Flow::On,
    }
}

/// One run that is being driven.
pub(in crate::agent) struct AgentRun {
    /// The agent that continues.
    agent: Arc<Inner>,
    /// The agent that began.
    first: Arc<Inner>,
    node: Arc<AgentNode>,
    state: AgentState,
    context: ContextBound,
    /// The retry model answers until the step is over.
    uses_retry_model: bool,
    stored: Option<Stored>,
    /// The run had ended before it was executed, and nothing has let it continue.
    was_over: bool,
    /// A user's message came to a run that had stopped: own steps begun by then.
    unanswered: Option<usize>,
    /// The number of own steps when the run last continued despite a stop, and how often in a row by then.
    continued: (usize, u32),
    /// The question of a pause that was left undecided.
    held_up: Option<Box<TripRecord>>,
    /// The limit that was approved last, and the spend at that time.
    last_limit: Option<(Amounts, Money)>,
}

/// The subject of a hook.
#[derive(Clone, Copy, Default)]
struct About<'a> {
    call: Option<&'a ToolCall>,
    answer: Option<(ToolOutcome, &'a str)>,
    error: Option<&'a str>,
}

impl AgentRun {
    /// The state as it was brought up to date last.
    pub(super) const fn state(&self) -> &AgentState {
        &self.state
    }

    /// The state, once the run is driven no further.
    pub(super) fn take_state(&mut self) -> AgentState {
        std::mem::take(&mut self.state)
    }

    /// The run in its tree.
    pub(super) fn run(&self) -> &RunHandle {
        &self.node.run
    }

    /// The current flow of the run.
    pub(super) fn flow(&self) -> Flow {
        flow_of(self.run().status())
    }

    /// Begins the run, or continues a resumed one.
    pub(super) async fn begin(&mut self) -> Flow {
        let is_new = self.run().status() == Status::Pending;
        self.was_over = self.flow() == Flow::Stop;
        let is_unanswered = self.was_over && self.state.has_new_user_message();
        self.unanswered = is_unanswered.then_some(self.state.execution.steps.len());
        if is_new {
            self.run().look_at_kill_switch();
            self.run().take_cancellations();
            let agent = Some(self.agent.name.as_str());
            let begin = EventKind::RunBegin { agent, depth: self.run().info().depth };
            let messages = self.state.messages.len();
            let detail = Detail::Begin { messages, tools: self.agent.tools.len() };
            self.run().try_begin(&begin, detail);
        }
        self.approve_what_was_approved();
        self.tell_user_messages();
        if self.stored.is_some() {
            // A crash in the first step finds the state to continue with.
            self.save().await;
        }
        self.hooks(Trigger::BeforeExecution, About::default()).await;
        self.was_over &= self.flow() == Flow::Stop;
        self.checkpoint().await
    }

    /// Records users' messages that the core does not know yet.
    fn tell_user_messages(&mut self) {
        let told = self.state.execution.messages_told;
        for message in self.state.messages.iter().skip(told) {
            if matches!(message, Message::User { .. }) {
                self.run().record_plain(&EventKind::UserMessage);
            }
        }
        self.state.execution.messages_told = self.state.messages.len();
    }

    /// The moment at which everything outside is checked: kill switch, cancellation. The checks do not depend on
    /// signals raised earlier.
    ///
    /// It is not [`RunHandle::checkpoint`], because the sources are checked after the kill switch, whose signal comes
    /// first, and because a loop that completed takes no late cancellation.
    async fn checkpoint(&mut self) -> Flow {
        self.run().look_at_kill_switch();
        let sources = self.sources_up_to_root();
        if !sources.is_empty() {
            Box::pin(self.ask_sources(sources)).await;
        }
        self.run().take_cancellations();
        self.flow()
    }

    /// Whether a hook may request a continuation: not against a cancellation, a parent, or an empty budget.
    fn may_continue(&self) -> bool {
        !self.run().token().is_cancelled() && !self.run().is_out_of_budget()
    }

    /// Waits for hooks, or for a source (`None`): an abort of the run ends that wait too. Hooks that begin in a run
    /// that is aborted or out of time have a short time left. Hooks after the execution have as much as they need.
    async fn wait_for_hooks<F: Future + Unpin>(
        &self,
        hooks: &mut F,
        trigger: Option<Trigger>,
    ) -> Waited<F::Output> {
        if let Some(output) = (&mut *hooks).now_or_never() {
            return Waited::Done(output);
        }
        if trigger == Some(Trigger::AfterExecution) {
            return Waited::Done(hooks.await);
        }
        self.run().wait_in_grace(hooks, trigger.map(|_| HOOK_GRACE)).await
    }

    /// Runs hooks and does what they request. Returns the requests other than signals.
    async fn hooks(&mut self, trigger: Trigger, about: About<'_>) -> HookRequests {
        if !self.first.hooks.has(trigger) && !self.agent.hooks.has(trigger) {
            return HookRequests::default();
        }
        Box::pin(self.run_hooks(trigger, about)).await
    }

    async fn run_hooks(&mut self, trigger: Trigger, about: About<'_>) -> HookRequests {
        let continuation = self.show_to_hooks(trigger);
        let mut context = HookContext {
            trigger,
            state: &self.state,
            continuation: &continuation,
            call: about.call,
            answer: about.answer,
            error: about.error,
            asked: HookRequests::default(),
        };
        // The first agent keeps its say when another agent continues, and has it first.
        let first = Arc::clone(&self.first);
        let other = (!Arc::ptr_eq(&first, &self.agent)).then(|| Arc::clone(&self.agent));
        let mut failures = Vec::new();
        for agent in [Some(first), other].iter().flatten() {
            let mut run = Box::pin(agent.hooks.run(&mut context));
            if let Waited::Done(failed) = self.wait_for_hooks(&mut run, Some(trigger)).await {
                failures.extend(failed);
            }
            drop(run);
            if context.asked.blocked.is_some() {
                break;
            }
        }
        let mut asked = context.asked;
        for signal in std::mem::take(&mut asked.signals) {
            self.run().record_plain(&EventKind::StopRaised { signal: &signal });
        }
        // An ended run cannot continue.
        let may_continue = trigger != Trigger::AfterExecution && self.may_continue();
        if let Some(by) = asked.continue_by.take().filter(|_| may_continue) {
            self.run().record_plain(&EventKind::ContinuationRequested { by: &by });
            if self.flow() == Flow::On {
                self.run().renew_in_flight();
            }
        }
        self.state.metadata.extend(std::mem::take(&mut asked.metadata));
        self.append(std::mem::take(&mut asked.appended));
        for (hook, why) in failures {
            let message = format!("the hook `{hook}` ({}) failed: {why}", trigger.name());
            self.error(&message, &hook);
            if trigger != Trigger::OnError {
                let about = About { error: Some(&message), ..About::default() };
                self.hooks(Trigger::OnError, about).await;
            }
        }
        asked
    }

    /// Brings the state up to date for hooks, and gives the signals that stand. The core has decided when the hooks of
    /// an end run: they see the run as it was before, because a continuation may take the decision back.
    fn show_to_hooks(&mut self, trigger: Trigger) -> ExecutionContinuation {
        self.sync();
        let has_ended = self.flow() == Flow::Stop;
        let is_after = trigger == Trigger::AfterExecution;
        let is_decided = is_after || has_ended && (trigger == Trigger::OnStop || self.was_over);
        let execution = &mut self.state.execution;
        if has_ended && !is_after && !self.was_over {
            execution.status = Status::InProgress;
        }
        // A record of an earlier pause says nothing about the run as it continues.
        execution.trip_record = is_decided.then(|| Box::new(self.node.run.look(Run::trip_record)));
        self.node.run.look(|run| {
            let mut continuation = run.continuation();
            if run.ended_by_itself() && !is_decided {
                continuation.stop_signals = StopSignals::default();
            }
            continuation
        })
    }

    /// Adds messages of hooks to the conversation. The core learns of users' messages as long as the run continues.
    fn append(&mut self, messages: Vec<Message>) {
        for message in messages {
            let is_of_user = matches!(message, Message::User { .. });
            self.state.messages.push(message);
            if is_of_user && self.flow() == Flow::On {
                self.run().record_plain(&EventKind::UserMessage);
                self.state.execution.messages_told = self.state.messages.len();
            }
        }
    }

    /// Ends the run as failed.
    fn error(&mut self, message: &str, source: &str) {
        self.raise(StopReason::ErrorForbade, message, source);
        self.state.execution.error.get_or_insert_with(|| message.to_owned());
        if let Some(step) = self.state.execution.steps.last_mut() {
            step.errors.push(message.to_owned());
        }
    }

    /// Raises a signal of the loop's own.
    fn raise(&mut self, reason: StopReason, message: &str, source: &str) {
        let signal = StopSignal::new(reason).with_message(message).with_source(source);
        self.run().record(&EventKind::StopRaised { signal: &signal }, Detail::Error { message });
    }

    /// The run is about to stop: hooks may ask for a continuation.
    pub(super) async fn on_stop(&mut self) -> Flow {
        let reason = self.why_stopped().reason;
        self.hooks(Trigger::OnStop, About::default()).await;
        if self.flow() == Flow::On {
            self.was_over = false;
            // Of messages that were appended while the run was about to end.
            self.tell_user_messages();
            self.count_continuation(reason);
        }
        self.flow()
    }

    /// The core counts how often a rule is overridden. Signals that hooks and parents raise again and again before a
    /// step can begin have the same allowance.
    fn count_continuation(&mut self, reason: StopReason) {
        let steps = self.state.execution.steps.len();
        let (before, in_row) = self.continued;
        let in_row = if before == steps { in_row.saturating_add(1) } else { 1 };
        self.continued = (steps, in_row);
        if in_row > DEFAULT_OVERRIDES {
            let message = format!(
                "override limit: {reason} overridden {DEFAULT_OVERRIDES} times and still standing"
            );
            self.error(&message, "loop");
        }
    }

    /// Everything is over, or paused.
    pub(super) async fn end(&mut self) {
        self.hooks(Trigger::AfterExecution, About::default()).await;
        self.run().take_cancellations();
        if self.flow() == Flow::Stop {
            // Messages of hooks do not begin a new run when the state is executed again.
            self.state.execution.messages_told = self.state.messages.len();
        }
        self.sync();
        let (is_paused, record) =
            self.run().look(|run| (run.status() == Status::Paused, Box::new(run.trip_record())));
        let asked = self.held_up.take().filter(|_| is_paused);
        self.state.execution.trip_record = Some(asked.unwrap_or(record));
        if self.unanswered == Some(self.state.execution.steps.len()) {
            self.state.warn_of_unanswered();
        }
        self.run().ended();
        self.save().await;
    }

    /// Brings the state up to date with the core, except for the core itself.
    fn sync(&mut self) {
        let execution = &mut self.state.execution;
        self.node.run.look_at_all(|run, carried| execution.follow(run, carried));
    }

    /// The state as it can be saved now.
    pub(super) fn snapshot(&mut self) {
        self.sync();
        let execution = &mut self.state.execution;
        execution.core = self.node.run.look(Run::to_state).ok().map(Box::new);
        if flow_of(execution.status) == Flow::On {
            execution.trip_record = None;
        }
    }

    /// Another agent continues the run.
    fn become_agent(&mut self, next: Arc<Inner>) {
        self.agent = next;
        self.run().set_external_stops(start::external_stops(self));
        self.state.agent.clone_from(&self.agent.name);
        self.context = ContextBound::new(self.agent.fixed_tokens);
        self.state.execution.context = None;
    }

    /// Warnings since the last call, as a note to the model, if the agent is configured for it.
    fn note_warnings(&mut self) {
        let notices = self.run().take_notices();
        if !self.agent.tells_model || notices.is_empty() {
            return;
        }
        let by_rule: BTreeMap<_, _> = notices.into_iter().map(|n| (n.rule, n.message)).collect();
        let warnings: Vec<String> = by_rule.into_values().collect();
        let left = self.run().what_is_left();
        let text =
            format!("Note: {}.{left} Finish the task within these limits.", warnings.join("; "));
        self.state.messages.push(Message::system(text));
    }

    /// The sources of the run and of those above it, which wait for it, each with the token that it cancels.
    fn sources_up_to_root(&self) -> Vec<(&Arc<dyn CancellationSource>, &CancelToken)> {
        let is_handed_over = self.agent.name != self.run().info().agent;
        let own = self.agent.sources.iter().filter(|_| is_handed_over);
        let mut sources: Vec<_> = own.map(|source| (source, self.run().token())).collect();
        let mut next = Some(&self.node);
        while let Some(node) = next {
            sources.extend(node.sources.iter().map(|source| (source, node.run.token())));
            next = node.parent.as_ref();
        }
        sources
    }

    /// Asks each source, and cancels its token by what it says.
    async fn ask_sources(&self, sources: Vec<(&Arc<dyn CancellationSource>, &CancelToken)>) {
        for (source, token) in sources {
            let mut asked = source.cancellation_signals(&self.state);
            let signals = self.wait_for_hooks(&mut asked, None).await;
            if let Waited::Done(signals) = signals {
                signals.into_iter().for_each(|signal| {
                    token.cancel(signal, Urgency::Graceful);
                });
            }
        }
    }

    /// Hands the trace so far to the store: what was spent survives a crash from here on.
    async fn flush(&mut self) {
        let Some(journal) = &self.node.journal else { return };
        let Err(hole) = journal.append().await else { return };
        if self.stored.take().is_some() || self.node.parent.is_some() && self.flow() != Flow::Stop {
            self.error(&format!("the run cannot be stored: {hole}"), "store");
        }
    }

    /// Saves the state, if there is a store.
    async fn save(&mut self) {
        self.snapshot();
        self.flush().await;
        let Some(stored) = &self.stored else { return };
        let saved = stored.store.save(&self.state.id, &self.state.to_json(), stored.version).await;
        match (saved, &mut self.stored) {
            (Ok(version), Some(stored)) => stored.version = Some(version),
            (Err(error), _) => {
                self.stored = None;
                self.error(&format!("the run cannot be saved: {error}"), "store");
                self.snapshot();
            }
            (Ok(_), None) => {}
        }
    }

    /// Saves the state after a step, if there is a store.
    pub(super) async fn save_after_step(&mut self) {
        if self.stored.is_some() {
            self.save().await;
        } else {
            self.sync();
        }
    }
}
