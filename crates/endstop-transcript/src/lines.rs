//! JSON lines, one at a time; memory holds only one and the bytes read with it.

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memrchr};
use serde::Deserialize;
use simdutf8::basic::from_utf8;

use super::limits::MAX_LINE_BYTES;
use super::part::Part;
use super::warning::{WarningKind, Warnings};

/// How much is read from the file at once, at most and about: it fits the cache, and so do the lines in it.
const CHUNK_BYTES: usize = 128 << 10;

/// Bytes checked ahead of a line, at most: enough lines that checking their text once pays, and so few that checking
/// again is cheap if one of them needs it.
const AHEAD_BYTES: usize = 4 << 10;

/// The byte order mark that some editors put first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a part line by line.
pub(super) struct JsonLines<'p> {
    part: &'p Part,
    warnings: &'p Warnings,
    reader: Option<Box<dyn Read + 'p>>,
    /// Unprocessed data begins at `unread`; the current line lies before it.
    buffer: Vec<u8>,
    unread: Range<usize>,
    line: Range<usize>,
    number: u64,
    /// Whether the current line ended with a line feed.
    is_whole: bool,
    limit: usize,
}

/// The result of reading a line.
enum NextLine {
    Line,
    TooLong,
    End,
}

impl<'p> JsonLines<'p> {
    /// Opens the part; a failure is a warning and reads as no lines.
    pub(super) fn open(part: &'p Part, warnings: &'p Warnings) -> Self {
        let reader = match part.open() {
            Ok(reader) => Some(reader),
            Err(error) => {
                let message = || format!("cannot be opened: {error}");
                warnings.add(WarningKind::Unreadable, part.name(), None, message);
                None
            }
        };
        Self {
            part,
            warnings,
            reader,
            buffer: Vec::new(),
            unread: 0..0,
            line: 0..0,
            number: 0,
            is_whole: true,
            limit: MAX_LINE_BYTES,
        }
    }

    /// The current line's number, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Goes to the next line that is not blank. False at the end.
    pub(super) fn advance(&mut self) -> bool {
        loop {
            match self.take() {
                Ok(NextLine::Line) if self.text().is_empty() => {}
                Ok(NextLine::Line) => return true,
                Ok(NextLine::TooLong) => {
                    let message =
                        || format!("a line of more than {} MiB is skipped", self.limit >> 20);
                    let line = Some(self.number);
                    self.warnings.add(WarningKind::TooLarge, self.part.name(), line, message);
                }
                Ok(NextLine::End) => return false,
                Err(error) => {
                    let message = || format!("cannot be read further: {error}");
                    let line = Some(self.number + 1);
                    self.warnings.add(WarningKind::Unreadable, self.part.name(), line, message);
                    self.reader = None;
                    self.unread = 0..0;
                    return false;
                }
            }
        }
    }

    /// Part of the lines already read after the current one: whole lines, each with its line feed. Nothing if there
    /// is none or it is not UTF-8.
    #[inline]
    pub(super) fn ahead(&self) -> &str {
        let unread = self.buffer.get(self.unread.clone()).unwrap_or(&[]);
        let some = unread.get(..AHEAD_BYTES).unwrap_or(unread);
        let whole = memrchr(b'\n', some).and_then(|feed| some.get(..=feed)).unwrap_or(&[]);
        from_utf8(whole).unwrap_or_default()
    }

    /// Goes past the next `lines`, which have this length with their line feeds and were read from
    /// [`JsonLines::ahead`].
    #[inline]
    pub(super) fn pass(&mut self, length: usize, lines: u64) {
        self.line = 0..0;
        self.unread.start = self.unread.start.saturating_add(length).min(self.unread.end);
        self.number += lines;
        self.is_whole = true;
    }

    /// The current line, if it is UTF-8.
    pub(super) fn utf8(&self) -> Option<&str> {
        from_utf8(self.text()).ok()
    }

