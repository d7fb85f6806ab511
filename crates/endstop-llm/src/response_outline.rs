//! What the gateway answers by itself, as far as the interfaces have it in common.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::{Asked, Demands, OwnAnswer, Seen, Unreadable};
use crate::json::{Raw, fields};
use crate::stop::StopText;

/// Most bytes that are kept of an answer: its text, and the names and arguments of its calls.
const MAX_TEXT: usize = 4 << 20;

/// Most tool calls that are kept of an answer.
pub(super) const MAX_CALLS: usize = 1_024;

/// Most choices that an answer of the gateway has: what the interfaces allow at most.
const MAX_CHOICES: u64 = 128;

/// What is said where a stop has no words: an empty answer makes clients ask again.
const STOPPED: &str = "Endstop stopped this run.";

/// The tool whose call ends the loop of a client that takes no text for an answer.
pub(super) const FINAL_ANSWER: &str = "final_answer";

/// What an answer of the gateway needs to know of the request.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    /// 32 hexadecimal digits. Equal for equal conversations: clients that know messages by their ids take a
    /// repeated stop for the same, and a stop of a longer conversation for another one.
    pub(super) id: String,
    pub(super) model: String,
    pub(super) choices: u64,
    pub(super) wants_usage: bool,
    pub(super) is_stream: bool,
    pub(super) is_list: bool,
    /// The argument of `final_answer`, where that is to be called.
    pub(super) argument: Option<String>,
}

impl Reply {
    pub(super) fn to(asked: &Asked) -> Self {
        let mut hash = Xxh3::new();
        hash.update(asked.model.as_bytes());
        for message in &asked.messages {
            hash.update(&message.digest.to_le_bytes());
        }
        let argument = match &asked.demands {
            Demands::FinalAnswer { argument } => Some(argument.clone()),
            Demands::Text | Demands::Structure => None,
        };
        Self {
            id: format!("{:032x}", hash.digest128()),
            model: asked.model.clone(),
            choices: asked.choices.clamp(1, MAX_CHOICES),
            wants_usage: asked.wants_usage,
            is_stream: asked.is_stream,
            is_list: asked.is_list,
            argument,
        }
    }
}

/// The arguments of a call of `final_answer`.
pub(super) fn final_arguments(argument: &str, text: &str) -> Value {
    Value::Object([(argument.to_owned(), Value::from(text))].into_iter().collect())
}

/// The words of a stop.
pub(super) fn words(stop: &StopText) -> &str {
    if stop.text.trim().is_empty() { STOPPED } else { &stop.text }
}

/// A JSON answer.
pub(super) fn json_answer(status: StatusCode, body: &Value) -> OwnAnswer {
    OwnAnswer { status, content_type: "application/json", body: body.to_string().into_bytes() }
}

/// A stream of events that is whole.
pub(super) fn stream_answer(body: Vec<u8>) -> OwnAnswer {
    OwnAnswer { status: StatusCode::OK, content_type: "text/event-stream", body }
}

/// Writes an event; without a name, data alone.
pub(super) fn write_event(out: &mut Vec<u8>, name: &str, data: &Value) {
    if !name.is_empty() {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}

/// An event of data alone that is passed on in the place of another.
pub(super) fn changed_event(data: Result<Vec<u8>, Unreadable>) -> Vec<u8> {
    // What cannot be read has no calls either.
    data.map_or(Vec::new(), |data| [&b"data: "[..], &data, b"\n\n"].concat())
}

/// How much more of an answer is kept: text, names and arguments of calls.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MAX_TEXT)
    }
}

impl Room {
    /// Adds to a text as far as there is room, up to a border of characters.
    pub(super) fn push(&mut self, text: &mut String, more: &str) {
        let kept = more.get(..more.floor_char_boundary(self.0)).unwrap_or_default();
        self.0 = self.0.saturating_sub(kept.len());
        text.push_str(kept);
    }

    /// Puts a text in the place of another.
    pub(super) fn set(&mut self, text: &mut String, new: &str) {
        if text != new {
            self.0 = self.0.saturating_add(text.len());
            text.clear();
            self.push(text, new);
        }
    }
}

/// A word that is not empty.
pub(super) fn word(raw: Raw<'_>) -> Option<String> {
    raw.text().map(Cow::into_owned).filter(|word| !word.is_empty())
}

/// Counts bytes of output.
pub(super) fn count_bytes(seen: &mut Seen, text: &str) {
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    seen.output_bytes = seen.output_bytes.saturating_add(bytes);
}

fields! {
    Error<'j> {
        message: Raw<'j> = "message",
        kind: Raw<'j> = "type" | "status",
        code: Raw<'j> = "code",
    }
}

/// The words of an error of any interface; `None` where there is no error.
pub(super) fn error_words(error: Raw<'_>) -> Option<String> {
    if !error.is_some() || matches!(error.json(), "false" | "\"\"") {
        return None;
    }
    let fields: Error<'_> = error.read();
    let places = [fields.message, fields.kind, fields.code, error];
    let words = places.iter().find_map(|place| place.text()).filter(|words| !words.is_empty());
    let mut kept = String::new();
    Room::default().push(&mut kept, words.as_deref().unwrap_or(error.json()));
    Some(kept)
}
