//! The lines that one call reads of a trace.

use crate::limits::{PAGE_BYTES, PAGE_LINES};

/// Lines that one call gives.
#[derive(Debug, Default)]
pub(super) struct Page {
    lines: Vec<String>,
    bytes: usize,
}

impl Page {
    pub(super) const fn is_full(&self) -> bool {
        self.lines.len() >= PAGE_LINES || self.bytes >= PAGE_BYTES
    }

    pub(super) fn push(&mut self, line: String) {
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines.push(line);
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

/// The lines of an append.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator('\n')
}
