//! Conversations that a client continues by the id of an answer instead of sending them again.

use std::collections::{HashMap, VecDeque};

use super::ask::{Ask, Tool};
use super::plan::Reply;
use super::{messages, responses};
use crate::api::Api;

/// Answers that can be continued at the same time; the oldest is forgotten first.
const MAX_KEPT: usize = 256;
/// Tools that are kept with an answer.
const MAX_TOOLS: usize = 128;
/// Bytes of their schemas.
const MAX_SCHEMAS: usize = 64 << 10;

/// What the next request of a conversation builds on.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    turns: u64,
    input_tokens: u64,
    tools: Vec<Tool>,
}

/// The answers that can be continued, by their ids.
#[derive(Debug, Default)]
pub(super) struct Kept {
    by_id: HashMap<String, Conversation>,
    order: VecDeque<String>,
}

impl Kept {
    /// Completes a request that continues an answer. False where that answer is not known.
    pub(super) fn complete(&self, ask: &mut Ask) -> bool {
        let Some(id) = &ask.continues else { return true };
        let Some(before) = self.by_id.get(id) else { return false };
        ask.turns = ask.turns.saturating_add(before.turns);
        ask.input_tokens = ask.input_tokens.saturating_add(before.input_tokens);
        if ask.tools.is_empty() {
            ask.tools.clone_from(&before.tools);
        }
        true
    }

    /// Keeps what an answer was given to, where a later request may continue it. A client of the responses interface
    /// sends its tools again, one of message threads does not.
    pub(super) fn keep(&mut self, ask: &Ask, reply: &Reply) {
        let (id, tools) = match ask.api {
            Api::Responses => (responses::id(reply), Vec::new()),
            Api::Messages if ask.is_thread => (messages::id(reply), small_enough(&ask.tools)),
            _ => return,
        };
        let conversation = Conversation {
            turns: ask.turns.saturating_add(1),
            input_tokens: ask.input_tokens.saturating_add(reply.output_tokens),
            tools,
        };
        if self.by_id.insert(id.clone(), conversation).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > MAX_KEPT {
            if let Some(oldest) = self.order.pop_front() {
                self.by_id.remove(&oldest);
            }
        }
    }
}

fn small_enough(tools: &[Tool]) -> Vec<Tool> {
    let size: usize = tools.iter().map(|tool| tool.schema.to_string().len()).sum();
    if size <= MAX_SCHEMAS && tools.len() <= MAX_TOOLS { tools.to_vec() } else { Vec::new() }
}
