//! What is kept of an answer while it is read, alike in the interfaces that write it as blocks or items.

use endstop::message::ToolCall;
use endstop::price::UsageShape;

use super::reply::{MAX_CALLS, Room, count_bytes, error_words, word};
use super::usage::Tally;
use super::{EventSeen, Seen};
use crate::json::Raw;

/// An answer so far.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) seen: Seen,
    pub(super) room: Room,
    tally: Tally,
}

impl Progress {
    pub(super) fn new(shape: UsageShape) -> Self {
        Self { seen: Seen::default(), room: Room::default(), tally: Tally::new(shape) }
    }

    /// Takes in what an answer calls itself; the first names stay.
    pub(super) fn names(&mut self, id: Raw<'_>, model: Raw<'_>) {
        let seen = &mut self.seen;
        seen.id = seen.id.take().or_else(|| word(id));
        seen.model = seen.model.take().or_else(|| word(model));
    }

    /// Takes in a report of usage, and the tier that stands beside it.
    pub(super) fn usage(&mut self, report: Raw<'_>, tier: Raw<'_>) {
        if let Some(usage) = self.tally.take(report, tier) {
            self.seen.usage = Some(usage);
        }
    }

    /// Counts runs of a tool at the provider: see [`Tally::count_runs`].
    pub(super) fn runs(&mut self, unit: &str, of: impl Fn(u64) -> u64) {
        if let Some(usage) = self.tally.count_runs(unit, of) {
            self.seen.usage = Some(usage);
        }
    }

    /// Takes in an error, if it is one.
    pub(super) fn error(&mut self, error: Raw<'_>) {
        if let Some(error) = error_words(error) {
            self.seen.error = Some(error);
        }
    }

    /// Counts what is no text of the model's, but paid as such.
    pub(super) fn count(&mut self, more: &str) {
        count_bytes(&mut self.seen, more);
    }

    /// Takes in words of the model.
    pub(super) fn words(&mut self, words: &str, brought: &mut EventSeen) {
        count_bytes(&mut self.seen, words);
        self.room.push(&mut self.seen.text, words);
        brought.text.push_str(words);
    }

    /// Adds a call without its arguments. Gives the tool's name; none where there are too many calls.
    pub(super) fn begin_call(&mut self, id: Raw<'_>, tool: &str) -> Option<String> {
        if self.seen.tool_calls.len() >= MAX_CALLS {
            return None;
        }
        let mut call = ToolCall::default();
        self.room.push(&mut call.id, &id.text().unwrap_or_default());
        self.room.push(&mut call.tool, tool);
        let name = call.tool.clone();
        self.seen.tool_calls.push(call);
        Some(name)
    }

    /// Adds to the arguments of the last call, or of the one at a place.
    pub(super) fn arguments(&mut self, at: Option<usize>, more: &str) {
        let at = at.or_else(|| self.seen.tool_calls.len().checked_sub(1));
        if let Some(call) = at.and_then(|at| self.seen.tool_calls.get_mut(at)) {
            self.room.push(&mut call.arguments, more);
        }
    }
}