    /// The current line as a record, or a warning.
    pub(super) fn parse<'b, T: Deserialize<'b>>(&'b self) -> Option<T> {
        let parsed = serde_json::from_slice(self.text());
        parsed.map_err(|error| self.warn_of(&error)).ok()
    }

    /// A warning about the current line.
    pub(super) fn warn(&self, kind: WarningKind, message: impl FnOnce() -> String) {
        self.warnings.add(kind, self.part.name(), Some(self.number), message);
    }

    /// A warning about what the JSON reader says of the current line.
    pub(super) fn warn_of(&self, error: &serde_json::Error) {
        self.warn_of_in(self.warnings, error);
    }

    /// Like [`warn_of`](Self::warn_of), for lines whose own warnings are discarded.
    pub(super) fn warn_of_in(&self, warnings: &Warnings, error: &serde_json::Error) {
        let is_cut = error.is_eof() || !self.text().ends_with(b"}");
        if is_cut && !self.is_whole {
            let message = || "the file ends in the middle of this line".to_owned();
            warnings.add(WarningKind::Truncated, self.part.name(), Some(self.number), message);
        } else {
            let message = || format!("not a record of this format: {}", of_line(error));
            warnings.add(WarningKind::Malformed, self.part.name(), Some(self.number), message);
        }
    }

    /// Whether the current line ended with a line feed.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The current line, with the blanks around it.
    pub(super) fn as_written(&self) -> &[u8] {
        self.buffer.get(self.line.clone()).unwrap_or(&[])
    }

    /// The current line, without blanks around it.
    pub(super) fn text(&self) -> &[u8] {
        let line = self.as_written();
        let text = match self.number {
            1 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            _ => line,
        };
        text.trim_ascii()
    }

    fn take(&mut self) -> io::Result<NextLine> {
        self.line = 0..0;
        // How much of the current line holds no line feed, and how much of it was dropped.
        let (mut searched, mut dropped) = (0, 0usize);
        loop {
            let from = self.unread.start + searched;
            let unsearched = self.buffer.get(from..self.unread.end).unwrap_or(&[]);
            if let Some(feed) = memchr(b'\n', unsearched).map(|at| from + at) {
                let line = self.unread.start..feed;
                self.unread.start = feed + 1;
                self.is_whole = true;
                return Ok(self.taken(line, dropped));
            }
            searched = self.unread.len();
            if searched > self.limit {
                dropped = dropped.saturating_add(searched);
                self.unread = 0..0;
                searched = 0;
            }
            if self.fill()? == 0 {
                self.is_whole = false;
                let line = self.unread.clone();
                self.unread.start = self.unread.end;
                if line.is_empty() && dropped == 0 {
                    return Ok(NextLine::End);
                }
                return Ok(self.taken(line, dropped));
            }
        }
    }

    fn taken(&mut self, line: Range<usize>, dropped: usize) -> NextLine {
        self.number += 1;
        if dropped > 0 || line.len() > self.limit {
            return NextLine::TooLong;
        }
        self.line = line;
        NextLine::Line
    }

    /// Reads more; 0 at the end.
    fn fill(&mut self) -> io::Result<usize> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.buffer.is_empty() {
            // Pages that are zero already cost nothing until they are used.
            self.buffer = vec![0; CHUNK_BYTES];
        } else if self.buffer.len() - self.unread.end < CHUNK_BYTES / 2 {
            let longer = self.buffer.len().saturating_mul(2).max(CHUNK_BYTES);
            self.buffer.resize(longer, 0);
        }
        loop {
            match reader.read(self.buffer.get_mut(self.unread.end..).unwrap_or(&mut [])) {
                Ok(length) => {
                    self.unread.end += length;
                    return Ok(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The JSON reader's words without its line number, which is always 1 here.
fn of_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let tail = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&tail) {
        Some(text) => format!("{text} (column {})", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
