//! The tool calls of the last reply, and where their answers go.

use super::AgentState;
use crate::message::{Message, ToolCall};

impl AgentState {
    /// Where the next answer to the last reply goes: behind its other answers, before whatever a user said
    /// meanwhile.
    pub(crate) fn place_of_answer(&self) -> usize {
        let reply = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }));
        let after = reply.map_or(self.messages.len(), |at| at.saturating_add(1));
        let behind = self.messages.iter().skip(after);
        after.saturating_add(behind.take_while(|m| matches!(m, Message::Tool { .. })).count())
    }

    /// The calls of the last reply that have no answer yet: only of a run that was interrupted.
    pub(crate) fn unanswered(&self) -> Vec<ToolCall> {
        let Some(at) = self.messages.iter().rposition(|m| matches!(m, Message::Assistant { .. }))
        else {
            return Vec::new();
        };
        let (reply, after) = self.messages.split_at(at.saturating_add(1));
        let is_answered =
            |call: &str| after.iter().any(|m| matches!(m, Message::Tool { id, .. } if id == call));
        let calls = reply.last().map_or(&[][..], Message::tool_calls);
        calls.iter().filter(|call| !is_answered(&call.id)).cloned().collect()
    }
}
