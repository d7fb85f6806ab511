//! Responses that come as a stream of events.

use std::collections::BTreeMap;

use endstop_price::UsageShape;

use super::reply::{Output, Response, begin_call, count_runs, take_response};
use super::stop::{Ending, OpenText, stream};
use crate::StopText;
use crate::json::{Raw, fields, parse};
use crate::limits::MAX_OUTPUT_ITEMS;
use crate::parts::{Kind, arguments_of};
use crate::response_builder::ResponseBuilder;
use crate::response_outline::{ResponseOutline, error_words, words};
use crate::sse::SseEvent;
use crate::{CallResponse, EventContent, PlanWindow, StreamReader};

fields! {
    Event<'j> {
        kind: Raw<'j> = "type",
        sequence: Raw<'j> = "sequence_number",
        response: Raw<'j> = "response",
        index: Raw<'j> = "output_index",
        content_index: Raw<'j> = "content_index",
        item_id: Raw<'j> = "item_id",
        item: Raw<'j> = "item",
        part: Kind<'j> = "part",
        delta: Raw<'j> = "delta",
        arguments: Raw<'j> = "arguments" | "input",
        error: Raw<'j> = "error",
        message: Raw<'j> = "message",
    }
}

/// An item of the output so far.
#[derive(Debug)]
enum Progressing {
    /// Words, and the part of them that is open.
    Message { id: String, open: Option<u64>, text: String },
    /// The place of the call in what was response.
    Call(Option<usize>),
    /// Thoughts, as the item began.
    Reasoning(String),
    /// Something that the provider runs.
    Other,
    /// As it was when it ended.
    Done(String),
}

/// Reads a stream.
#[derive(Debug)]
pub(crate) struct ResponsesStream {
    reply: ResponseOutline,
    progress: ResponseBuilder,
    /// The response as the first event had it, and the number of the next event.
    response: String,
    next_sequence: u64,
    items: BTreeMap<u64, Progressing>,
    is_done: bool,
}

impl ResponsesStream {
    pub(crate) fn new(reply: ResponseOutline) -> Self {
        Self {
            reply,
            progress: ResponseBuilder::new(UsageShape::OpenAiResponses),
            response: String::new(),
            next_sequence: 0,
            items: BTreeMap::new(),
            is_done: false,
        }
    }

    fn read_event(&mut self, event: &Event<'_>) -> EventContent {
        let mut brought = EventContent::default();
        if let Some(sequence) = event.sequence.count() {
            self.next_sequence = sequence.saturating_add(1);
        }
        let index = event.index.count().unwrap_or(0);
        let kind = event.kind.text().unwrap_or_default();
        match &*kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                if self.response.is_empty() {
                    self.progress.room.push(&mut self.response, event.response.json());
                }
                take_response(&mut self.progress, &event.response.read());
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.is_done = true;
                let response: Response<'_> = event.response.read();
                take_response(&mut self.progress, &response);
            }
            "response.output_item.added" => brought.begins_call = self.begin(index, event.item),
            "response.content_part.added" => {
                if let Some(Progressing::Message { open, .. }) = self.items.get_mut(&index)
                    && event.part.kind.json() == "\"output_text\""
                {
                    *open = Some(event.content_index.count().unwrap_or(0));
                }
            }
            "response.content_part.done" => {
                if let Some(Progressing::Message { open, .. }) = self.items.get_mut(&index) {
                    *open = None;
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.words(index, &event.delta.text().unwrap_or_default(), &mut brought);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments(index, &event.delta.text().unwrap_or_default());
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.settle_arguments(index, &arguments_of(event.arguments));
            }
            "response.output_item.done" => self.finish_item(index, event.item),
            "error" => {
                let error = if event.error.is_some() { event.error } else { event.message };
                let words = error_words(error).unwrap_or_else(|| "error".to_owned());
                self.progress.response.error = Some(words);
            }
            other if other.ends_with(".delta") => {
                let delta = event.delta.text().unwrap_or_default();
                self.progress.count(&delta);
            }
            _ => {}
        }
        brought
    }

    fn begin(&mut self, index: u64, item: Raw<'_>) -> Option<String> {
        let output: Output<'_> = item.read();
        if self.items.len() >= MAX_OUTPUT_ITEMS {
            return None;
        }
        let mut began = None;
        let state = match output.kind.text().as_deref() {
            Some("message") => Progressing::Message {
                id: output.id.text().unwrap_or_default().into_owned(),
                open: None,
                text: String::new(),
            },
            Some("reasoning") => {
                let mut whole = String::new();
                self.progress.room.push(&mut whole, item.json());
                Progressing::Reasoning(whole)
            }
            Some(_) if output.is_call() => {
                began = begin_call(&mut self.progress, &output);
                let last = self.progress.response.tool_calls.len().checked_sub(1);
                Progressing::Call(last.filter(|_| began.is_some()))
            }
            _ => Progressing::Other,
        };
        self.items.insert(index, state);
        began
    }

    fn words(&mut self, index: u64, delta: &str, brought: &mut EventContent) {
        self.progress.words(delta, brought);
        if let Some(Progressing::Message { text, .. }) = self.items.get_mut(&index) {
            self.progress.room.push(text, delta);
        }
    }

    fn arguments(&mut self, index: u64, delta: &str) {
        self.progress.count(delta);
        if let Some(Progressing::Call(Some(at))) = self.items.get(&index) {
            self.progress.arguments(Some(*at), delta);
        }
    }

    /// The arguments as a whole: some servers send no pieces of them.
    fn settle_arguments(&mut self, index: u64, whole: &str) {
        let Some(Progressing::Call(Some(at))) = self.items.get(&index) else { return };
        let Some(call) = self.progress.response.tool_calls.get(*at) else { return };
        if call.arguments.is_empty() && !whole.is_empty() {
            self.progress.arguments(Some(*at), whole);
            self.progress.count(whole);
        }
    }

    fn finish_item(&mut self, index: u64, item: Raw<'_>) {
        let output: Output<'_> = item.read();
        self.settle_arguments(index, &output.arguments());
        if !matches!(self.items.get(&index), Some(Progressing::Done(_))) {
            count_runs(&mut self.progress, &output);
        }
        let mut whole = String::new();
        self.progress.room.push(&mut whole, item.json());
        if self.items.len() < MAX_OUTPUT_ITEMS || self.items.contains_key(&index) {
            self.items.insert(index, Progressing::Done(whole));
        }
    }
}

