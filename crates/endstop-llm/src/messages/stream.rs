//! Responses that come as a stream of events, and non-streaming ones, which are read in the same way.

use std::collections::BTreeMap;

use endstop_price::UsageShape;
use serde_json::json;

use super::reply::{Answer, Content};
use super::stop;
use crate::StopText;
use crate::delta_template::DeltaTemplate;
use crate::json::{Raw, fields, parse};
use crate::limits::MAX_OPEN_BLOCKS;
use crate::parts::{arguments_of, read_object};
use crate::response_builder::ResponseBuilder;
use crate::response_outline::{ResponseOutline, error_words, words};
use crate::sse::SseEvent;
use crate::{CallRequest, CallResponse, EventContent, ReadError, StreamReader};

fields! {
    Event<'j> {
        kind: Raw<'j> = "type",
        index: Raw<'j> = "index",
        message: Answer<'j> = "message",
        block: Content<'j> = "content_block",
        delta: Delta<'j> = "delta",
        usage: Raw<'j> = "usage",
        error: Raw<'j> = "error",
    }
}

fields! {
    Delta<'j> {
        text: Raw<'j> = "text",
        thinking: Raw<'j> = "thinking",
        json: Raw<'j> = "partial_json",
        reason: Raw<'j> = "stop_reason",
    }
}

fields! {
    Told<'j> {
        output: Raw<'j> = "output_tokens",
    }
}

impl Event<'_> {
    fn has_only_words(&self) -> bool {
        let is_piece = self.kind.json() == "\"content_block_delta\"";
        is_piece && !self.delta.thinking.is_some() && !self.delta.json.is_some()
    }
}

/// The kind of an open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    /// The call is the last of those that were response.
    Call,
    /// Of the provider's own tools, or not known: cannot be closed from outside.
    Other,
}

/// Reads a stream.
#[derive(Debug)]
pub(crate) struct MessagesStream {
    reply: ResponseOutline,
    progress: ResponseBuilder,
    open: BTreeMap<u64, Open>,
    next_index: u64,
    has_started: bool,
    is_done: bool,
    /// Of the last piece of a text.
    around: DeltaTemplate,
}

impl MessagesStream {
    pub(crate) fn new(reply: ResponseOutline) -> Self {
        Self {
            reply,
            progress: ResponseBuilder::new(UsageShape::Anthropic),
            open: BTreeMap::new(),
            next_index: 0,
            has_started: false,
            is_done: false,
            around: DeltaTemplate::default(),
        }
    }

    /// Records a non-streaming response.
    fn whole(mut self, answer: &Answer<'_>) -> CallResponse {
        self.message(answer);
        for block in &answer.content.0 {
            let mut brought = EventContent::default();
            self.open(0, block, &mut brought);
            let input = arguments_of(block.input);
            self.arguments(&input);
            self.close(0);
        }
        self.progress.response.is_whole = true;
        self.progress.response
    }

    fn message(&mut self, answer: &Answer<'_>) {
        self.has_started = true;
        self.progress.names(answer.id, answer.model);
        if let Some(reason) = answer.reason.word() {
            self.progress.response.finish = Some(reason);
        }
        self.progress.usage(answer.usage, Raw::default());
    }

    fn open(&mut self, index: u64, block: &Content<'_>, brought: &mut EventContent) {
        self.next_index = self.next_index.max(index.saturating_add(1));
        let open = match block.kind.text().as_deref() {
            Some("text") => Open::Text,
            Some("thinking" | "redacted_thinking") => Open::Thinking,
            Some("tool_use") => Open::Call,
            _ => Open::Other,
        };
        if self.open.len() < MAX_OPEN_BLOCKS || self.open.contains_key(&index) {
            self.open.insert(index, open);
        }
        self.progress.words(&block.text.text().unwrap_or_default(), brought);
        self.progress.count(&block.thinking.text().unwrap_or_default());
        match open {
            Open::Call => {
                brought.begins_call =
                    self.progress.begin_call(block.id, &block.name.text().unwrap_or_default())
            }
            Open::Other => self.progress.count(block.input.json()),
            Open::Text | Open::Thinking => {}
        }
    }

    /// Adds to the arguments of the call that is open.
    fn arguments(&mut self, more: &str) {
        if self.open.values().any(|open| *open == Open::Call) {
            self.progress.count(more);
            self.progress.arguments(None, more);
        }
    }

