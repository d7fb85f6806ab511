//! A response while it is read, alike in the APIs that write it as blocks or items.

use crate::ToolCall;
use endstop_price::UsageShape;

use crate::json::Raw;
use crate::limits::MAX_CALLS;
use crate::response_outline::{TextRoom, count_bytes, error_words};
use crate::usage::UsageTally;
use crate::{CallResponse, EventContent};

/// A response so far.
#[derive(Debug)]
pub(crate) struct ResponseBuilder {
    pub(crate) response: CallResponse,
    pub(crate) room: TextRoom,
    tally: UsageTally,
}

impl ResponseBuilder {
    pub(crate) fn new(shape: UsageShape) -> Self {
        Self {
            response: CallResponse::default(),
            room: TextRoom::default(),
            tally: UsageTally::new(shape),
        }
    }

    /// Records the id and model of a response; the first names stay.
    pub(crate) fn names(&mut self, id: Raw<'_>, model: Raw<'_>) {
        let response = &mut self.response;
        response.id = response.id.take().or_else(|| id.word());
        response.model = response.model.take().or_else(|| model.word());
    }

    /// Records a report of usage, and the tier next to it.
    pub(crate) fn usage(&mut self, report: Raw<'_>, tier: Raw<'_>) {
        if let Some(usage) = self.tally.take(report, tier) {
            self.response.usage = Some(usage);
        }
    }

    /// Counts runs of a tool at the provider: see [`UsageTally::count_runs`].
    pub(crate) fn runs(&mut self, unit: &str, of: impl Fn(u64) -> u64) {
        if let Some(usage) = self.tally.count_runs(unit, of) {
            self.response.usage = Some(usage);
        }
    }

    /// Records an error, if it is one.
    pub(crate) fn error(&mut self, error: Raw<'_>) {
        if let Some(error) = error_words(error) {
            self.response.error = Some(error);
        }
    }

    /// Counts what is no text of the model's, but paid as such.
    pub(crate) fn count(&mut self, more: &str) {
        count_bytes(&mut self.response, more);
    }

    /// Records text of the response.
    pub(crate) fn words(&mut self, words: &str, brought: &mut EventContent) {
        count_bytes(&mut self.response, words);
        self.room.push(&mut self.response.text, words);
        brought.text.push_str(words);
    }

    /// Adds a call without its arguments. Returns the tool's name; `None` if there are too many calls.
    pub(crate) fn begin_call(&mut self, id: Raw<'_>, tool: &str) -> Option<String> {
        if self.response.tool_calls.len() >= MAX_CALLS {
            return None;
        }
        let mut call = ToolCall::default();
        self.room.push(&mut call.id, &id.text().unwrap_or_default());
        self.room.push(&mut call.tool, tool);
        let name = call.tool.clone();
        self.response.tool_calls.push(call);
        Some(name)
    }

    /// Adds to the arguments of the last call, or of the one at a place.
    pub(crate) fn arguments(&mut self, at: Option<usize>, more: &str) {
        let at = at.or_else(|| self.response.tool_calls.len().checked_sub(1));
        if let Some(call) = at.and_then(|at| self.response.tool_calls.get_mut(at)) {
            self.room.push(&mut call.arguments, more);
        }
    }
}
