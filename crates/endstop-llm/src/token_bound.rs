//! The mark of each message: a digest to recognize it, and the most tokens that it can be.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::packed::Searcher;
use endstop_price::TOOL_INSTRUCTION_TOKENS;
use memchr::memmem::Finder;
use xxhash_rust::xxh3::Xxh3;

use crate::ambiguous_keys::{DecidingKey, check_members};
use crate::content_kinds::{
    CONTENT_KINDS, ContentHold, ContentKind, ContentMark, DEAR_IMAGES, FILE_TOKENS, IMAGE_TOKENS,
    ImageData, PartMarks, hold_of, is_known_key, is_known_type,
};
use crate::json::{Entry, FromMembers, Key, Raw, fields};
use crate::limits::{MAX_PART_DEPTH, MAX_SHOWN_NAME, MAX_UNKNOWN_KINDS};
use crate::{MessageMark, ReadError};

/// Bytes around the key of a member: quotes, colon and comma.
const AROUND_KEY: u64 = 4;

/// The member that marks content for the cache. It moves from message to message.
const CACHE_MARK: &str = "cache_control";

static FIND_CACHE_MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(CACHE_MARK));

/// Words of which each value has one whose hold is not its bytes, or an escape. A test looks for each kind.
const MEDIA_WORDS: [&str; 10] = [
    "image",
    "file",
    "inlineData",
    "inline_data",
    "document",
    "audio",
    "video",
    "_url\"",
    "item_reference",
    "container_upload",
];

/// Looks for all of them at once. `None` on processors for which the library has no such search.
static FIND_MEDIA: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(MEDIA_WORDS));

/// The mark of an escape. Not one of the words: the search compares as many bytes at once as the shortest of them has.
static FIND_ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u"));

/// Keys of a message that decide how many tokens it is.
const MESSAGE_KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["role"]),
    DecidingKey::of(&["type"]),
    DecidingKey::of(&["content"]),
    DecidingKey::of(&["parts"]),
    DecidingKey::of(&["output"]),
    DecidingKey::of(&["id"]),
    DecidingKey::of(&["encrypted_content"]),
    DecidingKey::of(&["audio"]).with(&[DecidingKey::of(&["id"])]),
];

/// Keys of an object that has media inside itself, or says where they are.
const MEDIA_KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["type"]),
    DecidingKey::of(&["content"]),
    DecidingKey::of(&["data"]),
    DecidingKey::of(&["url"]),
    DecidingKey::of(&["file_id"]),
    DecidingKey::of(&["mimeType", "mime_type"]),
];

/// Keys of a part of a message.
const PART_KEYS: &[DecidingKey] = &[
    DecidingKey::of(&["type"]),
    DecidingKey::of(&["text"]),
    DecidingKey::of(&["content"]),
    DecidingKey::of(&["output"]),
    DecidingKey::of(&["parts"]),
    DecidingKey::of(&["source"]).with(MEDIA_KEYS),
    DecidingKey::of(&["data"]),
    DecidingKey::of(&["url"]),
    DecidingKey::of(&["image_url"]).with(MEDIA_KEYS),
    DecidingKey::of(&["audio_url"]).with(MEDIA_KEYS),
    DecidingKey::of(&["file"]),
    DecidingKey::of(&["file_id"]),
    DecidingKey::of(&["file_url"]),
    DecidingKey::of(&["input_audio"]).with(MEDIA_KEYS),
    DecidingKey::of(&["audio"]).with(MEDIA_KEYS),
    DecidingKey::of(&["inlineData", "inline_data"]).with(MEDIA_KEYS),
    DecidingKey::of(&["fileData", "file_data"]),
    DecidingKey::of(&["mimeType", "mime_type"]),
    DecidingKey::of(&["videoMetadata", "video_metadata"]),
    DecidingKey::of(&["functionResponse", "function_response"]),
];

/// Keys of the parts that are inside a part.
const INNER_KEYS: [&str; 5] =
    ["content", "output", "parts", "functionResponse", "function_response"];

/// The key of what are parts of Gemini, which have no `type`.
const GEMINI_PARTS: &str = "parts";

/// Keys of a request outside its messages that have content like theirs.
const INSTRUCTIONS: [&str; 4] =
    ["system", "instructions", "systemInstruction", "system_instruction"];

/// The key of an object with a `type`, without escapes.
static FIND_TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"type\""));

fields! {
    Part<'j> {
        kind: Raw<'j> = "type",
        image_url: Raw<'j> = "image_url",
        source: Source<'j> = "source",
        inline: Inline<'j> = "inlineData" | "inline_data",
        reference: Raw<'j> = "fileData" | "file_data",
    }
}