    fn close(&mut self, index: u64) {
        let was = self.open.remove(&index);
        let last = self.progress.response.tool_calls.last().filter(|_| was == Some(Open::Call));
        if last.is_some_and(|call| call.arguments.is_empty()) {
            // So the API writes a call without arguments.
            self.progress.arguments(None, "{}");
        }
    }

    fn read_event(&mut self, event: &Event<'_>) -> EventContent {
        let mut brought = EventContent::default();
        let index = event.index.count().unwrap_or(0);
        match event.kind.text().as_deref() {
            Some("message_start") => {
                self.message(&event.message);
                if let Some(usage) = &mut self.progress.response.usage {
                    usage.is_preliminary = true;
                }
            }
            Some("content_block_start") => {
                self.open(index, &event.block, &mut brought);
                if event.block.input.json().len() > "{}".len() {
                    self.arguments(event.block.input.json());
                }
            }
            Some("content_block_delta") => {
                self.progress.words(&event.delta.text.text().unwrap_or_default(), &mut brought);
                self.progress.count(&event.delta.thinking.text().unwrap_or_default());
                let json = event.delta.json.text().unwrap_or_default();
                match self.open.get(&index) {
                    Some(Open::Call) => self.arguments(&json),
                    _ => self.progress.count(&json),
                }
            }
            Some("content_block_stop") => self.close(index),
            Some("message_delta") => {
                if let Some(reason) = event.delta.reason.word() {
                    self.progress.response.finish = Some(reason);
                }
                let known = self.progress.response.usage.as_ref();
                let was = known.is_some_and(|usage| usage.is_preliminary);
                let is_told = event.usage.read::<Told<'_>>().output.is_some();
                self.progress.usage(event.usage, Raw::default());
                if let Some(usage) = &mut self.progress.response.usage {
                    usage.is_preliminary = was && !is_told;
                }
            }
            Some("message_stop") => {
                self.is_done = true;
                self.progress.response.is_whole = true;
            }
            Some("error") => {
                self.progress.response.error = error_words(event.error).or(Some("error".to_owned()))
            }
            _ => {}
        }
        brought
    }
}

impl StreamReader for MessagesStream {
    fn event(&mut self, event: &SseEvent<'_>) -> EventContent {
        if let Some(words) = self.around.words(event.data) {
            let mut brought = EventContent::default();
            self.progress.words(words, &mut brought);
            return brought;
        }
        let Ok(read) = parse::<Event<'_>>(event.data) else {
            // It may have been words: an estimate must not fall short of them.
            self.progress.count(event.data);
            return EventContent::default();
        };
        self.around.forget();
        if read.has_only_words() {
            self.around.keep(event.data, read.delta.text);
        }
        self.read_event(&read)
    }

    fn is_between_blocks(&self) -> bool {
        self.open.values().all(|open| matches!(open, Open::Text | Open::Thinking))
    }

    fn refuse(&mut self, event: &SseEvent<'_>, keep: usize) -> Vec<u8> {
        let index = parse::<Event<'_>>(event.data).ok().and_then(|it| it.index.count());
        let index = index.unwrap_or(0);
        self.open.remove(&index);
        self.next_index = self.next_index.min(index);
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
        if !self.has_started {
            return stop::stream(&self.reply, stop);
        }
        let mut out = Vec::new();
        let output = self.progress.response.usage.as_ref().map_or(0, |usage| usage.tokens.output);
        if self.progress.response.finish.is_some() {
            stop::end(&mut out);
            return out;
        }
        let has_calls = !self.progress.response.tool_calls.is_empty();
        let mut is_said = has_calls;
        for (index, open) in std::mem::take(&mut self.open) {
            if open == Open::Text && !is_said {
                let text = format!("\n\n{}", words(stop));
                stop::delta(&mut out, index, json!({ "type": "text_delta", "text": text }));
                is_said = true;
            }
            stop::close(&mut out, index);
        }
        if !is_said {
            stop::text_block(&mut out, self.next_index, words(stop));
        }
        stop::finish(&mut out, if has_calls { "tool_use" } else { "end_turn" }, output);
        out
    }
}

/// Reads a complete response.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let answer: Answer<'_> = read_object(body)?;
    let reader = MessagesStream::new(ResponseOutline::to(&CallRequest::default()));
    if let Some(error) = error_words(answer.error) {
        return Ok(CallResponse { error: Some(error), ..CallResponse::default() });
    }
    if answer.kind.json() != "\"message\"" && !answer.usage.is_some() {
        return Err(ReadError::NotAResponse("messages"));
    }
    Ok(reader.whole(&answer))
}
