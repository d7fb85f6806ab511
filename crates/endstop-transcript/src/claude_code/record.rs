//! Lines of a Claude Code session. The provider treats them as its own: every field may be absent.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::Text;

/// A line. Types that are not named here hold nothing that is counted and are skipped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeRecord<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    pub(super) subtype: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
    pub(super) parent_uuid: Option<Text<'a>>,
    pub(super) uuid: Option<Text<'a>>,
    pub(super) request_id: Option<Text<'a>>,
    pub(super) is_sidechain: Option<bool>,
    pub(super) is_meta: Option<bool>,
    pub(super) is_compact_summary: Option<bool>,
    pub(super) is_api_error_message: Option<bool>,
    pub(super) message: Option<&'a RawValue>,
}

/// The part of a line for the first pass over a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Peek<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    pub(super) timestamp: Option<Text<'a>>,
    pub(super) session_id: Option<Text<'a>>,
    pub(super) is_sidechain: Option<bool>,
    pub(super) message: Option<PeekMessage<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct PeekMessage<'a> {
    pub(super) id: Option<Text<'a>>,
}

/// The beginnings of notes of the harness in place of a person's text.
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