fields! {
    Source<'j> {
        kind: Raw<'j> = "type",
        data: Raw<'j> = "data",
        content: Raw<'j> = "content",
    }
}

fields! {
    Inline<'j> {
        mime: Raw<'j> = "mimeType" | "mime_type",
        data: Raw<'j> = "data",
    }
}

fields! {
    Address<'j> {
        url: Raw<'j> = "url" | "data",
    }
}

/// Reads what a request to one model has.
#[derive(Clone, Debug)]
pub(crate) struct TokenBound {
    /// Most tokens of one image.
    image: u64,
    /// Every part is read, whether or not a word in it says that it is more than text.
    reads_all: bool,
    /// Descriptions of parts that no kind of content fits.
    unknown_kinds: Vec<String>,
}

impl TokenBound {
    pub(crate) fn of_model(model: &str) -> Self {
        let dear = DEAR_IMAGES.iter().find(|(name, _)| model.contains(name));
        let image = dear.map_or(IMAGE_TOKENS, |(_, tokens)| *tokens);
        Self { image, reads_all: false, unknown_kinds: Vec::new() }
    }

    /// For an API whose parts differ by their keys alone: one in letters of another case has no text.
    pub(crate) fn reading_all(self) -> Self {
        Self { reads_all: true, ..self }
    }

    /// Descriptions of parts that no kind of content fits, each once.
    pub(crate) fn into_unknown_kinds(self) -> Vec<String> {
        self.unknown_kinds
    }

    /// The mark of a message.
    ///
    /// # Errors
    /// Returns an error if two readers could read it in two ways.
    pub(crate) fn mark(
        &mut self,
        message: Raw<'_>,
        is_user: bool,
    ) -> Result<MessageMark, ReadError> {
        self.mark_entry(&Entry::of(message), is_user)
    }

    /// Like [`TokenBound::mark`], for a message whose members are known.
    pub(crate) fn mark_entry(
        &mut self,
        message: &Entry<'_>,
        is_user: bool,
    ) -> Result<MessageMark, ReadError> {
        check_members(message.members(), MESSAGE_KEYS)?;
        let digest = digest(message)?;
        let Weight { tokens, is_open, has_media, elsewhere, .. } =
            self.weigh(message.raw(), Some(message.members()), true)?;
        let kept = kept_output(message);
        Ok(MessageMark {
            digest,
            bound: tokens,
            is_user,
            is_open,
            has_media: has_media || kept.is_some_and(ContentHold::is_media),
            elsewhere,
            names_output: kept.is_some(),
        })
    }

    /// The mark of a part outside the messages: a tool, a part of the instructions.
    pub(crate) fn mark_fixed(
        &mut self,
        key: &str,
        value: Raw<'_>,
    ) -> Result<MessageMark, ReadError> {
        self.mark_outside(key, value, None)
    }

    /// Like [`TokenBound::mark_fixed`], for a part whose members are known.
    pub(crate) fn mark_fixed_entry(
        &mut self,
        key: &str,
        part: &Entry<'_>,
    ) -> Result<MessageMark, ReadError> {
        self.mark_outside(key, part.raw(), Some(part.members()))
    }

    fn mark_outside(
        &mut self,
        key: &str,
        value: Raw<'_>,
        members: Option<&[(Key<'_>, Raw<'_>)]>,
    ) -> Result<MessageMark, ReadError> {
        let mut hash = Xxh3::new();
        hash.update(key.as_bytes());
        digest_value(&mut hash, value);
        let Weight { tokens, is_open, has_media, elsewhere, .. } =
            self.weigh(value, members, INSTRUCTIONS.contains(&key))?;
        let bound = tokens.saturating_add(length(key)).saturating_add(AROUND_KEY);
        Ok(MessageMark {
            digest: hash.digest(),
            bound,
            is_open,
            has_media,
            elsewhere,
            ..MessageMark::default()
        })
    }

    /// Most tokens that a value can be: no tokenizer makes more tokens than there are bytes. `members` are those of the
    /// value, if they are known.
    fn weigh(
        &mut self,
        value: Raw<'_>,
        members: Option<&[(Key<'_>, Raw<'_>)]>,
        is_content: bool,
    ) -> Result<Weight, ReadError> {
        let mut weight = Weight {
            image: self.image,
            tokens: length(value.json()),
            is_open: false,
            has_media: false,
            elsewhere: 0,
            is_content,
            unknown: Vec::new(),
        };
        let json = value.json();
        let has_parts =
            || self.reads_all || may_have_media(json) || is_content && may_have_unknown_type(json);
        // Nothing else has parts, whatever words it has.
        if (value.is_object() || value.is_list()) && has_parts() {
            match members.filter(|_| value.is_object()) {
                Some(members) => weight.object(value, members, MAX_PART_DEPTH, false)?,
                None => weight.part(value, MAX_PART_DEPTH, false)?,
            }
        }
        for name in std::mem::take(&mut weight.unknown) {
            if !self.unknown_kinds.contains(&name) {
                self.unknown_kinds.push(name);
            }
        }
        Ok(weight)
    }
}

