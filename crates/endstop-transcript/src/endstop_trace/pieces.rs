//! Where a file of many runs can be taken apart: at lines that the reader takes for headers. It keeps nothing
//! of what came before one.

use std::io::{self, Read, Seek, SeekFrom};

use memchr::memchr;
use memchr::memmem::Finder;

use super::Mark;
use crate::Part;
use crate::limits::MAX_TRACE_HEADER_BYTES;

/// The written beginning of a header, after the line before it. Texts contain neither line feeds nor quotes without
/// an escape.
const BEGINNING: &[u8] = b"\n{\"endstop_trace\":";

/// How much is read at once: it fits the cache.
const CHUNK_BYTES: u64 = 128 << 10;

/// Pieces of at least `about` bytes, except for the last. Empty if there is only one, or if the part cannot be read in
/// any order. At most the whole part is searched, without the bytes up to `about` after the last header.
pub(crate) fn of(part: &Part, about: u64) -> Vec<Part> {
    // Reading the part as a whole reports why it cannot be read.
    let starts = starts(part, about).unwrap_or_default();
    if starts.len() < 2 {
        return Vec::new();
    }
    // The last goes on to wherever the end is by then, as reading the whole does.
    let ends = starts.iter().skip(1).copied().chain([u64::MAX]);
    starts.iter().zip(ends).map(|(start, end)| part.piece(*start..end)).collect()
}

fn starts(part: &Part, about: u64) -> io::Result<Vec<u64>> {
    let Some(length) = part.length() else { return Ok(Vec::new()) };
    let about = about.max(1);
    let mut starts = vec![0];
    if length <= about {
        return Ok(starts);
    }
    let mut search = Search::new(part.open_to_seek()?);
    let mut from = about;
    while from < length {
        let Some(start) = search.header_at_or_after(from)? else { break };
        starts.push(start);
        from = start.saturating_add(about);
    }
    Ok(starts)
}

struct Search<R> {
    reader: R,
    finder: Finder<'static>,
    /// The unprocessed bytes.
    buffer: Vec<u8>,
}

impl<R: Read + Seek> Search<R> {
    fn new(reader: R) -> Self {
        Self { reader, finder: Finder::new(BEGINNING), buffer: Vec::new() }
    }

    /// The offset of the next header that begins at `from`, which is not 0, or after it.
    fn header_at_or_after(&mut self, from: u64) -> io::Result<Option<u64>> {
        // With the line feed before it.
        let mut offset = self.reader.seek(SeekFrom::Start(from.saturating_sub(1)))?;
        self.buffer.clear();
        let mut searched = 0;
        while self.read_on()? {
            while let Some(found) = self.finder.find(rest(&self.buffer, searched)) {
                let start = searched + found + 1;
                let Some(length) = self.line_at(start)? else {
                    searched = start;
                    continue;
                };
                let line = rest(&self.buffer, start).get(..length).unwrap_or(&[]);
                if is_header(line) {
                    return Ok(Some(offset + start as u64));
                }
                searched = start + length;
            }
            // A beginning may have been read in part.
            let done = searched.max((self.buffer.len() + 1).saturating_sub(BEGINNING.len()));
            self.buffer.drain(..done);
            offset += done as u64;
            searched = 0;
        }
        Ok(None)
    }

    /// The length of the line that begins there; `None` if it is too long or not ended.
    fn line_at(&mut self, start: usize) -> io::Result<Option<usize>> {
        loop {
            let begun = rest(&self.buffer, start);
            if let Some(length) = memchr(b'\n', begun) {
                return Ok((length <= MAX_TRACE_HEADER_BYTES).then_some(length));
            }
            if begun.len() > MAX_TRACE_HEADER_BYTES || !self.read_on()? {
                return Ok(None);
            }
        }
    }

    /// False at the end.
    fn read_on(&mut self) -> io::Result<bool> {
        let chunk = self.reader.by_ref().take(CHUNK_BYTES);
        Ok({ chunk }.read_to_end(&mut self.buffer)? > 0)
    }
}

/// As the reader decides it.
fn is_header(line: &[u8]) -> bool {
    serde_json::from_slice::<Mark>(line.trim_ascii()).is_ok_and(|mark| mark.endstop_trace.is_some())
}

fn rest(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or(&[])
}
