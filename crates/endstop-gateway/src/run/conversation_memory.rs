//! The memory of a conversation: enough to recognize its next request, and how much of that an upstream has counted
//! already.

use std::sync::Arc;

use endstop_core::units::TokenUsage;
use endstop_llm::{CallRequest, MessageMark, Thread};
use endstop_runtime::{CountedInput, InputBound, ToolCall};

use super::response_history::ResponseHistory;
use crate::limits::{MAX_FIXED_PARTS, MAX_RESPONSE_ID, TAIL_MESSAGES};

/// Digests of a request's messages: entry `n` is that of the first `n`.
#[derive(Debug)]
pub(crate) struct MessageDigests(Vec<u64>);

impl MessageDigests {
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

    fn of_all(&self) -> u64 {
        match self.0.last() {
            Some(digest) => *digest,
            None => unreachable!("the first entry is that of no messages"),
        }
    }
}

/// Everything besides the messages that a count of a request's tokens depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestIdentity {
    /// Digests of the tools, the instructions and everything else outside the messages, sorted.
    fixed: Arc<[u64]>,
    /// Digest of the model's name.
    model: u64,
    /// The bound of the request by its bytes. `None` if its count is not one of these bytes alone.
    bytes: Option<u64>,
}

impl From<&CallRequest> for RequestIdentity {
    fn from(asked: &CallRequest) -> Self {
        let mut fixed: Vec<u64> =
            asked.fixed.iter().take(MAX_FIXED_PARTS).map(|mark| mark.digest).collect();
        fixed.sort_unstable();
        let is_shown = !is_open(asked) && can_be_counted(asked) && asked.unbounded.is_empty();
        let bytes = is_shown.then(|| bytes_of(asked));
        Self { fixed: fixed.into(), model: model_digest(asked), bytes }
    }
}

impl RequestIdentity {
    /// Most tokens of the parts outside the messages that were not counted with this request.
    fn new_fixed(&self, asked: &CallRequest) -> u64 {
        let is_new = |mark: &&MessageMark| self.fixed.binary_search(&mark.digest).is_err();
        sum(asked.fixed.iter().filter(is_new))
    }
}

/// The bound of all that is in a request.
fn bytes_of(asked: &CallRequest) -> u64 {
    asked.fixed_bound().saturating_add(sum(&asked.messages))
}

/// Whether a request has something of unknown size, in itself or in the upstream's own store.
fn is_open(asked: &CallRequest) -> bool {
    has_open(asked) || names_output(&asked.messages)
}

fn has_open(asked: &CallRequest) -> bool {
    asked.fixed.iter().chain(&asked.messages).any(|mark| mark.is_open)
}

fn names_output(marks: &[MessageMark]) -> bool {
    marks.iter().any(|mark| mark.names_output)
}

/// Most tokens of what is at addresses.
fn elsewhere(marks: &[MessageMark]) -> u64 {
    marks.iter().fold(0, |sum, mark| sum.saturating_add(mark.elsewhere))
}

/// Whether a count of a request is one of all that will be billed: nothing is elsewhere, such as at an address or in the
/// upstream's own store, no other model may respond, and no tool of the provider adds input.
fn can_be_counted(asked: &CallRequest) -> bool {
    elsewhere(&asked.messages) == 0
        && elsewhere(&asked.fixed) == 0
        && asked.thread == Thread::Whole
        && asked.fallbacks.is_empty()
        && asked.more_reads == 0
        && asked.provider_tools.is_empty()
}

fn model_digest(asked: &CallRequest) -> u64 {
    xxhash_rust::xxh3::xxh3_64(asked.model.as_bytes())
}

fn sum<'m>(marks: impl IntoIterator<Item = &'m MessageMark>) -> u64 {
    marks.into_iter().fold(0, |sum, mark| sum.saturating_add(mark.bound))
}

/// Tokens of a request and of its response, as an upstream counted them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReportedInput {
    input: u64,
    output: u64,
    of: RequestIdentity,
}

impl ReportedInput {
    /// The count of the request's bytes. `None` if it has other content.
    fn counted(&self) -> Option<CountedInput> {
        Some(CountedInput { tokens: self.input, bytes: self.of.bytes? })
    }
}

/// The memory of a conversation.
#[derive(Debug, Default)]
pub(crate) struct ConversationMemory {
    count: usize,
    digest: u64,
    first: Option<u64>,
    tail: [Option<u64>; TAIL_MESSAGES],
    last_user: Option<u64>,
    reported: Option<ReportedInput>,
    /// The last request that was counted and has nothing but its bytes. It may be of a beginning that the conversation no
    /// longer has.
    counted: Option<CountedInput>,
    /// The id of the last response, if the upstream gave one.
    reply: Option<String>,
    /// The tool calls of the last response that have no result yet.
    calls: Vec<ToolCall>,
}

/// The largest possible input of a request, and how far that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestBound {
    /// The bound.
    pub(crate) input: InputBound,
    /// Whether it has something of unknown size, so that the bound is a guess.
    pub(crate) is_open: bool,
    /// Whether a count by its upstream is one of all that will be billed.
    pub(crate) can_be_counted: bool,
}

/// How well a request fits a conversation; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchQuality {
    /// The same text at the start of the user's first message.
    First,
    /// One of the last messages is in it.
    Tail,
    /// It has results of the last response's tool calls.
    Results,
    /// It begins with all messages of the last request; their number.
    Continues(usize),
}

