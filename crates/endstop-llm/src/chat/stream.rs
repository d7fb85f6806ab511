//! Responses that come as a stream of events, and non-streaming ones, which are read in the same way.

use std::collections::BTreeMap;

use crate::ToolCall;
use crate::limits::{MAX_CALLS, MAX_CHOICES};
use endstop_price::UsageShape;
use serde::de::IgnoredAny;
use serde_json::json;

use super::edit;
use super::reply::{Choice, Chunk, Piece};
use super::stop::{self, DONE, Head};
use crate::StopText;
use crate::delta_template::DeltaTemplate;
use crate::json::{Raw, parse};
use crate::parts::{Kind, arguments_of, read_object, text_of};
use crate::response_outline::{
    ResponseOutline, TextRoom, changed_event, count_bytes, error_words, words, write_event,
};
use crate::sse::SseEvent;
use crate::usage::UsageTally;
use crate::{CallResponse, EventContent, ReadError, StreamReader, is_done};

/// One choice so far.
#[derive(Debug, Default)]
struct ChoiceState {
    has_text: bool,
    has_call: bool,
    is_finished: bool,
}

/// Reads a stream.
#[derive(Debug)]
pub(crate) struct ChatStream {
    reply: ResponseOutline,
    response: CallResponse,
    room: TextRoom,
    tally: UsageTally,
    head: Option<Head>,
    choices: BTreeMap<u64, ChoiceState>,
    /// The index that the stream gives to each call of the response.
    places: Vec<Option<u64>>,
    is_legacy: bool,
    /// Calls were taken back: those before them are complete, as another had begun.
    has_refused: bool,
    is_done: bool,
    /// Of the last chunk that had words of a choice and nothing else, and which choice that was.
    around: DeltaTemplate,
    speaker: u64,
}

impl ChatStream {
    pub(crate) fn new(reply: ResponseOutline) -> Self {
        Self {
            reply,
            response: CallResponse::default(),
            room: TextRoom::default(),
            tally: UsageTally::new(UsageShape::OpenAiChat),
            head: None,
            choices: BTreeMap::new(),
            places: Vec::new(),
            is_legacy: false,
            has_refused: false,
            is_done: false,
            around: DeltaTemplate::default(),
            speaker: 0,
        }
    }

    /// Records a response that is one chunk.
    fn whole(mut self, chunk: &Chunk<'_>) -> CallResponse {
        self.chunk(chunk);
        self.response.is_whole = self.response.error.is_none();
        self.response
    }

    fn chunk(&mut self, chunk: &Chunk<'_>) -> EventContent {
        let mut brought = EventContent::default();
        self.note_head(chunk);
        let usage = if chunk.usage.is_some() { chunk.usage } else { chunk.groq.usage };
        if let Some(usage) = self.tally.take(usage, chunk.service_tier) {
            self.response.usage = Some(usage);
        }
        if let Some(error) = error_words(chunk.error) {
            self.response.error = Some(error);
        }
        for choice in &chunk.choices.0 {
            self.choice(choice, &mut brought);
        }
        let is_finished =
            !self.choices.is_empty() && self.choices.values().all(|it| it.is_finished);
        self.response.is_whole |= is_finished;
        brought.is_only_usage =
            chunk.choices.0.is_empty() && chunk.usage.is_object() && !chunk.error.is_some();
        brought
    }

    fn note_head(&mut self, chunk: &Chunk<'_>) {
        if self.response.id.is_none() {
            self.response.id = chunk.id.word();
        }
        if self.response.model.is_none() {
            self.response.model = chunk.model.word();
        }
        if self.head.is_none()
            && let Some(id) = self.response.id.clone()
        {
            let model = self.response.model.clone().unwrap_or_else(|| self.reply.model.clone());
            let created = chunk.created.count().unwrap_or(0);
            self.head = Some(Head { id, model, created });
        }
    }