/// A mark for the instructions that providers add to requests with tools.
pub(crate) fn tool_instructions() -> MessageMark {
    let digest = TOOL_INSTRUCTION_TOKENS;
    MessageMark { digest, bound: TOOL_INSTRUCTION_TOKENS, ..MessageMark::default() }
}

fields! {
    Audio<'j> {
        id: Raw<'j> = "id",
    }
}

/// The kinds of content that a whole message can be.
static KEPT_OUTPUT: LazyLock<Vec<&ContentKind>> = LazyLock::new(|| {
    let is_of_message = |kind: &&ContentKind| {
        matches!(kind.hold, ContentHold::KeptOutput | ContentHold::KeptSpeech)
    };
    CONTENT_KINDS.iter().filter(is_of_message).collect()
});

/// The hold of a message of the model that stands for output that the upstream keeps: reasoning without its encrypted
/// text, and speech without its data.
fn kept_output(message: &Entry<'_>) -> Option<ContentHold> {
    let is_kept = |kind: &&ContentKind| match kind.mark {
        ContentMark::Type(name) => {
            message.get("type").text().is_some_and(|own| own == name)
                && message.get("id").is_some()
                && !message.get("encrypted_content").is_some()
        }
        ContentMark::IdIn(key) => message.get(key).read::<Audio<'_>>().id.is_some(),
        _ => false,
    };
    KEPT_OUTPUT.iter().copied().find(is_kept).map(|kind| kind.hold)
}

impl Part<'_> {
    fn hold(&self) -> ContentHold {
        let (kind, source) = (self.kind.text(), self.source.kind.text());
        let has_inline = self.inline.mime.is_some() || self.inline.data.is_some();
        let media = self.inline.mime.text().unwrap_or_default().to_ascii_lowercase();
        hold_of(&PartMarks {
            kind: kind.as_deref(),
            source: source.as_deref(),
            inline: has_inline.then_some(&*media),
            has_file: self.reference.is_object(),
        })
    }
}

/// The beginning of a name that a request gives to something.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(MAX_SHOWN_NAME).collect()
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// Whether something in it may be more than its bytes, or has an escape.
fn may_have_media(json: &str) -> bool {
    let has_word = match &*FIND_MEDIA {
        Some(words) => words.find(json).is_some(),
        None => MEDIA_WORDS.iter().any(|word| json.contains(*word)),
    };
    has_word || FIND_ESCAPE.find(json.as_bytes()).is_some()
}

/// Whether something in it, which has no escapes, may have a `type` that no kind of content has. One inside the data of a
/// tool has a type too, so that a `true` says little.
fn may_have_unknown_type(json: &str) -> bool {
    let mut known = "";
    FIND_TYPE.find_iter(json.as_bytes()).any(|key| {
        let after = json.get(key + FIND_TYPE.needle().len()..).unwrap_or_default();
        let own = after.trim_start().strip_prefix(':').map_or("", str::trim_start);
        let own = own.strip_prefix('"').and_then(|own| own.split_once('"'));
        let Some((own, _)) = own else { return true };
        let is_known = own == known || is_known_type(own);
        known = own;
        !is_known
    })
}

struct Weight {
    /// Most tokens of one image.
    image: u64,
    tokens: u64,
    /// Something is only referred to, or its bytes say nothing about its tokens.
    is_open: bool,
    /// It is not text alone.
    has_media: bool,
    /// Most tokens of images that are only referred to.
    elsewhere: u64,
    /// Its parts are content, of which each kind has to be known.
    is_content: bool,
    /// The parts that no kind of content fits.
    unknown: Vec<String>,
}

impl Weight {
    /// Adds a part, or a list of parts. Parts of Gemini differ by their keys.
    fn part(&mut self, value: Raw<'_>, depth: u8, is_keyed: bool) -> Result<(), ReadError> {
        if value.is_object() {
            let members = if depth > 0 { value.members() } else { Vec::new() };
            return self.object(value, &members, depth, is_keyed);
        }
        if value.is_list() {
            let Some(depth) = depth.checked_sub(1) else {
                // Nothing is known of what stands deeper.
                self.file(true);
                return Ok(());
            };
            let items = value.items();
            if items.is_empty() && may_have_media(value.json()) {
                // More than are read.
                self.file(true);
            }
            return items.into_iter().try_for_each(|item| self.part(item, depth, is_keyed));
        }
        Ok(())
    }