impl ConversationMemory {
    /// Whether the model waits for results.
    pub(super) fn awaits_results(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Forgets the tool calls of the last response, and returns them.
    pub(crate) fn take_calls(&mut self) -> Vec<ToolCall> {
        std::mem::take(&mut self.calls)
    }

    /// Returns how well a request matches this conversation, or `None` if it does not.
    pub(super) fn fit(
        &self,
        asked: &CallRequest,
        digests: &MessageDigests,
    ) -> Option<MatchQuality> {
        if asked.thread != Thread::Whole && self.is_continued_by(asked) {
            return Some(MatchQuality::Continues(usize::MAX));
        }
        if self.continues(digests) {
            return Some(MatchQuality::Continues(self.count));
        }
        let answers = |call: &ToolCall| {
            !call.id.is_empty() && asked.results.iter().any(|result| result.id == call.id)
        };
        if self.calls.iter().any(answers) {
            return Some(MatchQuality::Results);
        }
        let has = |digest: u64| asked.messages.iter().any(|mark| mark.digest == digest);
        if self.tail.iter().flatten().any(|digest| has(*digest)) {
            return Some(MatchQuality::Tail);
        }
        let first = first_of_user(asked);
        (first.is_some() && first == self.first).then_some(MatchQuality::First)
    }

    /// Whether a request continues the last response by its id.
    fn is_continued_by(&self, asked: &CallRequest) -> bool {
        asked.continues.is_some() && asked.continues == self.reply
    }

    fn continues(&self, digests: &MessageDigests) -> bool {
        self.count > 0 && digests.of_first(self.count) == Some(self.digest)
    }

    /// Whether the user has said something since the last request.
    pub(crate) fn has_new_user_message(
        &self,
        asked: &CallRequest,
        digests: &MessageDigests,
    ) -> bool {
        if !asked.has_user_message {
            return false;
        }
        if asked.thread == Thread::Whole {
            if self.continues(digests) {
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

    /// Returns the largest possible input of a request, or `None` if it continues a conversation of unknown size.
    ///
    /// Messages, instructions and tools that the upstream counted before have that size; the rest is bounded. References
    /// may lead to something larger each time, so they always count as open, and images as the largest. Earlier output that the upstream keeps is
    /// at most what it counted for the last response.
    pub(crate) fn bound(
        &self,
        asked: &CallRequest,
        digests: &MessageDigests,
        responses: &ResponseHistory,
    ) -> Option<RequestBound> {
        let (all, can_be_counted) = (bytes_of(asked), can_be_counted(asked));
        if asked.thread != Thread::Whole {
            // The size of another conversation says nothing about this one.
            let before = responses.tokens(asked.continues.as_deref()?)?;
            let input = InputBound::continued(before, all);
            return Some(RequestBound { input, is_open: is_open(asked), can_be_counted });
        }
        let by_bytes = InputBound::of_another(self.counted, all);
        let whole = RequestBound { input: by_bytes, is_open: is_open(asked), can_be_counted };
        let is_same = |told: &&ReportedInput| told.of.model == model_digest(asked);
        let Some(told) = self.reported.as_ref().filter(is_same).filter(|_| self.continues(digests))
        else {
            return Some(whole);
        };
        let new = asked.messages.get(self.count..).unwrap_or_default();
        let kept = if names_output(new) { told.output } else { 0 };
        // The image behind an address may be larger by now.
        let known = asked.messages.get(..self.count).unwrap_or_default();
        let parts = [told.of.new_fixed(asked), kept, elsewhere(known)];
        let more = parts.into_iter().fold(sum(new), u64::saturating_add);
        let by_count = InputBound::continued(told.input, more);
        // Output that the upstream keeps is known by the count alone.
        let is_open = has_open(asked);
        let input = if whole.is_open && !is_open { by_count } else { by_count.or_lower(by_bytes) };
        Some(RequestBound { input, is_open, can_be_counted })
    }

    /// Remembers a request that is about to be sent.
    pub(crate) fn remember_request(&mut self, asked: &CallRequest, digests: &MessageDigests) {
        let last_user = asked.messages.iter().rev().find(|mark| mark.is_user);
        self.last_user = last_user.map(|mark| mark.digest).or(self.last_user);
        if asked.thread != Thread::Whole {
            return;
        }
        if !self.continues(digests) || self.count != asked.messages.len() {
            // The count is of a beginning that the conversation no longer has.
            self.reported = None;
        }
        self.count = asked.messages.len();
        self.digest = digests.of_all();
        self.first = first_of_user(asked);
        self.tail = [None; TAIL_MESSAGES];
        // The first message says nothing of the rest: many conversations may share it.
        let latest = asked.messages.iter().skip(1).rev();
        for (place, mark) in self.tail.iter_mut().zip(latest) {
            *place = Some(mark.digest);
        }
    }

    /// Remembers the usage that was reported for it, and the tool calls of the response.
    pub(crate) fn remember_response(
        &mut self,
        of: RequestIdentity,
        usage: Option<&TokenUsage>,
        id: Option<&str>,
        calls: Vec<ToolCall>,
    ) {
        self.reply = id.filter(|id| id.len() <= MAX_RESPONSE_ID).map(str::to_owned);
        let told = |usage: &TokenUsage| {
            let (input, output) = (usage.total_input(), usage.output);
            ReportedInput { input, output, of }
        };
        self.reported = usage.map(told);
        let counted = self.reported.as_ref().and_then(ReportedInput::counted);
        self.counted = counted.or(self.counted);
        self.calls = calls;
    }
}

/// The task. Instructions are the same for agents of one kind, so they do not distinguish conversations.
fn first_of_user(asked: &CallRequest) -> Option<u64> {
    let of_user = asked.messages.iter().find(|mark| mark.is_user);
    of_user.or_else(|| asked.messages.first()).map(|mark| mark.digest)
}
