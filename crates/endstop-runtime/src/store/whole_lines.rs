//! Lines of a file that a process may have died while writing.
//!
//! A separate file because stores and the reader of trace files both read this way.

use std::io::{self, BufRead};

/// Reads the whole lines of a file. A line without a line feed at the end was not written whole and does not count.
#[derive(Debug)]
pub(crate) struct WholeLines<R> {
    reader: R,
    line: Vec<u8>,
    length: u64,
}

impl<R: BufRead> WholeLines<R> {
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), length: 0 }
    }

    /// Goes to the next line and keeps at most `kept` bytes of it. Returns `false` at the end.
    pub(crate) fn advance(&mut self, kept: usize) -> io::Result<bool> {
        self.line.clear();
        self.length = 0;
        loop {
            let block = self.reader.fill_buf()?;
            if block.is_empty() {
                return Ok(false);
            }
            let end = memchr::memchr(b'\n', block);
            let part = block.get(..end.unwrap_or(block.len())).unwrap_or_default();
            let room = kept.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            let used = part.len().saturating_add(usize::from(end.is_some()));
            self.length = self.length.saturating_add(u64::try_from(used).unwrap_or(u64::MAX));
            self.reader.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// The kept bytes of the line, without its line feed.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The length of the line in the file, with its line feed.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }
}