    fn choice(&mut self, choice: &Choice<'_>, brought: &mut EventContent) {
        let index = choice.index.count().unwrap_or(0);
        if self.choices.len() as u64 >= MAX_CHOICES && !self.choices.contains_key(&index) {
            return;
        }
        let message = &choice.message;
        self.words_of(index, &text_of(message.content), brought);
        self.words_of(index, &text_of(message.refusal), brought);
        self.count_searches(message.annotations);
        let progress = self.choices.entry(index).or_default();
        count_bytes(&mut self.response, &text_of(message.reasoning));
        let legacy = &message.function_call;
        let is_legacy = legacy.name.is_some() || legacy.arguments.is_some();
        progress.has_call |= is_legacy || !message.calls.0.is_empty();
        if let Some(finish) = choice.finish.text().filter(|finish| !finish.is_empty()) {
            progress.is_finished = true;
            if index == 0 {
                self.response.finish = Some(finish.into_owned());
            }
        }
        for piece in &message.calls.0 {
            self.piece(index, piece, brought);
        }
        if is_legacy {
            self.is_legacy = true;
            let piece = Piece { function: legacy.clone(), ..Piece::default() };
            self.piece(index, &piece, brought);
        }
    }

    fn words_of(&mut self, index: u64, words: &str, brought: &mut EventContent) {
        self.take_words(index, words);
        if index == 0 {
            brought.text.push_str(words);
        }
    }

    fn take_words(&mut self, index: u64, words: &str) {
        self.choices.entry(index).or_default().has_text |= !words.is_empty();
        count_bytes(&mut self.response, words);
        if index == 0 {
            self.room.push(&mut self.response.text, words);
        }
    }

    /// A response that cites the web has searched it: how often is not said.
    fn count_searches(&mut self, annotations: Raw<'_>) {
        let cites = |it: &Raw<'_>| it.read::<Kind<'_>>().kind.json() == "\"url_citation\"";
        if annotations.is_list()
            && annotations.items().iter().any(cites)
            && let Some(usage) = self.tally.count_runs("web_searches", |_| 1)
        {
            self.response.usage = Some(usage);
        }
    }

    /// Keeps what is around the words of a chunk that has nothing else which could count again.
    fn keep_around(&mut self, data: &str, chunk: &Chunk<'_>) {
        self.around.forget();
        let [choice] = &*chunk.choices.0 else { return };
        self.speaker = choice.index.count().unwrap_or(0);
        let has_more = [chunk.usage, chunk.groq.usage, chunk.error].iter().any(|it| it.is_some());
        if !has_more && choice.has_only_words() && self.choices.contains_key(&self.speaker) {
            self.around.keep(data, choice.message.content);
        }
    }

    /// Which call a piece is of.
    fn call_of(&self, piece: &Piece<'_>) -> Option<usize> {
        let (place, id) = (piece.index.count(), piece.id());
        let is_it = |(call, known): (&ToolCall, &Option<u64>)| {
            let is_place = place.is_none() || *known == place;
            is_place && id.as_ref().is_none_or(|id| call.id.is_empty() || call.id == *id)
        };
        self.response.tool_calls.iter().zip(&self.places).rposition(is_it)
    }

    /// Records a piece of a call. Some servers leave out the index, or give all calls the same one.
    fn piece(&mut self, choice: u64, piece: &Piece<'_>, brought: &mut EventContent) {
        let arguments = arguments_of(piece.function.arguments);
        count_bytes(&mut self.response, &arguments);
        if choice != 0 {
            return;
        }
        let (place, id) = (piece.index.count(), piece.id());
        let mut known = self.call_of(piece);
        if known.is_none() && self.response.tool_calls.len() < MAX_CALLS {
            known = Some(self.response.tool_calls.len());
            self.response.tool_calls.push(ToolCall::default());
            self.places.push(place);
        }
        let Some(call) = known.and_then(|at| self.response.tool_calls.get_mut(at)) else { return };
        if let Some(id) = id {
            self.room.set(&mut call.id, &id);
        }
        let name = piece.function.name.text().unwrap_or_default();
        if call.tool.is_empty() && !name.is_empty() {
            self.room.push(&mut call.tool, &name);
            brought.begins_call.get_or_insert_with(|| call.tool.clone());
        }
        self.room.push(&mut call.arguments, &arguments);
    }

