//! Which conversation a call belongs to.
//!
//! A conversation is recognized by the content that its request shares with the last one. A request that matches no
//! conversation goes to the first one of its group: an agent that rewrites its history sends such requests. If that
//! one has a call in flight, or its model waits for the results of tools, the request begins a sibling conversation.
//! That may be a parallel call of the same agent or a model that a tool asks, so it does not count as a sub-agent
//! (`docs/semantics.md` section 8).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::Program;
use endstop_core::event::EventKind;
use endstop_core::policy::Action;
use endstop_llm::{CallRequest, Thread};
use endstop_runtime::RunHandle;
use endstop_runtime::observe::Detail;

use super::conversation::{Conversation, ConversationKind, ConversationStep, stop_of};
use super::conversation_memory::MessageDigests;
use super::per_conversation_policy;

/// The parent run refuses a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChildRefused;

/// The conversations of a run.
#[derive(Debug)]
pub(super) struct Conversations(Mutex<ConversationSet>);

#[derive(Debug)]
struct ConversationSet {
    /// That of the run itself first.
    all: Vec<Arc<Conversation>>,
    /// Calls that were matched.
    uses: u64,
    /// Conversations beyond which idle ones are ended.
    max: usize,
    /// Children begun, for their names.
    begun: u64,
    /// The policy of every child: the part of the run's that is about one conversation. The runs above limit the rest.
    child_policy: Option<Arc<Program>>,
}

impl Conversations {
    /// The conversations of a run that begins.
    pub(super) fn new(run: RunHandle) -> Self {
        let program = run.look(|run| Arc::clone(run.program()));
        let child_policy = per_conversation_policy::program(program.policy());
        let all = vec![Arc::new(Conversation::root(run))];
        Self(Mutex::new(ConversationSet { all, uses: 0, max: usize::MAX, begun: 0, child_policy }))
    }

    fn set(&self) -> MutexGuard<'_, ConversationSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds or begins the conversation of a call, and marks it as busy. `max` is the number of conversations beyond
    /// which idle ones are ended.
    pub(super) fn occupy(
        &self,
        child: &[String],
        asked: &CallRequest,
        digests: &MessageDigests,
        max: usize,
    ) -> Result<Arc<Conversation>, ChildRefused> {
        let mut set = self.set();
        set.uses = set.uses.saturating_add(1);
        let conversation = set.find_or_begin(child, asked, digests)?;
        {
            let mut state = conversation.state();
            state.occupy();
            state.set_last_used(set.uses);
        }
        set.max = max;
        Ok(conversation)
    }

    /// If the run is about to wrap up, a sibling's call is the wrap-up: marks the first conversation as busy for it and
    /// returns it, unless that one has a call in flight. The sibling's own state stays as it is.
    pub(super) fn occupy_first_for_wrap_up(
        &self,
        sibling: &Conversation,
    ) -> Option<Arc<Conversation>> {
        let first = sibling.first_sibling()?;
        // Conversations are given out under this lock.
        let _set = self.set();
        let mut state = first.state();
        let is_asking = matches!(state.step(), ConversationStep::AwaitingResponse { .. });
        if state.is_busy() || is_asking || !state.run().awaits_wrap_up() {
            return None;
        }
        state.occupy();
        drop(state);
        Some(Arc::clone(first))
    }

    /// Ends the longest idle conversations beyond the maximum.
    pub(super) fn end_surplus(&self) {
        let mut ended = Vec::new();
        {
            let mut set = self.set();
            while set.all.len() > set.max {
                let idle = set.all.iter().enumerate().filter(|(_, conversation)| {
                    conversation.parent().is_some()
                        && !conversation.state().is_busy()
                        && Arc::strong_count(conversation) <= 1
                });
                let rank = |conversation: &Conversation| {
                    (conversation.is_main(), conversation.state().last_used())
                };
                let Some((at, _)) = idle.min_by_key(|(_, conversation)| rank(conversation)) else {
                    break;
                };
                ended.push(set.all.swap_remove(at));
            }
        }
        ended.iter().for_each(|conversation| conversation.end());
    }

    /// Ends every child that is idle: the run is over.
    pub(super) fn end_children(&self) {
        let children: Vec<Arc<Conversation>> = {
            let mut set = self.set();
            let (own, children) =
                std::mem::take(&mut set.all).into_iter().partition(|conversation| {
                    conversation.parent().is_none() || conversation.state().is_busy()
                });
            set.all = own;
            children
        };
        // Descendants first.
        children.iter().rev().for_each(|conversation| conversation.end());
    }

