//! The common parts of the responses that the gateway writes, in all APIs.

use http::StatusCode;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use crate::StopText;
use crate::json::{Raw, fields};
use crate::limits::{MAX_CHOICES, MAX_TEXT};
use crate::{CallRequest, CallResponse, OutputContract, ReadError, WrittenResponse};

/// The text of a stop without a message: an empty response makes clients ask again.
const STOPPED: &str = "Endstop stopped this run.";

/// The tool whose call ends the loop of a client that takes no text for a response.
pub(crate) const FINAL_ANSWER: &str = "final_answer";

/// The parts of the request that a response of the gateway depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseOutline {
    /// 32 hexadecimal digits. Equal for equal conversations: clients that know messages by their ids take a
    /// repeated stop for the same, and a stop of a longer conversation for another one.
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) choices: u64,
    pub(crate) wants_usage: bool,
    pub(crate) is_stream: bool,
    pub(crate) is_list: bool,
    /// The argument of `final_answer`, if that has to be called.
    pub(crate) argument: Option<String>,
}

impl ResponseOutline {
    pub(crate) fn to(parsed: &CallRequest) -> Self {
        let mut hash = Xxh3::new();
        hash.update(parsed.model.as_bytes());
        for message in &parsed.messages {
            hash.update(&message.digest.to_le_bytes());
        }
        let argument = match &parsed.contract {
            OutputContract::FinalAnswer { argument } => Some(argument.clone()),
            OutputContract::Text | OutputContract::Structure => None,
        };
        Self {
            id: format!("{:032x}", hash.digest128()),
            model: parsed.model.clone(),
            choices: parsed.choices.clamp(1, MAX_CHOICES),
            wants_usage: parsed.wants_usage,
            is_stream: parsed.is_stream,
            is_list: parsed.is_list,
            argument,
        }
    }
}

/// The arguments of a call of `final_answer`.
pub(crate) fn final_arguments(argument: &str, text: &str) -> Value {
    Value::Object([(argument.to_owned(), Value::from(text))].into_iter().collect())
}

/// The words of a stop.
pub(crate) fn words(stop: &StopText) -> &str {
    if stop.text.trim().is_empty() { STOPPED } else { &stop.text }
}

/// A JSON response.
pub(crate) fn json_answer(status: StatusCode, body: &Value) -> WrittenResponse {
    WrittenResponse {
        status,
        content_type: "application/json",
        body: body.to_string().into_bytes(),
    }
}

/// A complete stream of events.
pub(crate) fn stream_answer(body: Vec<u8>) -> WrittenResponse {
    WrittenResponse { status: StatusCode::OK, content_type: "text/event-stream", body }
}

/// Writes an event; without a name, data alone.
pub(crate) fn write_event(out: &mut Vec<u8>, name: &str, data: &Value) {
    if !name.is_empty() {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    out.extend_from_slice(format!("data: {data}\n\n").as_bytes());
}

/// An event of data alone that is passed on in the place of another.
pub(crate) fn changed_event(data: Result<Vec<u8>, ReadError>) -> Vec<u8> {
    // An unreadable event has no calls either.
    data.map_or(Vec::new(), |data| [&b"data: "[..], &data, b"\n\n"].concat())
}

/// How much more of a response is kept: text, names and arguments of calls.
#[derive(Debug)]
pub(crate) struct TextRoom(usize);

impl Default for TextRoom {
    fn default() -> Self {
        Self(MAX_TEXT)
    }
}

impl TextRoom {
    /// Adds to a text as far as there is room, up to a border of characters.
    pub(crate) fn push(&mut self, text: &mut String, more: &str) {
        let kept = more.get(..more.floor_char_boundary(self.0)).unwrap_or_default();
        self.0 = self.0.saturating_sub(kept.len());
        text.push_str(kept);
    }

    /// Puts a text in the place of another.
    pub(crate) fn set(&mut self, text: &mut String, new: &str) {
        if text != new {
            self.0 = self.0.saturating_add(text.len());
            text.clear();
            self.push(text, new);
        }
    }
}

/// Counts bytes of output.
pub(crate) fn count_bytes(response: &mut CallResponse, text: &str) {
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    response.output_bytes = response.output_bytes.saturating_add(bytes);
}

fields! {
    Error<'j> {
        message: Raw<'j> = "message",
        kind: Raw<'j> = "type" | "status",
        code: Raw<'j> = "code",
    }
}

/// The message of an error of any API; `None` without an error.
pub(crate) fn error_words(error: Raw<'_>) -> Option<String> {
    if !error.is_some() || matches!(error.json(), "false" | "\"\"") {
        return None;
    }
    let fields: Error<'_> = error.read();
    let places = [fields.message, fields.kind, fields.code, error];
    let words = places.iter().find_map(|place| place.text()).filter(|words| !words.is_empty());
    let mut kept = String::new();
    TextRoom::default().push(&mut kept, words.as_deref().unwrap_or(error.json()));
    Some(kept)
}