    /// Whether the calls of a choice without a finish are known to be complete: only the last one can grow, and an
    /// object that is closed cannot.
    fn has_whole_calls(&self, choice: u64) -> bool {
        let last = self.response.tool_calls.last().filter(|_| choice == 0);
        last.is_some_and(|call| {
            if self.has_refused && call.arguments.is_empty() {
                return true;
            }
            call.arguments.trim_start().starts_with('{')
                && serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok()
        })
    }
}

impl StreamReader for ChatStream {
    fn event(&mut self, event: &SseEvent<'_>) -> EventContent {
        if let Some(words) = StreamReader::words(self, event) {
            return EventContent { text: words.to_owned(), ..EventContent::default() };
        }
        if is_done(event.data) {
            self.is_done = true;
            self.response.is_whole = true;
            return EventContent::default();
        }
        let Ok(chunk) = parse::<Chunk<'_>>(event.data) else {
            // It may have been words: an estimate must not fall short of them.
            count_bytes(&mut self.response, event.data);
            return EventContent::default();
        };
        let brought = self.chunk(&chunk);
        self.keep_around(event.data, &chunk);
        brought
    }

    fn words<'e>(&mut self, event: &SseEvent<'e>) -> Option<&'e str> {
        let words = self.around.words(event.data)?;
        self.take_words(self.speaker, words);
        Some(if self.speaker == 0 { words } else { "" })
    }

    fn is_between_blocks(&self) -> bool {
        self.choices
            .iter()
            .all(|(index, it)| it.is_finished || !it.has_call || self.has_whole_calls(*index))
    }

    fn refuse(&mut self, event: &SseEvent<'_>, keep: usize) -> Vec<u8> {
        let is_kept = |piece: Raw<'_>| self.call_of(&piece.read()).is_some_and(|at| at < keep);
        let changed = edit::without_calls(event.data.as_bytes(), "delta", is_kept);
        self.response.tool_calls.truncate(keep);
        self.places.truncate(keep);
        (self.response.finish, self.response.is_whole) = (None, false);
        (self.has_refused, self.is_legacy) = (true, self.is_legacy && keep > 0);
        if let Some(choice) = self.choices.get_mut(&0) {
            (choice.has_call, choice.is_finished) = (keep > 0, false);
        }
        changed_event(changed)
    }

    fn response(&self) -> &CallResponse {
        &self.response
    }

    fn end(&mut self, stop: &StopText) -> Vec<u8> {
        if std::mem::replace(&mut self.is_done, true) {
            return Vec::new();
        }
        if self.head.is_none() && self.choices.is_empty() {
            return stop::stream(&self.reply, stop);
        }
        let head = self.head.clone().unwrap_or_else(|| Head::of(&self.reply));
        if self.choices.is_empty() {
            self.choices.insert(0, ChoiceState::default());
        }
        let mut out = Vec::new();
        for (index, choice) in self.choices.iter().filter(|(_, choice)| !choice.is_finished) {
            let finish = match (choice.has_call, self.is_legacy) {
                (true, true) => "function_call",
                (true, false) => "tool_calls",
                (false, _) => {
                    let gap = if choice.has_text { "\n\n" } else { "" };
                    let delta = json!({ "content": format!("{gap}{}", words(stop)) });
                    write_event(&mut out, "", &head.delta(*index, delta, None));
                    "stop"
                }
            };
            write_event(&mut out, "", &head.delta(*index, json!({}), Some(finish)));
        }
        if self.reply.wants_usage && self.response.usage.is_none() {
            write_event(&mut out, "", &head.usage(0, 0));
        }
        out.extend_from_slice(DONE.as_bytes());
        out
    }
}

/// Reads a complete response.
pub(crate) fn read(body: &[u8]) -> Result<CallResponse, ReadError> {
    let chunk: Chunk<'_> = read_object(body)?;
    if chunk.choices.0.is_empty() && !chunk.usage.is_some() && !chunk.error.is_some() {
        return Err(ReadError::NotAResponse("chat completions"));
    }
    Ok(ChatStream::new(ResponseOutline::default()).whole(&chunk))
}
