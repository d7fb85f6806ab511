//! Answers: what they have in common, and those that come as a whole.

use endstop::message::ToolCall;
use endstop::price::UsageShape;

use super::super::parts::{arguments_of, read_object, text_of};
use super::super::reply::{MAX_CALLS, Room, count_bytes, error_words, word};
use super::super::usage::Tally;
use super::super::{Seen, Unreadable};
use crate::json::{List, Raw, fields};

fields! {
    Response<'j> {
        kind: Raw<'j> = "object",
        id: Raw<'j> = "id",
        model: Raw<'j> = "model",
        status: Raw<'j> = "status",
        output: List<Output<'j>> = "output",
        usage: Raw<'j> = "usage",
        service_tier: Raw<'j> = "service_tier",
        error: Raw<'j> = "error",
        incomplete: Incomplete<'j> = "incomplete_details",
    }
}

fields! {
    Incomplete<'j> {
        reason: Raw<'j> = "reason",
    }
}

fields! {
    Output<'j> {
        kind: Raw<'j> = "type",
        id: Raw<'j> = "id",
        call_id: Raw<'j> = "call_id",
        name: Raw<'j> = "name",
        arguments: Raw<'j> = "arguments" | "input",
        content: Raw<'j> = "content",
        summary: Raw<'j> = "summary",
        action: Action<'j> = "action",
    }
}

fields! {
    Action<'j> {
        kind: Raw<'j> = "type",
        queries: List<Raw<'j>> = "queries",
    }
}

impl Output<'_> {
    /// Whether the client is to run it. Other calls run at the provider.
    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind.json(), "\"function_call\"" | "\"custom_tool_call\"")
    }

    /// What the run of a tool at the provider costs by, and how often. Pages that a search opens are free; several
    /// queries of one search are billed as several.
    fn runs(&self) -> Option<(&'static str, u64)> {
        match self.kind.text().as_deref()? {
            "web_search_call"
                if matches!(self.action.kind.text().as_deref(), None | Some("search")) =>
            {
                let queries = u64::try_from(self.action.queries.0.len()).unwrap_or(1);
                Some(("web_searches", queries.max(1)))
            }
            "file_search_call" => Some(("storage_searches", 1)),
            "code_interpreter_call" => Some(("code_executions", 1)),
            _ => None,
        }
    }
}

/// An answer so far.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) seen: Seen,
    pub(super) room: Room,
    pub(super) tally: Tally,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            seen: Seen::default(),
            room: Room::default(),
            tally: Tally::new(UsageShape::OpenAiResponses),
        }
    }

    /// Takes in what a response says of itself, without its output.
    pub(super) fn response(&mut self, response: &Response<'_>) {
        if self.seen.id.is_none() {
            self.seen.id = word(response.id);
        }
        if self.seen.model.is_none() {
            self.seen.model = word(response.model);
        }
        if let Some(usage) = self.tally.take(response.usage, response.service_tier) {
            self.seen.usage = Some(usage);
        }
        if let Some(error) = error_words(response.error) {
            self.seen.error = Some(error);
        }
        let status = word(response.status);
        if status.as_deref() == Some("failed") {
            self.seen.error.get_or_insert_with(|| "the response has failed".to_owned());
        }
        // One that runs in the background is only queued.
        if let Some(status) = status.filter(|status| is_end(status)) {
            self.seen.is_whole = true;
            self.seen.finish = Some(word(response.incomplete.reason).unwrap_or(status));
        }
    }

    /// Adds a call, without its arguments.
    pub(super) fn call(&mut self, item: &Output<'_>) -> Option<String> {
        if self.seen.tool_calls.len() >= MAX_CALLS {
            return None;
        }
        let mut call = ToolCall::default();
        let id = if item.call_id.is_some() { item.call_id } else { item.id };
        self.room.push(&mut call.id, &id.text().unwrap_or_default());
        self.room.push(&mut call.tool, &item.name.text().unwrap_or_default());
        let name = call.tool.clone();
        self.seen.tool_calls.push(call);
        Some(name)
    }

    /// Counts an item that is whole, where it costs by itself.
    pub(super) fn count_runs(&mut self, item: &Output<'_>) {
        let Some((unit, more)) = item.runs() else { return };
        if let Some(usage) = self.tally.count_runs(unit, |runs| runs.saturating_add(more)) {
            self.seen.usage = Some(usage);
        }
    }

    fn item(&mut self, item: &Output<'_>) {
        self.count_runs(item);
        if item.is_call() {
            let arguments = arguments_of(item.arguments);
            count_bytes(&mut self.seen, &arguments);
            if self.call(item).is_some()
                && let Some(call) = self.seen.tool_calls.last_mut()
            {
                self.room.push(&mut call.arguments, &arguments);
            }
            return;
        }
        let text = text_of(item.content);
        count_bytes(&mut self.seen, &text);
        if item.kind.json() == "\"message\"" {
            self.room.push(&mut self.seen.text, &text);
        } else {
            count_bytes(&mut self.seen, &text_of(item.summary));
            count_bytes(&mut self.seen, item.arguments.json());
        }
    }
}

fn is_end(status: &str) -> bool {
    matches!(status, "completed" | "incomplete" | "failed" | "cancelled")
}

/// Reads an answer that is whole.
pub(super) fn read(body: &[u8]) -> Result<Seen, Unreadable> {
    let response: Response<'_> = read_object(body)?;
    let is_one = response.kind.json() == "\"response\"" || response.usage.is_some();
    if !is_one && !response.error.is_some() {
        return Err(Unreadable("no answer of responses".to_owned()));
    }
    let mut progress = Progress::new();
    response.output.0.iter().for_each(|item| progress.item(item));
    progress.response(&response);
    Ok(progress.seen)
}
