//! Lines of a Claude Code session. The vendor treats them as its own: every field may be absent.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A line. Types that are not named here hold nothing that is counted and are skipped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaudeRecord<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) subtype: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) request_id: Option<Cow<'a, str>>,
    pub(super) is_sidechain: Option<bool>,
    pub(super) is_meta: Option<bool>,
    pub(super) is_compact_summary: Option<bool>,
    pub(super) is_api_error_message: Option<bool>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
}

/// What the first pass over a file looks at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Peek<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) session_id: Option<Cow<'a, str>>,
    pub(super) is_sidechain: Option<bool>,
    #[serde(borrow)]
    pub(super) message: Option<PeekMessage<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PeekMessage<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
}

/// The `message` of an `assistant` or `user` line.
#[derive(Debug, Deserialize)]
pub(super) struct ClaudeMessage<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A block of content.
#[derive(Debug, Deserialize)]
pub(super) struct ClaudeBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
}

/// ClaudeContent: a text, or blocks.
#[derive(Debug)]
pub(super) enum ClaudeContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<ClaudeBlock<'a>>),
}

impl<'a> ClaudeContent<'a> {
    /// Reads a `content` field; absent and null are no blocks.
    pub(super) fn read(raw: Option<&'a RawValue>) -> Result<Self, serde_json::Error> {
        match raw.map(RawValue::get) {
            None => Ok(Self::Blocks(Vec::new())),
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<BorrowedText<'a>>(text).map(|text| Self::Text(text.0))
            }
            Some(text) => serde_json::from_str(text).map(Self::Blocks),
        }
    }
}

#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The result of a tool as text. Blocks that are all text are joined; anything else (images) stays the
/// JSON it is, so that equal results compare equal.
pub(super) fn result_text(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else { return String::new() };
    match ClaudeContent::read(Some(raw)) {
        Ok(ClaudeContent::Text(text)) => text.into_owned(),
        Ok(ClaudeContent::Blocks(blocks)) if blocks.iter().all(|block| block.text.is_some()) => {
            let texts: Vec<&str> =
                blocks.iter().filter_map(|block| block.text.as_deref()).collect();
            texts.join("\n")
        }
        _ => raw.get().to_owned(),
    }
}

/// How notes of the harness begin that stand where a person's words would.
const NOTES: [&str; 8] = [
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<system-reminder>",
    "<task-notification>",
    "<bash-stdout>",
    "<bash-stderr>",
    "[Request interrupted by user",
];

/// Whether a text is a note of the harness. A slash command is not: a person typed it.
pub(super) fn is_note(text: &str) -> bool {
    let text = text.trim_start();
    NOTES.iter().any(|note| text.starts_with(note))
}
