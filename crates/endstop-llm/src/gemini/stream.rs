//! Responses that come as a stream of events, and non-streaming ones, which are read in the same way.

use endstop_price::UsageShape;

use super::reply::{Answer, Grounding};
use super::request::{Call, Part, bills_by_request};
use super::{edit, stop};
use crate::StopText;
use crate::json::{List, Raw, parse};
use crate::parts::{read_object, text_of_body};
use crate::response_builder::ResponseBuilder;
use crate::response_outline::{ResponseOutline, changed_event, words};
use crate::sse::SseEvent;
use crate::{CallRequest, CallResponse, EventContent, ReadError, StreamReader};

/// Reads a stream.
#[derive(Debug)]
pub(crate) struct GeminiStream {
    reply: ResponseOutline,
    progress: ResponseBuilder,
    has_open_call: bool,
    is_done: bool,
}

impl GeminiStream {
    pub(crate) fn new(reply: ResponseOutline) -> Self {
        Self {
            reply,
            progress: ResponseBuilder::new(UsageShape::Gemini),
            has_open_call: false,
            is_done: false,
        }
    }

    /// Records the pieces of a stream in the form of one list.
    fn pieces(mut self, pieces: &[Answer<'_>]) -> CallResponse {
        pieces.iter().for_each(|piece| drop(self.answer(piece)));
        self.progress.response
    }

    /// Records a non-streaming response.
    fn whole(mut self, answer: &Answer<'_>) -> CallResponse {
        self.answer(answer);
        self.progress.response.is_whole = self.progress.response.error.is_none();
        self.progress.response
    }

    fn answer(&mut self, answer: &Answer<'_>) -> EventContent {
        let mut brought = EventContent::default();
        self.progress.names(answer.id, answer.model);
        self.progress.usage(answer.usage, Raw::default());
        self.progress.error(answer.error);
        for candidate in &answer.candidates.0 {
            let is_first = candidate.index.count().unwrap_or(0) == 0;
            for part in &candidate.content.parts.0 {
                self.part(part, is_first, &mut brought);
            }
            self.count_searches(&candidate.grounding);
            if let Some(finish) = candidate.finish.word().filter(|_| is_first) {
                self.progress.response.finish = Some(finish);
            }
        }
        // A request that is blocked has no candidate that could finish.
        if let Some(block) = answer.feedback.block.word() {
            self.progress.response.finish.get_or_insert(block);
        }
        self.progress.response.is_whole = self.progress.response.finish.is_some();
        brought
    }

    /// Searches are billed by the query, or by the request that had any.
    fn count_searches(&mut self, grounding: &Grounding<'_>) {
        let mut queries: Vec<_> = grounding.queries.0.iter().filter_map(|it| it.word()).collect();
        queries.sort_unstable();
        queries.dedup();
        if queries.is_empty() {
            return;
        }
        let model = self.progress.response.model.as_deref().unwrap_or(&self.reply.model);
        let most =
            if bills_by_request(model) { 1 } else { u64::try_from(queries.len()).unwrap_or(1) };
        self.progress.runs("web_searches", |runs| runs.max(most));
    }

    fn part(&mut self, part: &Part<'_>, is_first: bool, brought: &mut EventContent) {
        let text = part.text.text().unwrap_or_default();
        if is_first && !part.thought.is_true() {
            self.progress.words(&text, brought);
        } else {
            self.progress.count(&text);
        }
        let call = &part.call;
        self.progress.count(call.args.json());
        self.progress.count(call.partial.json());
        let is_call = call.name.is_some() || call.partial.is_some() || self.has_open_call;
        if is_first && is_call && !text_only(part) {
            self.call(call, brought);
        }
    }

    /// A call arrives complete, or, if the request asks for one, in pieces that say whether more follows.
    fn call(&mut self, piece: &Call<'_>, brought: &mut EventContent) {
        let is_new = !self.has_open_call && piece.name.is_some();
        if is_new {
            let name = self.progress.begin_call(piece.id, &piece.name.text().unwrap_or_default());
            brought.begins_call = brought.begins_call.take().or(name);
        }
        let arguments = if piece.args.is_some() { piece.args } else { piece.partial };
        let arguments = if is_new && !arguments.is_some() { "{}" } else { arguments.json() };
        self.progress.arguments(None, arguments);
        self.has_open_call = piece.continues.is_true();
    }
}

/// Whether a part has words and no piece of a call.
fn text_only(part: &Part<'_>) -> bool {
    let call = &part.call;
    part.text.is_some() && !call.name.is_some() && !call.partial.is_some()
}

impl StreamReader for GeminiStream {
    fn event(&mut self, event: &SseEvent<'_>) -> EventContent {
        let Ok(answer) = parse::<Answer<'_>>(event.data) else {
            // It may have been words: an estimate must not fall short of them.
            self.progress.count(event.data);
            return EventContent::default();
        };
        self.answer(&answer)
    }

    fn is_between_blocks(&self) -> bool {
        !self.has_open_call
    }

    fn refuse(&mut self, event: &SseEvent<'_>, keep: usize) -> Vec<u8> {
        let answer: Answer<'_> = parse(event.data).unwrap_or_default();
        let first = answer.candidates.0.iter().filter(|it| it.index.count().unwrap_or(0) == 0);
        let parts = first.flat_map(|candidate| &candidate.content.parts.0);
        let begun = parts.filter(|part| part.call.name.is_some()).count();
        let before = self.progress.response.tool_calls.len().saturating_sub(begun);
        self.progress.response.tool_calls.truncate(keep);
        self.progress.response.finish = None;
        (self.progress.response.is_whole, self.has_open_call) = (false, false);
        let mut left = keep.saturating_sub(before);
        changed_event(edit::without_calls(event.data.as_bytes(), &mut left, true))
    }

    fn response(&self) -> &CallResponse {
        &self.progress.response
    }

    fn end(&mut self, stop: &StopText) -> Vec<u8> {
        if std::mem::replace(&mut self.is_done, true) || self.progress.response.finish.is_some() {
            return Vec::new();
        }
        let model = self.progress.response.model.as_deref().unwrap_or(&self.reply.model);
        let response = &self.progress.response;
        let usage = response.usage.as_ref().map(|usage| usage.tokens).unwrap_or_default();
        let usage = [usage.total_input(), usage.output];
        let Some(id) = &self.progress.response.id else {
            if self.progress.response == CallResponse::default() {
                return stop::stream(&self.reply, stop);
            }
            return stop::last(&self.last_words(stop), model, &self.reply.id, usage);
        };
        stop::last(&self.last_words(stop), model, id, usage)
    }
}

impl GeminiStream {
    /// The text of the last event: empty if there are calls, so that the client makes them and returns.
    fn last_words(&self, stop: &StopText) -> String {
        if !self.progress.response.tool_calls.is_empty() {
            return String::new();
        }
        let gap = if self.progress.response.text.is_empty() { "" } else { "\n\n" };
        format!("{gap}{}", words(stop))
    }
}

/// Reads a complete response: an object, or a list of them.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let reader = GeminiStream::new(ResponseOutline::to(&CallRequest::default()));
    if body.trim_ascii_start().starts_with(b"[") {
        let pieces: List<Answer<'_>> = parse(text_of_body(body)?)?;
        return Ok(reader.pieces(&pieces.0));
    }
    let answer: Answer<'_> = read_object(body)?;
    let says_something =
        answer.usage.is_some() || answer.error.is_some() || answer.feedback.block.is_some();
    if answer.candidates.0.is_empty() && !says_something {
        return Err(ReadError::NotAResponse("generateContent"));
    }
    Ok(reader.whole(&answer))
}
