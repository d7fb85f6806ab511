//! Whether a file is one JSON document or JSON lines, for formats that are kept as either, and the differences
//! between lists of messages: their names, and their forms.

use std::io::Read;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::document::look_for;
use super::head::{Head, Keys};
use super::limits::MAX_ELEMENT_BYTES;
use super::lines::JsonLines;
use super::part::Part;
use super::scan::Scanner;
use super::text::text_of;
use super::warning::Warnings;

/// How many bytes are searched for the first that is not blank.
const BLANK_BYTES: u64 = 1 << 10;

/// How a file holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One document, or the cut beginning of one.
    Document,
    /// One whole object on one line, which is both.
    OneLine,
    /// One object per line.
    Lines,
}

impl Layout {
    /// Of a file. A list is a document whatever its lines look like; of two lines one may be damaged.
    pub(super) fn of(part: &Part) -> Self {
        if first_byte(part) == Some(b'[') {
            return Self::Document;
        }
        // Reading the file then gives the warnings.
        first_value(part).unwrap_or_else(|| of_lines(part))
    }
}

/// By what is behind the first value, in the memory of a buffer: a document may be one line of any length.
fn first_value(part: &Part) -> Option<Layout> {
    let mut scanner = Scanner::new(part.open().ok()?, MAX_ELEMENT_BYTES).ok()?;
    scanner.peek().ok()?;
    let first = scanner.line();
    scanner.skip().ok()?;
    let is_one_line = scanner.line() == first;
    match (scanner.end(), is_one_line) {
        (Ok(()), true) => Some(Layout::OneLine),
        (Ok(()), false) => Some(Layout::Document),
        (Err(_), true) => Some(Layout::Lines),
        (Err(_), false) => None,
    }
}

/// By the first two lines, if the first value does not show it.
fn of_lines(part: &Part) -> Layout {
    let discarded = Warnings::default();
    let mut lines = JsonLines::open(part, &discarded);
    let mut next = || {
        let has_line = lines.advance();
        has_line.then(|| (lines.parse::<IgnoredAny>().is_some(), lines.text().last().copied()))
    };
    match (next(), next()) {
        (Some((true, _)), None) => Layout::OneLine,
        (Some((true, _)), Some(_)) => Layout::Lines,
        // A document that was cut may have a line for each element; its first line then opens the list.
        (Some((false, Some(b'['))), _) => Layout::Document,
        (Some((false, _)), Some((true, _))) => Layout::Lines,
        _ => Layout::Document,
    }
}

fn first_byte(part: &Part) -> Option<u8> {
    let mut start = Vec::new();
    part.open().ok()?.take(BLANK_BYTES).read_to_end(&mut start).ok()?;
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    start.trim_ascii_start().first().copied()
}

/// Keys of formats that keep messages under `messages` and name themselves.
const OTHERS: [&str; 5] = ["sessionId", "projectHash", "trajectory_format", "simulations", "info"];

/// Keys that only messages in the form of Anthropic have.
const ANTHROPIC: [&str; 5] = [
    "\"tool_use\"",
    "\"tool_result\"",
    "\"input_schema\"",
    "\"stop_reason\"",
    "\"redacted_thinking\"",
];

/// Keys of messages in the form of OpenAI, which may look alike otherwise.
const OPENAI: [&str; 4] =
    ["\"tool_calls\"", "\"tool_call_id\"", "\"function_call\"", "\"finish_reason\""];

/// Whether a document with messages is of a format that names itself.
pub(super) fn is_of_another_format(keys: &Keys) -> bool {
    OTHERS.iter().any(|other| keys.have(&[other]))
}

/// Whether messages are in the form of Anthropic rather than in that of OpenAI.
pub(super) fn are_of_anthropic(head: &Head<'_>) -> bool {
    let mentions = |words: &[&str]| words.iter().any(|word| head.mentions(word));
    let has_thoughts = head.mentions("\"thinking\"") && head.mentions("\"signature\"");
    (mentions(&ANTHROPIC) || has_thoughts) && !mentions(&OPENAI)
}

/// The names in a list of messages for itself and its model.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
}

impl Names {
    /// The names in a document, in any place.
    pub(super) fn of(part: &Part) -> Self {
        let mut names = Self::default();
        look_for(part, &["id", "model"], &mut |key, value| match key {
            "id" => names.id = present(Some(value)),
            _ => names.model = present(Some(value)),
        });
        names
    }
}

fn present(raw: Option<&RawValue>) -> Option<String> {
    text_of(raw).filter(|text| !text.is_empty())
}

/// A list of messages on one line.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ListLine<'a> {
    id: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    pub(super) messages: Option<Vec<&'a RawValue>>,
}

impl ListLine<'_> {
    pub(super) fn names(&self) -> Names {
        Names { id: present(self.id), model: present(self.model) }
    }
}

#[cfg(test)]
mod tests;
