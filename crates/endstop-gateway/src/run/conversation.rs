//! What is remembered of a conversation: enough to know its next request, and how much of that an upstream
//! has counted already.

use endstop::core::units::TokenUsage;
use endstop::message::ToolCall;

use super::Answers;
use endstop_llm::{CallRequest, MessageMark, Thread};

/// Last messages of a request by which a conversation is known again after its history was rewritten.
const TAIL: usize = 4;
/// Longest id of a reply that is remembered, in bytes.
const MAX_ID: usize = 512;

/// Digests of a request's messages: entry `n` is that of the first `n`.
#[derive(Debug)]
pub(crate) struct Rolling(Vec<u64>);

impl Rolling {
    pub(crate) fn of(marks: &[MessageMark]) -> Self {
        let mut all = Vec::with_capacity(marks.len().saturating_add(1));
        let mut sum = 0x9e37_79b9_7f4a_7c15u64;
        all.push(sum);
        for mark in marks {
            sum = (sum.rotate_left(23) ^ mark.digest).wrapping_mul(0xff51_afd7_ed55_8ccd);
            sum ^= sum >> 32;
            all.push(sum);
        }
        Self(all)
    }

    fn of_first(&self, count: usize) -> Option<u64> {
        self.0.get(count).copied()
    }
}

/// What a count of a request's tokens is of, beside its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The bound of instructions and tools: others of the same length are rare.
    fixed: u64,
    /// Digest of the model's name.
    model: u64,
}

impl From<&CallRequest> for Identity {
    fn from(asked: &CallRequest) -> Self {
        let model = xxhash_rust::xxh3::xxh3_64(asked.model.as_bytes());
        Self { fixed: asked.fixed_bound, model }
    }
}

/// What an upstream counted of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    input: u64,
    of: Identity,
}

/// What is remembered of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    count: usize,
    rolling: u64,
    first: Option<u64>,
    tail: [Option<u64>; TAIL],
    last_user: Option<u64>,
    told: Option<Told>,
    /// The id of the last reply, where the upstream gave one.
    reply: Option<String>,
    /// The calls of the last reply that have no result yet.
    pub(crate) calls: Vec<ToolCall>,
}

/// How much of a request's input is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputBound {
    /// The most tokens that it can be.
    pub(crate) input: u64,
    /// Those of them that the upstream counted before.
    pub(crate) told: u64,
    /// It has something of unknown size, so that the bound is a guess.
    pub(crate) is_open: bool,
}

/// How well a request fits a conversation; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The same first words of the user.
    First,
    /// One of the last messages is in it.
    Tail,
    /// It answers the last reply's calls.
    Results,
    /// It begins with all that the last request had: so many messages.
    Continues(usize),
}

