//! A conversation of a run, with a child run of the one that pays.
//!
//! A conversation that a request names is a sub-agent's, and observers learn of it as one. A conversation that is
//! recognized only by its content is a sibling of the first: it does not count as a sub-agent, and a stop of it stops
//! the parent run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::event::EventKind;
use endstop_core::run::Status;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_runtime::RunHandle;
use endstop_runtime::observe::Detail;

use super::conversation_memory::ConversationMemory;

/// Returns why a run has stopped permanently: for any reason but its own natural end.
pub(crate) fn stop_of(run: &RunHandle) -> Option<StopSignal> {
    run.look(|run| {
        let is_over = matches!(run.status(), Status::Completed | Status::Stopped | Status::Failed);
        let signal = run.last_stop_signal().filter(|_| is_over)?;
        (!run.ended_by_itself()).then(|| signal.clone())
    })
}

/// Where the open step of a conversation stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConversationStep {
    /// No step is open.
    #[default]
    Closed,
    /// It has its response, and waits for the results of tools.
    AwaitingResults,
    /// It has no response yet: a request with this body is one more attempt of it.
    AwaitingResponse {
        /// Digest of the request's body.
        digest: u64,
        /// Attempts begun.
        attempts: u32,
        /// Whether it is the wrap-up.
        is_wrap_up: bool,
    },
}

/// How a conversation is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConversationKind {
    /// That of the run itself, or of a sub-agent that a request named.
    Named,
    /// A sibling of the first.
    Sibling,
}

/// One conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// The path of the child that it belongs to; empty for the run itself.
    group: String,
    agent: String,
    /// The conversation whose run this one's is below; `None` for that of the run itself. A sibling's is the first of
    /// its group.
    parent: Option<Arc<Conversation>>,
    kind: ConversationKind,
    state: Mutex<ConversationState>,
}

/// The mutable part of a [`Conversation`].
#[derive(Debug)]
pub(crate) struct ConversationState {
    run: RunHandle,
    step: ConversationStep,
    memory: ConversationMemory,
    is_busy: bool,
    /// Whether a conversation began while this one was busy, perhaps for a request of this one.
    was_passed_by: bool,
    last_used: u64,
}

impl Conversation {
    /// The first conversation of a run, which lasts as long as the run.
    pub(super) fn root(run: RunHandle) -> Self {
        let (group, agent) = (String::new(), "main".to_owned());
        let state = Mutex::new(ConversationState::new(run));
        Self { group, agent, parent: None, kind: ConversationKind::Named, state }
    }

    /// A conversation whose run is below that of `parent`.
    pub(super) fn child(
        parent: Arc<Self>,
        group: &str,
        kind: ConversationKind,
        agent: String,
        run: RunHandle,
    ) -> Self {
        let state = Mutex::new(ConversationState::new(run));
        Self { group: group.to_owned(), agent, parent: Some(parent), kind, state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ConversationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    pub(super) const fn kind(&self) -> ConversationKind {
        self.kind
    }

    pub(super) const fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Whether it is the first of its group.
    pub(super) fn is_main(&self) -> bool {
        self.kind == ConversationKind::Named
    }

    /// The first of its group, if this is not that one itself.
    pub(super) fn first_sibling(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref().filter(|_| self.kind == ConversationKind::Sibling)
    }

    /// Stops the run above with what stopped a sibling, unless the sibling only could not begin something just then.
    pub(crate) fn pass_on_stop(&self) {
        let Some(first) = self.first_sibling() else { return };
        let own = self.state().run.clone();
        let above = first.state().run.clone();
        let signal = stop_of(&own).filter(|signal| signal.reason != StopReason::StopRequested);
        if let Some(signal) = signal.filter(|_| stop_of(&above).is_none()) {
            above.raise(&signal);
        }
    }

    /// Ends the conversation's run, and notifies the parent run if it is a sub-agent's.
    pub(super) fn end(&self) {
        let Some(parent) = &self.parent else { return };
        let run = self.state().run.clone();
        self.state().close_step();
        run.ended();
        if self.kind == ConversationKind::Sibling {
            return;
        }
        let above = parent.state().run.clone();
        above.record(&EventKind::ChildEnd, Detail::Child { agent: &self.agent });
    }
}

impl ConversationState {
    fn new(run: RunHandle) -> Self {
        let (step, memory) = (ConversationStep::Closed, ConversationMemory::default());
        Self { run, step, memory, is_busy: false, was_passed_by: false, last_used: 0 }
    }

    /// The run of this conversation.
    pub(crate) const fn run(&self) -> &RunHandle {
        &self.run
    }

    /// Continues with another run, after the last one was refused.
    pub(super) fn restart(&mut self, run: RunHandle) {
        self.run = run;
    }

    pub(crate) const fn memory(&self) -> &ConversationMemory {
        &self.memory
    }

    pub(crate) const fn memory_mut(&mut self) -> &mut ConversationMemory {
        &mut self.memory
    }

    pub(crate) const fn step(&self) -> ConversationStep {
        self.step
    }

    /// Opens a step for a request with this digest.
    pub(crate) const fn open_step(&mut self, digest: u64, is_wrap_up: bool) {
        self.step = ConversationStep::AwaitingResponse { digest, attempts: 0, is_wrap_up };
    }

    /// Counts an attempt of the open step.
    pub(crate) const fn count_attempt(&mut self) {
        if let ConversationStep::AwaitingResponse { attempts, .. } = &mut self.step {
            *attempts = attempts.saturating_add(1);
        }
    }

    /// The open step has its response, and waits for the results of its tools.
    pub(crate) const fn await_results(&mut self) {
        self.step = ConversationStep::AwaitingResults;
    }

    /// Ends the open step.
    pub(crate) fn close_step(&mut self) {
        if self.step != ConversationStep::Closed {
            self.step = ConversationStep::Closed;
            self.run.record(&EventKind::StepEnd, Detail::None);
        }
    }

    /// Whether a call of it is in flight.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(super) const fn occupy(&mut self) {
        self.is_busy = true;
        self.was_passed_by = false;
    }

    /// Notes that a conversation begins while this one is busy.
    pub(super) const fn pass_by(&mut self) {
        self.was_passed_by |= self.is_busy;
    }

    /// Ends what a call without its client leaves open, if its client may have moved on to another conversation: that one
    /// gets the requests that follow.
    pub(crate) fn leave_to_others(&mut self) {
        if self.was_passed_by {
            self.close_step();
            self.memory = ConversationMemory::default();
        }
    }

    pub(super) const fn vacate(&mut self) {
        self.is_busy = false;
    }

    /// The number of the run's call that used it last.
    pub(super) const fn last_used(&self) -> u64 {
        self.last_used
    }

    pub(super) const fn set_last_used(&mut self, number: u64) {
        self.last_used = number;
    }
}