    /// Adds a part with these members.
    fn object(
        &mut self,
        value: Raw<'_>,
        members: &[(Key<'_>, Raw<'_>)],
        depth: u8,
        is_keyed: bool,
    ) -> Result<(), ReadError> {
        let Some(depth) = depth.checked_sub(1) else {
            // Nothing is known of what stands deeper.
            self.file(true);
            return Ok(());
        };
        if members.is_empty() && may_have_media(value.json()) {
            // More than are read.
            self.file(true);
            return Ok(());
        }
        check_members(members, PART_KEYS)?;
        // Without members it may have more than are read.
        let part = if members.is_empty() { value.read() } else { Part::of_members(members) };
        if self.is_content {
            self.note_unknown(&part, members, is_keyed);
        }
        match part.hold() {
            ContentHold::Parts | ContentHold::KeptOutput | ContentHold::KeptSpeech => {
                // Which of several counts is for the server to say.
                let mut inner =
                    members.iter().filter(|(key, _)| INNER_KEYS.contains(&key.as_str()));
                return inner.try_for_each(|(key, value)| {
                    self.part(*value, depth, key.as_str() == GEMINI_PARTS)
                });
            }
            ContentHold::SourceParts => return self.part(part.source.content, depth, false),
            ContentHold::Bytes => {}
            ContentHold::RecordingBytes => self.has_media = true,
            ContentHold::Image(ImageData::Source) => self.image(part.source.data),
            ContentHold::Image(ImageData::Inline) => self.image(part.inline.data),
            ContentHold::Image(ImageData::Address) => self.image_at(part.image_url),
            ContentHold::MadeImage => {
                self.tokens = self.tokens.saturating_add(self.image);
                self.has_media = true;
            }
            ContentHold::Recording => {
                self.recording(members, &part.kind.text().unwrap_or_default())
            }
            ContentHold::Window | ContentHold::KeptItem => self.file(true),
        }
        Ok(())
    }

    /// Notes a part that no kind of content fits: by its `type`, or by a key if it is one of Gemini.
    fn note_unknown(&mut self, part: &Part<'_>, members: &[(Key<'_>, Raw<'_>)], is_keyed: bool) {
        if part.kind.is_some() {
            let own = part.kind.text();
            if !own.as_deref().is_some_and(is_known_type) {
                self.unknown.push(shown(own.as_deref().unwrap_or(part.kind.json())));
            }
        } else if is_keyed {
            let unknown = members.iter().filter(|(key, _)| !is_known_key(key.as_str()));
            self.unknown.extend(unknown.map(|(key, _)| shown(key.as_str())));
        }
        self.unknown.truncate(MAX_UNKNOWN_KINDS);
    }

    /// An image at an address, or inside it.
    fn image_at(&mut self, place: Raw<'_>) {
        let address: Address<'_> = place.read();
        let url = if address.url.is_some() { address.url } else { place };
        match inline_kind(url) {
            Some(InlineKind::Image) => self.image(url),
            Some(InlineKind::Other) => self.file(true),
            None => self.image(Raw::default()),
        }
    }

    /// An image, and its data if the request has it. Only a string is data.
    fn image(&mut self, data: Raw<'_>) {
        let data = if data.json().starts_with('"') { length(data.json()) } else { 0 };
        self.tokens = self.tokens.saturating_sub(data).saturating_add(self.image);
        if data == 0 {
            self.elsewhere = self.elsewhere.saturating_add(self.image);
        }
        self.has_media = true;
    }

    /// A recording of a known rate, which a part of this kind has under the name of its kind: inside itself, or
    /// somewhere else.
    fn recording(&mut self, members: &[(Key<'_>, Raw<'_>)], kind: &str) {
        let media = members.iter().find(|(key, _)| key.as_str() == kind).map(|(_, value)| *value);
        let media = media.unwrap_or_default();
        let address: Address<'_> = media.read();
        let place = if address.url.is_some() { address.url } else { media };
        self.file(!place.json().starts_with('"') || refers(place));
    }

    fn file(&mut self, is_open: bool) {
        self.is_open |= is_open;
        self.has_media = true;
        let tokens = if is_open { FILE_TOKENS } else { IMAGE_TOKENS };
        self.tokens = self.tokens.saturating_add(tokens);
    }
}