impl Memory {
    /// Whether the model waits for results.
    pub(crate) fn awaits_results(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether a request belongs to this conversation.
    pub(crate) fn fit(&self, asked: &CallRequest, rolling: &Rolling) -> Option<Fit> {
        if asked.thread != Thread::Whole && self.is_continued_by(asked) {
            return Some(Fit::Continues(usize::MAX));
        }
        if self.continues(rolling) {
            return Some(Fit::Continues(self.count));
        }
        let answers = |call: &ToolCall| {
            !call.id.is_empty() && asked.results.iter().any(|result| result.id == call.id)
        };
        if self.calls.iter().any(answers) {
            return Some(Fit::Results);
        }
        let has = |digest: u64| asked.messages.iter().any(|mark| mark.digest == digest);
        if self.tail.iter().flatten().any(|digest| has(*digest)) {
            return Some(Fit::Tail);
        }
        let first = first_of_user(asked);
        (first.is_some() && first == self.first).then_some(Fit::First)
    }

    /// Whether a request names the last reply as what it goes on from.
    fn is_continued_by(&self, asked: &CallRequest) -> bool {
        asked.continues.is_some() && asked.continues == self.reply
    }

    fn continues(&self, rolling: &Rolling) -> bool {
        self.count > 0 && rolling.of_first(self.count) == Some(self.rolling)
    }

    /// Whether the user has said something since the last request.
    pub(crate) fn has_new_user_message(&self, asked: &CallRequest, rolling: &Rolling) -> bool {
        if !asked.has_user_message {
            return false;
        }
        if asked.thread == Thread::Whole {
            if self.continues(rolling) {
                return asked.messages.iter().skip(self.count).any(|mark| mark.is_user);
            }
            if asked.results.is_empty() {
                // A task begins, in the same words or in others. A history that was rewritten has results.
                return true;
            }
        }
        let last = asked.messages.iter().rev().find(|mark| mark.is_user).map(|mark| mark.digest);
        last.is_none() || last != self.last_user
    }

    /// The most tokens that a request can be. None where it continues a conversation of unknown size.
    ///
    /// A count of the same beginning, instructions and model stands for what it counted; the rest is bounded.
    pub(crate) fn bound(
        &self,
        asked: &CallRequest,
        rolling: &Rolling,
        answers: &Answers,
    ) -> Option<InputBound> {
        let sum = |marks: &[MessageMark]| {
            marks.iter().fold(0u64, |sum, mark| sum.saturating_add(mark.bound))
        };
        let has_open = |marks: &[MessageMark]| marks.iter().any(|mark| mark.is_open);
        let (all, is_open) =
            (asked.fixed_bound.saturating_add(sum(&asked.messages)), has_open(&asked.messages));
        if asked.thread != Thread::Whole {
            // What was told of another conversation says nothing of this one.
            let before = answers.tokens(asked.continues.as_deref()?)?;
            return Some(InputBound { input: before.saturating_add(all), told: before, is_open });
        }
        let is_same = |told: &Told| told.of == Identity::from(asked);
        let told = self.told.filter(is_same).filter(|_| self.continues(rolling));
        let by_told = told.map(|told| {
            let new = asked.messages.get(self.count..).unwrap_or_default();
            let input = told.input.saturating_add(sum(new));
            InputBound { input, told: told.input, is_open: has_open(new) }
        });
        let by_told = by_told.filter(|by| by.input < all || is_open && !by.is_open);
        Some(by_told.unwrap_or(InputBound { input: all, told: 0, is_open }))
    }

    /// Remembers a request that is about to be sent.
    pub(crate) fn keep_request(&mut self, asked: &CallRequest, rolling: &Rolling) {
        let last_user = asked.messages.iter().rev().find(|mark| mark.is_user);
        self.last_user = last_user.map(|mark| mark.digest).or(self.last_user);
        if asked.thread != Thread::Whole {
            return;
        }
        if !self.continues(rolling) || self.count != asked.messages.len() {
            // Until this request is counted too, the count is of what the lane no longer begins with.
            self.told = None;
        }
        self.count = asked.messages.len();
        self.rolling = rolling.of_first(self.count).unwrap_or_default();
        self.first = first_of_user(asked);
        self.tail = [None; TAIL];
        // The first message says nothing of the rest: many conversations may share it.
        let latest = asked.messages.iter().skip(1).rev();
        for (place, mark) in self.tail.iter_mut().zip(latest) {
            *place = Some(mark.digest);
        }
    }

    /// Remembers what was counted of it, and the calls of the reply.
    pub(crate) fn keep_reply(
        &mut self,
        of: Identity,
        usage: Option<&TokenUsage>,
        id: Option<&str>,
        calls: Vec<ToolCall>,
    ) {
        self.reply = id.filter(|id| id.len() <= MAX_ID).map(str::to_owned);
        let told = |usage: &TokenUsage| Told { input: usage.total_input(), of };
        self.told = usage.map(told);
        self.calls = calls;
    }
}

/// The task. Instructions, which agents of one kind share, do not tell conversations apart.
fn first_of_user(asked: &CallRequest) -> Option<u64> {
    let of_user = asked.messages.iter().find(|mark| mark.is_user);
    of_user.or_else(|| asked.messages.first()).map(|mark| mark.digest)
}
