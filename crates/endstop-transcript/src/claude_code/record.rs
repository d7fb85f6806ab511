//! Lines of a Claude Code session. The provider treats them as its own: every field may be absent.

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

/// The part of a line for the first pass over a file.
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
