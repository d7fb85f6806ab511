//! The `history` of a run: its model calls a second time, as messages. It adds the functions that were called.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Lists, Turn, WRONG};
use crate::limits::{HISTORY_LOOK_AHEAD, MAX_HISTORY_BYTES};
use crate::openai_chat::{CalledFunction, ChatToolCall};
use crate::reading::Reading;
use crate::text::{Text, text_of};
use crate::warning::Warnings;

/// The key of the list.
pub(super) const HISTORY: &str = "history";

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SweAgentMessage<'a> {
    role: Text<'a>,
    content: Option<&'a RawValue>,
    action: Option<Text<'a>>,
    /// Part of the prompt.
    is_demo: Option<bool>,
    tool_calls: Option<Vec<ChatToolCall<'a>>>,
}

/// The kind of a message of the history.
pub(super) enum HistoryItem {
    /// A model call, still without its result.
    Turn(Turn),
    /// The output of the environment.
    Result(String),
}

/// Reads a message; none is what is neither.
pub(super) fn item_of(item: &RawValue, reading: Reading<'_>) -> Option<HistoryItem> {
    let message: SweAgentMessage<'_> = reading.parse(item, WRONG)?;
    if message.is_demo == Some(true) {
        return None;
    }
    let content = || text_of(message.content).unwrap_or_default();
    match &*message.role {
        "assistant" => {
            let words = content();
            let call = message.tool_calls.and_then(|calls| calls.into_iter().next());
            let named = |function: CalledFunction<'_>| {
                let arguments = text_of(function.arguments).unwrap_or_default();
                Some((function.name?.into_owned(), arguments))
            };
            let action = message.action.unwrap_or_default().trim().to_owned();
            let function = call.and_then(|call| named(call.function?));
            Some(HistoryItem::Turn(Turn { words, action, function, ..Turn::default() }))
        }
        "user" | "tool" => Some(HistoryItem::Result(content())),
        _ => None,
    }
}

/// The functions of the following calls, in their order.
pub(super) struct Functions<'r> {
    lists: &'r Lists<'r>,
    ahead: VecDeque<HistoryCall>,
    bytes: usize,
    limit: usize,
    /// How many calls of the history went through `ahead`.
    passed: usize,
    has_more: bool,
    warnings: Warnings,
}

/// A call of the history, with enough of its text to recognize it.
struct HistoryCall {
    mark: u64,
    function: Option<(String, String)>,
    bytes: usize,
}

impl<'r> Functions<'r> {
    pub(super) fn of(lists: &'r Lists<'r>) -> Self {
        Self::with_limit(lists, MAX_HISTORY_BYTES)
    }

    pub(super) fn with_limit(lists: &'r Lists<'r>, limit: usize) -> Self {
        Self {
            lists,
            ahead: VecDeque::new(),
            bytes: 0,
            limit,
            passed: 0,
            has_more: true,
            warnings: Warnings::default(),
        }
    }

    /// Takes over the function from the history, which has the same calls but those that were not executed.
    pub(super) fn name(&mut self, turn: &mut Turn) {
        if self.has_more && self.ahead.len() < HISTORY_LOOK_AHEAD {
            self.read_on();
        }
        let mark = mark_of(turn);
        let place = self.ahead.iter().take(HISTORY_LOOK_AHEAD).position(|call| call.mark == mark);
        for call in self.ahead.drain(..place.map_or(0, |place| place + 1)) {
            self.bytes -= call.bytes;
            turn.function = call.function;
        }
    }

    /// Holds more of the history: as much as there is room for, and never too little to look ahead.
    fn read_on(&mut self) {
        let (passed, mut index) = (self.passed, 0);
        let warnings = Warnings::default();
        self.has_more = false;
        let lists = self.lists;
        let reading = lists.reading.telling(&warnings);
        lists.each_telling(&warnings, HISTORY, &mut |item| {
            if self.has_more {
                return;
            }
            let Some(HistoryItem::Turn(turn)) = item_of(item, reading) else { return };
            index += 1;
            if index > passed {
                self.hold(turn);
            }
        });
        self.warnings.join(warnings);
    }

    fn hold(&mut self, turn: Turn) {
        if self.bytes >= self.limit && self.ahead.len() >= HISTORY_LOOK_AHEAD {
            self.has_more = true;
            return;
        }
        let mark = mark_of(&turn);
        let texts = turn.function.as_ref().map_or(0, |(name, text)| name.len() + text.len());
        let bytes = texts + size_of::<HistoryCall>();
        self.bytes += bytes;
        self.passed += 1;
        self.ahead.push_back(HistoryCall { mark, function: turn.function, bytes });
    }

    /// The problems in the part of the history that was read.
    pub(super) fn into_warnings(self) -> Warnings {
        self.warnings
    }
}

/// The text, or the action of a call that has none, as a number.
fn mark_of(turn: &Turn) -> u64 {
    let mut hasher = DefaultHasher::new();
    match turn.words.is_empty() {
        true => ("action", &turn.action).hash(&mut hasher),
        false => ("words", &turn.words).hash(&mut hasher),
    }
    hasher.finish()
}