    /// Begins a child again that was refused because the parent run could not continue at that moment.
    pub(super) fn renew(&self, conversation: &Conversation) -> Result<(), ChildRefused> {
        let Some(parent) = conversation.parent() else { return Ok(()) };
        let above = parent.state().run().clone();
        let own = conversation.state().run().clone();
        if stop_of(&own).is_none() || stop_of(&above).is_some() {
            return Ok(());
        }
        if own.look(|run| {
            run.trip_record().rules.iter().any(|it| it.action == Action::Stop && it.trips)
        }) {
            return Ok(());
        }
        conversation.end();
        // Never locked while a conversation is locked.
        let anew = self.set().begin_child(&above, conversation.agent(), conversation.kind())?;
        conversation.state().restart(anew);
        Ok(())
    }
}

impl ConversationSet {
    fn find_or_begin(
        &mut self,
        child: &[String],
        asked: &CallRequest,
        digests: &MessageDigests,
    ) -> Result<Arc<Conversation>, ChildRefused> {
        let main = self.find_or_begin_main(child)?;
        let mut best = None;
        for conversation in self.all.iter().filter(|it| it.group() == main.group()) {
            let state = conversation.state();
            let fit = state.memory().fit(asked, digests).filter(|_| !state.is_busy());
            drop(state);
            // Of equals the first.
            if let Some(fit) = fit
                && best.as_ref().is_none_or(|(known, _)| fit > *known)
            {
                best = Some((fit, Arc::clone(conversation)));
            }
        }
        if let Some((_, conversation)) = best {
            return Ok(conversation);
        }
        let takes_any = {
            let state = main.state();
            let is_partial = asked.thread != Thread::Whole;
            !state.is_busy() && (is_partial || !state.memory().awaits_results())
        };
        if takes_any {
            return Ok(main);
        }
        let above = main.state().run().clone();
        // The first is that of the run.
        let agent = format!("conversation {}", self.begun.saturating_add(2));
        let run = self.begin_child(&above, &agent, ConversationKind::Sibling)?;
        let group = main.group().to_owned();
        let others = self.all.iter().filter(|it| it.group() == group);
        others.for_each(|conversation| conversation.state().pass_by());
        Ok(self.push(main, &group, ConversationKind::Sibling, agent, run))
    }

    /// The first conversation of a child's path. Begins those of the path that are missing.
    fn find_or_begin_main(&mut self, child: &[String]) -> Result<Arc<Conversation>, ChildRefused> {
        let mut main = self.main("").ok_or(ChildRefused)?;
        let mut group = String::new();
        for name in child {
            if !group.is_empty() {
                group.push('/');
            }
            group.push_str(name);
            main = match self.main(&group) {
                Some(known) => known,
                None => {
                    let above = main.state().run().clone();
                    let run = self.begin_child(&above, name, ConversationKind::Named)?;
                    self.push(main, &group, ConversationKind::Named, name.clone(), run)
                }
            };
        }
        Ok(main)
    }

    fn main(&self, group: &str) -> Option<Arc<Conversation>> {
        self.all.iter().find(|it| it.is_main() && it.group() == group).cloned()
    }

    /// Begins a run below another, if all above admit it.
    fn begin_child(
        &mut self,
        parent: &RunHandle,
        agent: &str,
        kind: ConversationKind,
    ) -> Result<RunHandle, ChildRefused> {
        let depth = parent.info().depth.saturating_add(1);
        let begin = EventKind::ChildBegin { depth };
        let is_named = kind == ConversationKind::Named;
        if is_named && !parent.try_begin(&begin, Detail::Child { agent }).admits() {
            return Err(ChildRefused);
        }
        self.begun = self.begun.saturating_add(1);
        let id = parent.info().id.child(self.begun).map_err(|_| ChildRefused)?;
        let policy = self.child_policy.clone().ok_or(ChildRefused)?;
        let child = parent.child(id, agent, policy);
        child.begin();
        Ok(child)
    }

    fn push(
        &mut self,
        parent: Arc<Conversation>,
        group: &str,
        kind: ConversationKind,
        agent: String,
        run: RunHandle,
    ) -> Arc<Conversation> {
        let conversation = Arc::new(Conversation::child(parent, group, kind, agent, run));
        self.all.push(Arc::clone(&conversation));
        conversation
    }
}
