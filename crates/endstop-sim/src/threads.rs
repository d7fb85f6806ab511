//! Conversations that a client continues by the id of an answer instead of sending them again.

use std::collections::{HashMap, VecDeque};

use crate::Api;
use crate::limits::{MAX_THREAD_SCHEMAS, MAX_THREAD_TOOLS, MAX_THREADS};
use crate::plan::PlannedResponse;
use crate::request::{SimRequest, Tool};
use crate::{messages, responses};

/// The basis of the next request of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadState {
    turns: u64,
    input_tokens: u64,
    tools: Vec<Tool>,
}

/// The answers that can be continued, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    by_id: HashMap<String, ThreadState>,
    order: VecDeque<String>,
}

impl Threads {
    /// Completes a request that continues an answer. Returns `false` if that answer is unknown.
    pub(crate) fn complete(&self, request: &mut SimRequest) -> bool {
        let Some(id) = &request.continues else { return true };
        let Some(before) = self.by_id.get(id) else { return false };
        request.turns = request.turns.saturating_add(before.turns);
        request.input_tokens = request.input_tokens.saturating_add(before.input_tokens);
        if request.tools.is_empty() {
            request.tools.clone_from(&before.tools);
        }
        true
    }

    /// Keeps what an answer was given to, if a later request may continue it. A client of the Responses API
    /// sends its tools again, one of message threads does not.
    pub(crate) fn keep(&mut self, request: &SimRequest, reply: &PlannedResponse) {
        let (id, tools) = match request.api {
            Api::Responses => (responses::id(reply), Vec::new()),
            Api::Messages if request.is_thread => {
                (messages::id(reply), small_enough(&request.tools))
            }
            _ => return,
        };
        let conversation = ThreadState {
            turns: request.turns.saturating_add(1),
            input_tokens: request.input_tokens.saturating_add(reply.output_tokens),
            tools,
        };
        if self.by_id.insert(id.clone(), conversation).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > MAX_THREADS {
            if let Some(oldest) = self.order.pop_front() {
                self.by_id.remove(&oldest);
            }
        }
    }
}

fn small_enough(tools: &[Tool]) -> Vec<Tool> {
    let size: usize = tools.iter().map(|tool| tool.schema.to_string().len()).sum();
    if size <= MAX_THREAD_SCHEMAS && tools.len() <= MAX_THREAD_TOOLS {
        tools.to_vec()
    } else {
        Vec::new()
    }
}
