//! Kinds of content: how a part of a request is recognized, and its hold before the call.
//!
//! A message is held at its bytes, as no tokenizer makes more tokens than there are bytes. Some content costs more
//! than its bytes tell: images, documents with pages, recordings, and all that is only referred to.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::Api;
use crate::price_fields::with_underscores;
use crate::provider_tools::matches;

pub use crate::limits::{FILE_TOKENS, IMAGE_TOKENS};

/// Models whose images are charged as many more tokens than they have, with the most of one image.
/// Source: OpenAI's guide on images, of tiles of 512 pixels: 2,833 and 5,667 for each of at most 8.
pub const DEAR_IMAGES: &[(&str, u64)] = &[("gpt-4o-mini", 48_169)];

/// The name in `allow_unmetered` of content of unknown size, for a model whose context window is unknown.
pub const UNKNOWN_FILE: &str = "unknown_file";

/// A kind of content that an API knows.
///
/// ```
/// use endstop_llm::{CONTENT_KINDS, ContentHold, ContentMark};
///
/// let video = CONTENT_KINDS.iter().find(|kind| kind.mark == ContentMark::Type("input_video"));
/// assert!(video.is_some_and(|kind| kind.hold == ContentHold::Window));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentKind {
    /// The APIs that document it. It is held alike in all of them, as servers take the content of other APIs too.
    pub apis: &'static [Api],
    /// Its mark in a request.
    pub mark: ContentMark,
    /// Its hold.
    pub hold: ContentHold,
}

