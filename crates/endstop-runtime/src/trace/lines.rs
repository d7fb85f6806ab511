//! The lines of a trace, as [`endstop_core::wire::v1::trace`] has them.

use endstop_core::event::{Event, EventKind};
use endstop_core::wire::v1::trace::{Header, Line, VERSION};

use crate::json::push_json_line;
use crate::limits::MAX_HEADER_NAME_BYTES;
use crate::observe::{Observation, RunInfo};

/// Live runs price their calls themselves.
const COMPUTED: &str = "computed";
/// The length of a line without the texts of its event: keys, times, amounts.
const LINE_BASE: usize = 192;

/// Returns `event` as one line of a trace, with its line feed.
#[must_use]
pub fn trace_line(event: &Event<'_>) -> String {
    let mut line = Vec::with_capacity(LINE_BASE.saturating_add(texts(&event.kind)));
    push_trace_line(&mut line, event);
    text_of(line)
}

/// Appends `event` as one line of a trace, with its line feed, to a buffer that can be used again.
pub fn push_trace_line(into: &mut Vec<u8>, event: &Event<'_>) {
    push_json_line(into, &Line::from_event(event));
}

/// Like [`push_trace_line`], for an observation: an event that was refused is marked.
pub fn push_seen(into: &mut Vec<u8>, seen: &Observation<'_>) {
    push_json_line(into, &seen.line());
}

/// Returns the line that a run's trace begins with, with its line feed. `prices` is the version of the price table
/// that computes costs.
#[must_use]
pub fn trace_header(info: &RunInfo, prices: Option<&str>) -> String {
    let mut line = Vec::new();
    push_header(&mut line, info, prices);
    text_of(line)
}

fn text_of(line: Vec<u8>) -> String {
    match String::from_utf8(line) {
        Ok(line) => line,
        Err(error) => unreachable!("JSON is written as UTF-8: {error}"),
    }
}

/// Appends the line of [`trace_header`].
pub(super) fn push_header(into: &mut Vec<u8>, info: &RunInfo, prices: Option<&str>) {
    let header = Header {
        endstop_trace: VERSION,
        run: info.id.as_str().into(),
        model: Some(clipped(&info.model)).filter(|model| !model.is_empty()).map(Into::into),
        cost_is: Some(COMPUTED.into()),
        prices: prices.map(|prices| clipped(prices).into()),
    };
    push_json_line(into, &header);
}

/// A name for the header, which has the number of lines at its end: that is replaced in its place, so it must not be far
/// from the beginning of the file.
fn clipped(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_HEADER_NAME_BYTES)).unwrap_or(name)
}

/// How many bytes of text an event carries.
fn texts(kind: &EventKind<'_>) -> usize {
    match kind {
        EventKind::Piece { text } => text.len(),
        EventKind::ToolEnd { tool, arguments, result, .. } => {
            // Arguments are JSON, in which every quote is escaped.
            tool.len() + arguments.len() + arguments.len() / 4 + result.len() + result.len() / 16
        }
        EventKind::Cancel { message } | EventKind::Kill { message } => message.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
