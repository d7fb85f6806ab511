//! The common parts of written answers in all APIs: pieces, events, ids, errors.

use bytes::Bytes;
use serde_json::Value;

/// When the scripted models answer: a fixed time, so that answers are the same (seconds since 1970).
pub(crate) const CREATED: u64 = 1_893_456_000;

/// Characters of arguments per piece of a stream.
const ARGUMENT_PIECE: usize = 16;

/// An answer, before it is sent.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One JSON text.
    Whole(Value),
    /// A stream, piece by piece.
    Stream {
        /// `text/event-stream`, except for Gemini's arrays.
        content_type: &'static str,
        pieces: Vec<Piece>,
    },
}

/// A part that is sent in one write.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// Whether it brings a word: a slow script waits before it.
    pub(crate) is_word: bool,
}

/// Collects the events of a stream.
#[derive(Debug, Default)]
pub(crate) struct Events(Vec<Piece>);

impl Events {
    /// An event that has nothing but data.
    pub(crate) fn data(&mut self, data: &Value, is_word: bool) {
        self.raw(format!("data: {data}\n\n"), is_word);
    }

    /// An event whose name is the data's `type`.
    pub(crate) fn named(&mut self, data: &Value, is_word: bool) {
        let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
        self.raw(format!("event: {name}\ndata: {data}\n\n"), is_word);
    }

    pub(crate) fn raw(&mut self, text: String, is_word: bool) {
        self.0.push(Piece { bytes: text.into(), is_word });
    }

    pub(crate) fn into_answer(self, content_type: &'static str) -> Answer {
        Answer::Stream { content_type, pieces: self.0 }
    }
}

/// The words of a text, each with the space behind it.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// Arguments, in pieces that are cut without regard to what they mean.
pub(crate) fn argument_pieces(arguments: &str) -> Vec<String> {
    let characters: Vec<char> = arguments.chars().collect();
    characters.chunks(ARGUMENT_PIECE).map(|piece| piece.iter().collect()).collect()
}