impl StreamReader for ResponsesStream {
    fn event(&mut self, event: &SseEvent<'_>) -> EventContent {
        if event.data.trim() == "[DONE]" {
            return EventContent::default();
        }
        let Ok(read) = parse::<Event<'_>>(event.data) else {
            // It may have been words: an estimate must not fall short of them.
            self.progress.count(event.data);
            return EventContent::default();
        };
        let mut brought = self.read_event(&read);
        if read.kind.json() == "\"codex.rate_limits\"" {
            brought.windows = PlanWindow::of_event(event.data);
        }
        brought
    }

    fn is_between_blocks(&self) -> bool {
        !self.items.values().any(|item| matches!(item, Progressing::Call(_) | Progressing::Other))
    }

    fn refuse(&mut self, event: &SseEvent<'_>, keep: usize) -> Vec<u8> {
        let event: Event<'_> = parse(event.data).unwrap_or_default();
        self.items.remove(&event.index.count().unwrap_or(0));
        // The number of the event is that of the next one.
        self.next_sequence = event.sequence.count().unwrap_or(self.next_sequence);
        self.progress.response.tool_calls.truncate(keep);
        Vec::new()
    }

    fn response(&self) -> &CallResponse {
        &self.progress.response
    }

    fn end(&mut self, stop: &StopText) -> Vec<u8> {
        if std::mem::replace(&mut self.is_done, true) {
            return Vec::new();
        }
        if self.next_sequence == 0 && self.response.is_empty() && self.items.is_empty() {
            return stream(&self.reply, stop);
        }
        let mut ending = Ending::new(&self.reply, &self.response, self.next_sequence);
        let mut is_said = !self.progress.response.tool_calls.is_empty();
        for (index, item) in &self.items {
            match item {
                Progressing::Done(item) => ending.keep(item),
                Progressing::Reasoning(item) => ending.close(*index, item),
                Progressing::Message { id, open, text } => {
                    // A part that has ended takes no more words.
                    let is_open = open.is_some() || text.is_empty();
                    let gap = if text.is_empty() { "" } else { "\n\n" };
                    let more = format!("{gap}{}", words(stop));
                    let more = if is_open && !is_said { more.as_str() } else { "" };
                    let open = OpenText { id, index: *index, part: *open, text };
                    ending.close_text(&open, more);
                    is_said |= is_open;
                }
                Progressing::Call(_) | Progressing::Other => {}
            }
        }
        let next = self.items.keys().next_back().map_or(0, |last| last.saturating_add(1));
        if !is_said {
            ending.say(next, words(stop));
        }
        let tokens = self.progress.response.usage.as_ref().map(|usage| usage.tokens);
        let tokens = tokens.unwrap_or_default();
        ending.complete([tokens.total_input(), tokens.output])
    }
}
