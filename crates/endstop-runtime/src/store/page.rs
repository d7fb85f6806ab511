//! What one call reads of a trace.

/// The most lines that one call reads: some megabytes of usual lines.
pub const PAGE_LINES: usize = 10_000;

/// How many bytes of lines end a call; with the last line, at most [`super::MAX_APPEND_BYTES`] more.
pub const PAGE_BYTES: usize = 4 << 20;

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