/// Whether a text is an address of something elsewhere.
fn refers(place: Raw<'_>) -> bool {
    let head: Vec<u8> = place.json().bytes().take(24).collect();
    let is_inline = head.to_ascii_lowercase().starts_with(b"\"data:");
    // The slashes may be escaped.
    !is_inline && head.starts_with(b"\"") && head.contains(&b':')
}

/// The content inside an address.
enum InlineKind {
    Image,
    /// A document, which is charged by its text or pages.
    Other,
}

/// The content of an address; `None` if it only refers to something.
fn inline_kind(url: Raw<'_>) -> Option<InlineKind> {
    let begins = |prefix: &str| {
        let head = url.json().trim_start_matches(['"', ' ']).get(..prefix.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    if begins("data:image/") || begins("data:image\\/") {
        return Some(InlineKind::Image);
    }
    let refers = ["http:", "https:", "gs:", "file:"].iter().any(|scheme| begins(scheme));
    (url.is_some() && !refers).then_some(InlineKind::Other)
}

/// Digest of a message without marks for caches. Text alone and a list of one text are the same: clients write
/// the second where they set a mark.
fn digest(message: &Entry<'_>) -> Result<u64, ReadError> {
    let mut hash = Xxh3::new();
    if !message.raw().is_object() {
        hash.update(message.raw().json().as_bytes());
    }
    for (key, value) in message.members() {
        if key.as_str() == CACHE_MARK {
            continue;
        }
        hash.update(key.as_str().as_bytes());
        hash.update(b":");
        if key.as_str() == "content" {
            digest_content(&mut hash, *value)?;
        } else {
            digest_value(&mut hash, *value);
        }
    }
    Ok(hash.digest())
}

fn digest_content(hash: &mut Xxh3, content: Raw<'_>) -> Result<(), ReadError> {
    if !content.is_list() {
        digest_text(hash, content);
        return Ok(());
    }
    for part in content.items() {
        let members = part.members();
        check_members(&members, PART_KEYS)?;
        match only_text(&members) {
            Some(text) => digest_text(hash, text),
            None => digest_value(hash, part),
        }
    }
    Ok(())
}

/// A separate comma ends each value, so that none runs into the next one.
fn digest_text(hash: &mut Xxh3, text: Raw<'_>) {
    hash.update(text.json().as_bytes());
    hash.update(b",");
}

/// The text of a part that is nothing else.
fn only_text<'j>(members: &[(Key<'j>, Raw<'j>)]) -> Option<Raw<'j>> {
    let mut text = None;
    for (key, value) in members {
        match key.as_str() {
            "text" => text = Some(*value),
            "type" if value.json() == "\"text\"" => {}
            CACHE_MARK => {}
            _ => return None,
        }
    }
    text
}

/// The text of a value without the marks in it, as it would be had the client not set them.
fn digest_value(hash: &mut Xxh3, value: Raw<'_>) {
    let mut at = 0;
    if FIND_CACHE_MARK.find(value.json().as_bytes()).is_some() {
        let mut marks = Vec::new();
        find_marks(value, 0, MAX_PART_DEPTH, &mut marks);
        for mark in marks {
            hash.update(value.json().get(at..mark.start).unwrap_or_default().as_bytes());
            at = mark.end;
        }
    }
    hash.update(value.json().get(at..).unwrap_or_default().as_bytes());
    hash.update(b",");
}

/// The places of marks and their commas, in order. `base` is where `value` begins.
fn find_marks(value: Raw<'_>, base: usize, depth: u8, marks: &mut Vec<Range<usize>>) {
    let Some(inner) = depth.checked_sub(1) else { return };
    let place = |part: Raw<'_>| {
        let start = part.json().as_ptr().addr().saturating_sub(value.json().as_ptr().addr());
        base.saturating_add(start)
    };
    for item in value.items() {
        find_marks(item, place(item), inner, marks);
    }
    // Behind the value before; a first member has none.
    let mut before = None;
    for (key, member) in value.members() {
        let start = place(member);
        let end = start.saturating_add(member.json().len());
        if key.as_str() != CACHE_MARK {
            find_marks(member, start, inner, marks);
        } else if let Some(before) = before {
            marks.push(before..end);
        } else {
            let after = value.json().get(end.saturating_sub(base)..).unwrap_or_default();
            let next = after.trim_start().trim_start_matches(',').trim_start();
            let skipped = after.len().saturating_sub(next.len());
            marks.push(base.saturating_add(1)..end.saturating_add(skipped));
        }
        before = Some(end);
    }
}

#[cfg(test)]
mod tests;
