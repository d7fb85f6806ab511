//! The text of model responses: matchers carried from piece to piece, and the facts that they make true.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::facts::Facts;
use crate::condition::Fact;
use crate::near_duplicate::{LastResponses, ResponseHash};
use crate::program::{Names, Program};
use crate::text::{Found, TextState};

/// The response that is being streamed, and the last ones, for their similarity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct ComparedResponses {
    reply: ResponseHash,
    last: LastResponses,
}

/// The state carried through the text of model responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Words {
    text: TextState,
    /// Kept if a condition asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    replies: Option<Box<ComparedResponses>>,
    /// Digest of the current agent's name; 0 if unknown.
    agent: u64,
}

/// Agents are distinguished by digest: the meter keeps no names.
fn agent_digest(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

impl Words {
    pub(crate) fn new(program: &Program) -> Self {
        Self {
            text: program.texts().start(),
            replies: program.needs().replies.then(Box::default),
            agent: 0,
        }
    }

    /// From here on this agent speaks.
    pub(crate) fn name_agent(&mut self, name: Option<&str>) {
        self.agent = name.map_or(0, agent_digest);
    }

    /// Records a piece. Returns whether it made a fact true.
    pub(crate) fn feed(&mut self, program: &Program, text: &str, facts: &mut Facts) -> bool {
        if let Some(replies) = &mut self.replies {
            replies.reply.feed(text);
        }
        if program.texts().is_empty() {
            return false;
        }
        let (mut any, agent) = (false, self.agent);
        program.texts().feed(&mut self.text, text.as_bytes(), |found| {
            any = true;
            learn(program, facts, agent, found);
        });
        any
    }

    /// The response is complete. Returns whether that made a fact true.
    pub(crate) fn end_reply(&mut self, program: &Program, facts: &mut Facts) -> bool {
        let mut any = false;
        if program.texts().has_patterns() {
            program.texts().end(&self.text, |found| {
                any = true;
                learn(program, facts, self.agent, found);
            });
        }
        if let Some(replies) = &mut self.replies
            && let Some(hash) = replies.reply.finish()
        {
            if replies.last.has_near(hash) {
                any |= facts.learn(program, |fact| *fact == Fact::NearDuplicate);
            }
            replies.last.push(hash);
        }
        any
    }

    /// Forgets the words so far.
    pub(crate) fn restart(&mut self, program: &Program) {
        if !program.texts().is_empty() {
            program.texts().restart(&mut self.text);
        }
        if let Some(replies) = &mut self.replies {
            replies.reply.clear();
        }
    }

    /// Brings saved matchers under a program. Returns whether they continue from their positions.
    pub(crate) fn fit(&mut self, from: &Names, program: &Program) -> bool {
        let goes_on = from.texts == program.names().texts && program.texts().accepts(&self.text);
        if !goes_on {
            self.text = program.texts().start();
        }
        if program.needs().replies {
            self.replies.get_or_insert_default();
        } else {
            self.replies = None;
        }
        goes_on
    }
}

fn learn(program: &Program, facts: &mut Facts, agent: u64, found: Found) {
    let fact = program.fact_of(found);
    let spoken_by = match program.facts().at(fact) {
        Fact::Said { from: Some(from), .. } => agent_digest(from) == agent,
        _ => true,
    };
    if spoken_by {
        facts.set(fact);
    }
}