/// The mark of a kind of content in a request. A star at the beginning or the end stands for any text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentMark {
    /// By its `type`.
    Type(&'static str),
    /// By its `type` and the `type` of its `source`.
    Source(&'static str, &'static str),
    /// By the media type of its `inlineData`.
    Inline(&'static str),
    /// By an object under this key.
    Object(&'static str),
    /// By an `id` in the object under this key of a message.
    IdIn(&'static str),
    /// By this key.
    Key(&'static str),
}

/// The most that a part of a request is counted as before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentHold {
    /// Its bytes, and the holds of the parts inside it.
    Parts,
    /// Its bytes alone.
    Bytes,
    /// Its bytes alone, at the rates of media: a recording of a fixed rate.
    RecordingBytes,
    /// Its bytes, and the holds of the parts of its `source`.
    SourceParts,
    /// The most tokens of an image, in place of its data.
    Image(ImageData),
    /// Its bytes and the most tokens of an image, which the upstream may keep.
    MadeImage,
    /// Inside the request: its bytes and the tokens of an image. Elsewhere: a context window.
    Recording,
    /// A context window.
    Window,
    /// A context window, in a request that continues a known response. Refused otherwise, as a conversation that the upstream
    /// keeps.
    KeptItem,
    /// The output that was counted for the last response, if the request continues that. Otherwise a context window.
    KeptOutput,
    /// The same, for speech.
    KeptSpeech,
}

/// The place of an image's data. Without data it is elsewhere, and counts again in each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageData {
    /// `source.data`.
    Source,
    /// An address that may have them inside itself. Anything else inside is held as a context window.
    Address,
    /// `inlineData.data`.
    Inline,
}

impl ContentHold {
    /// Returns whether it is not text: it is held at the highest rate of text, images, audio and video.
    #[must_use]
    pub const fn is_media(self) -> bool {
        match self {
            Self::Parts | Self::Bytes | Self::SourceParts | Self::KeptOutput => false,
            Self::KeptSpeech => true,
            Self::RecordingBytes | Self::Image(_) | Self::MadeImage | Self::Recording => true,
            Self::Window | Self::KeptItem => true,
        }
    }

    /// Returns whether its size may be unknown, so that it is refused for a model whose context window is unknown.
    #[must_use]
    pub const fn may_be_unknown(self) -> bool {
        match self {
            Self::Image(ImageData::Address) | Self::Recording | Self::Window => true,
            Self::KeptItem | Self::KeptOutput | Self::KeptSpeech => true,
            Self::Image(ImageData::Source | ImageData::Inline) | Self::MadeImage => false,
            Self::Parts | Self::Bytes | Self::RecordingBytes | Self::SourceParts => false,
        }
    }
}

const CHAT: &[Api] = &[Api::Chat];
const RESPONSES: &[Api] = &[Api::Responses];
const MESSAGES: &[Api] = &[Api::Messages];
const GEMINI: &[Api] = &[Api::Gemini];

const fn typed(apis: &'static [Api], name: &'static str, hold: ContentHold) -> ContentKind {
    ContentKind { apis, mark: ContentMark::Type(name), hold }
}

const fn document(source: &'static str, hold: ContentHold) -> ContentKind {
    ContentKind { apis: MESSAGES, mark: ContentMark::Source("document", source), hold }
}

const fn inline(media: &'static str, hold: ContentHold) -> ContentKind {
    ContentKind { apis: GEMINI, mark: ContentMark::Inline(media), hold }
}

const fn keyed(name: &'static str) -> ContentKind {
    ContentKind { apis: GEMINI, mark: ContentMark::Key(name), hold: ContentHold::Parts }
}

/// The kinds of content. The first that fits counts. A part with another `type`, and one of Gemini with another key, is
/// refused by it; a part without either is held as its bytes and the parts inside it.
///
/// Sources: the API references of OpenAI ("Create chat completion", "Create a model response"), Anthropic ("Create a
/// message") and Google ("Content"), as their clients for Python have them (`openai` and `anthropic` of August 2026,
/// `google-genai` of August 2026); for `agent_message`, `configuration_update`, `context_compaction`,
/// `compaction_summary` and `encrypted_content` the items that Codex sends. An image that a tool
/// made is input again, by its id too (OpenAI's documentation, "Image generation"). `audio_url`, `video`, `video_url` and other addresses are of servers that copy
/// OpenAI's APIs. Anthropic charges each page of a document as text and image (its documentation, "PDF support").
/// Google counts recordings by the second, and videos by the frame too (its documentation, "Video understanding"). `reference` is of
/// Mistral ("Citations and references").
pub const CONTENT_KINDS: &[ContentKind] = {
    use ContentHold::{
        Bytes, Image, KeptItem, KeptOutput, KeptSpeech, MadeImage, Parts, Recording,
        RecordingBytes, SourceParts, Window,
    };
    use ImageData::{Address, Inline, Source};
    &[
        typed(CHAT, "image_url", Image(Address)),
        typed(RESPONSES, "input_image", Image(Address)),
        typed(RESPONSES, "computer_screenshot", Image(Address)),
        typed(RESPONSES, "image_generation_call", MadeImage),
        typed(MESSAGES, "image", Image(Source)),
        document("text", Bytes),
        document("content", SourceParts),
        document("*", Window),
        typed(CHAT, "file", Window),
        typed(RESPONSES, "input_file", Window),
        typed(MESSAGES, "container_upload", Window),
        typed(RESPONSES, "item_reference", KeptItem),
        typed(CHAT, "input_audio", Recording),
        typed(CHAT, "audio", Recording),
        typed(CHAT, "audio_url", Recording),
        typed(CHAT, "video", Window),
        typed(CHAT, "input_video", Window),
        typed(CHAT, "*_url", Window),
        ContentKind { apis: CHAT, mark: ContentMark::IdIn("audio"), hold: KeptSpeech },
        inline("image/*", Image(Inline)),
        inline("text/*", Bytes),
        inline("application/json*", Bytes),
        inline("application/xml*", Bytes),
        inline("audio/wav*", RecordingBytes),
        inline("audio/x-wav*", RecordingBytes),
        inline("audio/mp3*", RecordingBytes),
        inline("audio/mpeg*", RecordingBytes),
        inline("*", Window),
        ContentKind { apis: GEMINI, mark: ContentMark::Object("fileData"), hold: Window },
        typed(RESPONSES, "reasoning", KeptOutput),
        typed(&[Api::Chat, Api::Messages], "text", Parts),
        typed(&[Api::Chat, Api::Responses], "refusal", Parts),
        typed(&[Api::Chat, Api::Responses], "function", Parts),
        typed(CHAT, "custom", Parts),
        typed(CHAT, "reference", Parts),
        typed(RESPONSES, "input_text", Parts),
        typed(RESPONSES, "output_text", Parts),
        typed(RESPONSES, "summary_text", Parts),
        typed(RESPONSES, "reasoning_text", Parts),
        typed(RESPONSES, "message", Parts),
        typed(RESPONSES, "compaction", Parts),
        typed(RESPONSES, "compaction_summary", Parts),
        typed(RESPONSES, "compaction_trigger", Parts),
        typed(RESPONSES, "context_compaction", Parts),
        typed(RESPONSES, "configuration_update", Parts),
        typed(RESPONSES, "additional_tools", Parts),
        typed(RESPONSES, "agent_message", Parts),
        typed(RESPONSES, "encrypted_content", Parts),
        typed(RESPONSES, "program", Parts),
        typed(RESPONSES, "mcp_list_tools", Parts),
        typed(RESPONSES, "mcp_approval_request", Parts),
        typed(RESPONSES, "mcp_approval_response", Parts),
        typed(RESPONSES, "*_call", Parts),
        typed(RESPONSES, "*_output", Parts),
        typed(MESSAGES, "thinking", Parts),
        typed(MESSAGES, "redacted_thinking", Parts),
        typed(MESSAGES, "tool_reference", Parts),
        typed(MESSAGES, "tool_addition", Parts),
        typed(MESSAGES, "tool_removal", Parts),
        typed(MESSAGES, "mid_conv_system", Parts),
        typed(MESSAGES, "fallback", Parts),
        typed(MESSAGES, "compaction", Parts),
        typed(MESSAGES, "*tool_use", Parts),
        typed(MESSAGES, "*_result", Parts),
        typed(MESSAGES, "*_output", Parts),
        typed(MESSAGES, "*_error", Parts),
        keyed("text"),
        keyed("functionCall"),
        keyed("functionResponse"),
        keyed("executableCode"),
        keyed("codeExecutionResult"),
        keyed("toolCall"),
        keyed("toolResponse"),
        keyed("audioTranscription"),
        keyed("thought"),
        keyed("thoughtSignature"),
        keyed("videoMetadata"),
        keyed("mediaResolution"),
        keyed("partMetadata"),
    ]
};

/// A part of a request, as far as its kind depends on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartMarks<'p> {
    /// Its `type`.
    pub(crate) kind: Option<&'p str>,
    /// The `type` of its `source`.
    pub(crate) source: Option<&'p str>,
    /// The media type of its `inlineData` in small letters; empty if that has none.
    pub(crate) inline: Option<&'p str>,
    /// Whether it has an object under `fileData`.
    pub(crate) has_file: bool,
}

impl ContentMark {
    fn fits(self, part: &PartMarks<'_>) -> bool {
        match self {
            Self::Type(pattern) => part.kind.is_some_and(|kind| matches(pattern, kind)),
            Self::Source(own, pattern) => {
                part.kind == Some(own) && matches(pattern, part.source.unwrap_or_default())
            }
            Self::Inline(pattern) => part.inline.is_some_and(|media| matches(pattern, media)),
            Self::Object(_) => part.has_file,
            // They say something of a whole message, and nothing about the hold of a part.
            Self::IdIn(_) | Self::Key(_) => false,
        }
    }
}

/// Each `type` of a kind of content, and the patterns of those with a star: each part of a long conversation is looked up.
static TYPES: LazyLock<(HashSet<&str>, Vec<&str>)> = LazyLock::new(|| {
    let types = CONTENT_KINDS.iter().filter_map(|kind| match kind.mark {
        ContentMark::Type(name) | ContentMark::Source(name, _) => Some(name),
        _ => None,
    });
    let (patterns, names): (Vec<_>, Vec<_>) = types.partition(|name| name.contains('*'));
    (names.into_iter().collect(), patterns)
});

/// Whether a `type` is one of a kind of content.
pub(crate) fn is_known_type(own: &str) -> bool {
    let (names, patterns) = &*TYPES;
    names.contains(own) || patterns.iter().any(|pattern| matches(pattern, own))
}

/// Whether a key of a part of Gemini is one of a kind of content, in either spelling.
pub(crate) fn is_known_key(own: &str) -> bool {
    let has = |key: &str| key == own || own.contains('_') && with_underscores(key) == own;
    CONTENT_KINDS.iter().any(|kind| match kind.mark {
        ContentMark::Object(key) | ContentMark::Key(key) => has(key),
        ContentMark::Inline(_) => has("inlineData"),
        _ => false,
    })
}

/// The holds of parts that have nothing but one of these types, as the table has them.
static HOLDS: LazyLock<HashMap<&str, ContentHold>> = LazyLock::new(|| {
    let (names, _) = &*TYPES;
    let of = |name: &&'static str| {
        (*name, hold_in_table(&PartMarks { kind: Some(*name), ..PartMarks::default() }))
    };
    names.iter().map(of).collect()
});

/// The hold of a part.
pub(crate) fn hold_of(part: &PartMarks<'_>) -> ContentHold {
    let is_typed = part.source.is_none() && part.inline.is_none() && !part.has_file;
    let known = part.kind.filter(|_| is_typed).and_then(|kind| HOLDS.get(kind));
    known.copied().unwrap_or_else(|| hold_in_table(part))
}

fn hold_in_table(part: &PartMarks<'_>) -> ContentHold {
    let kind = CONTENT_KINDS.iter().find(|kind| kind.mark.fits(part));
    kind.map_or(ContentHold::Parts, |kind| kind.hold)
}

#[cfg(test)]
mod tests;
