//! The right of a call to use its conversation.

use std::sync::Arc;

use endstop_llm::CallRequest;

use super::conversation::Conversation;
use super::conversation_match::ChildRefused;
use super::conversation_memory::MessageDigests;
use super::entry::RunEntry;
use crate::config::Bounds;

/// Why a call gets no conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireError {
    /// Too many calls of the run are in flight.
    TooManyCalls,
    /// The run refuses a sub-agent.
    ChildRefused,
}

impl From<ChildRefused> for AcquireError {
    fn from(_: ChildRefused) -> Self {
        Self::ChildRefused
    }
}

/// The right of one call to use its conversation; the next call gets it when this one drops it.
#[derive(Debug)]
pub(crate) struct ConversationPermit {
    run: Arc<RunEntry>,
    conversation: Arc<Conversation>,
}

impl ConversationPermit {
    /// Finds the conversation of a call, and takes it.
    pub(crate) fn acquire(
        run: &Arc<RunEntry>,
        child: &[String],
        asked: &CallRequest,
        digests: &MessageDigests,
        bounds: &Bounds,
    ) -> Result<Self, AcquireError> {
        if !run.enter_call(bounds.calls) {
            return Err(AcquireError::TooManyCalls);
        }
        let max = bounds.conversations;
        match run.conversations().occupy(child, asked, digests, max) {
            Ok(conversation) => Ok(Self { run: Arc::clone(run), conversation }),
            Err(why) => {
                run.cancel_enter();
                Err(why.into())
            }
        }
    }

    pub(crate) const fn run(&self) -> &Arc<RunEntry> {
        &self.run
    }

    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Takes the first conversation instead of the call's if the call will be the run's wrap-up; see
    /// [`Conversations::occupy_first_for_wrap_up`](super::conversation_match). `before_move` runs while the call's
    /// conversation is still taken.
    pub(crate) fn move_to_first_for_wrap_up(
        &mut self,
        before_move: impl FnOnce(&Conversation),
    ) -> bool {
        let first = self.run.conversations().occupy_first_for_wrap_up(&self.conversation);
        let Some(first) = first else { return false };
        before_move(&self.conversation);
        let left = std::mem::replace(&mut self.conversation, first);
        left.state().vacate();
        true
    }

    /// Begins the conversation's run again if it was refused because the parent run could not continue at that
    /// moment.
    pub(crate) fn renew(&self) -> Result<(), ChildRefused> {
        self.run.conversations().renew(&self.conversation)
    }
}

impl Drop for ConversationPermit {
    fn drop(&mut self) {
        self.conversation.pass_on_stop();
        self.conversation.state().vacate();
        self.run.leave_call();
    }
}
