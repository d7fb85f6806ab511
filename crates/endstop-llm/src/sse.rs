//! Events of a stream, separated without copying.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use thiserror::Error;

/// The mark that may stand before the first event.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// One event of a stream.
///
/// See the example of [`SseSplitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'e> {
    /// The `event` field; empty without one.
    pub name: &'e str,
    /// The `data` fields, joined by line feeds.
    pub data: &'e str,
}

/// One event as received.
#[derive(Clone, Debug)]
pub struct Frame<'e> {
    /// Its bytes, with the blank line that ends it. All frames and then [`SseSplitter::take_rest`] are the stream.
    pub raw: &'e [u8],
    name: Cow<'e, str>,
    data: Option<Cow<'e, str>>,
}

impl<'e> Frame<'e> {
    /// Returns the event; `None` if it has no data, such as a comment that keeps the connection open. Invalid UTF-8 is
    /// read as U+FFFD.
    pub fn event(&self) -> Option<SseEvent<'_>> {
        Some(SseEvent { name: &self.name, data: self.data.as_ref()? })
    }

    /// A frame with an event made of everything after `begin`.
    pub(crate) fn of_data(raw: &'e [u8], begin: usize) -> Self {
        let data = Some(text(raw.get(begin..).unwrap_or_default()));
        Self { raw, name: Cow::Borrowed(""), data }
    }

    /// The event that `bytes` begin with, if it looks as almost all do: a name or none, one line of data, LF at the
    /// ends.
    fn plain(bytes: &'e [u8]) -> Option<Self> {
        let (name, left) = match bytes.strip_prefix(b"event: ") {
            Some(left) => plain_line(left)?,
            None => (&[][..], bytes),
        };
        let (data, left) = plain_line(left.strip_prefix(b"data: ")?)?;
        let left = left.strip_prefix(b"\n")?;
        let raw = bytes.get(..bytes.len().saturating_sub(left.len()))?;
        Some(Frame { raw, name: text(name), data: Some(text(data)) })
    }

    fn read(raw: &'e [u8]) -> Self {
        let mut frame = Frame { raw, name: Cow::Borrowed(""), data: None };
        let mut left = raw.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(raw);
        while !left.is_empty() {
            let end = memchr2(b'\n', b'\r', left).unwrap_or(left.len());
            let line = left.get(..end).unwrap_or_default();
            left = left.get(end.saturating_add(1)..).unwrap_or_default();
            frame.line(line);
        }
        frame
    }

    fn line(&mut self, line: &'e [u8]) {
        let colon = memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon.saturating_add(1)..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match line.get(..colon) {
            Some(b"event") => self.name = text(value),
            Some(b"data") => {
                let value = text(value);
                match &mut self.data {
                    None => self.data = Some(value),
                    Some(data) => {
                        let data = data.to_mut();
                        data.push('\n');
                        data.push_str(&value);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The text of a line without its LF, and the rest.
fn plain_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr2(b'\n', b'\r', bytes)?;
    let (line, left) = bytes.split_at_checked(end)?;
    Some((line, left.strip_prefix(b"\n")?))
}

/// Bytes as text. Valid text is found several bytes at a time, which the lossy way does not do.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// An event is larger than events may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an event has more than {max} bytes")]
pub struct TooLong {
    /// Most bytes of an event.
    pub max: usize,
}

/// Cuts a stream of bytes into events. The same bytes give the same frames, however they were cut on the way.
///
/// An event that lies whole in one chunk is not copied; of any other its first part is kept, at most `max`
/// bytes.
///
/// ```
/// use endstop_llm::sse::SseSplitter;
///
/// let mut splitter = SseSplitter::new(1 << 20);
/// let mut chunk = &b"event: ping\ndata: 1\n\ndata: 2"[..];
/// let frame = splitter.next_frame(&mut chunk)?.unwrap();
/// let event = frame.event().unwrap();
/// assert_eq!((event.name, event.data), ("ping", "1"));
/// assert!(splitter.next_frame(&mut chunk)?.is_none(), "its blank line has not come");
/// assert_eq!(splitter.take_rest(), b"data: 2");
/// # Ok::<(), endstop_llm::sse::TooLong>(())
/// ```
#[derive(Debug)]
pub struct SseSplitter {
    max: usize,
    /// The part of an event that came in earlier chunks; or the last frame that was given out.
    rest: Vec<u8>,
    was_given: bool,
    scan: Scan,
}

impl SseSplitter {
    /// Creates a splitter at the start of a stream. `max` is the most bytes of an event.
    pub const fn new(max: usize) -> Self {
        Self { max, rest: Vec::new(), was_given: false, scan: Scan::new() }
    }

    /// Returns the next complete event; takes its bytes from the front of `chunk`. `None` when the chunk is used up; the
    /// beginning of an incomplete event is kept.
    ///
    /// # Errors
    /// Returns an error if an event is too long. Nothing more can be read then: [`Self::take_rest`] and the rest of
    /// `chunk` are the rest of the stream.
    pub fn next_frame<'e, 'c: 'e>(
        &'e mut self,
        chunk: &mut &'c [u8],
    ) -> Result<Option<Frame<'e>>, TooLong> {
        self.forget_given();
        if self.rest.is_empty()
            && self.scan.is_new()
            && let Some(frame) = Frame::plain(chunk).filter(|frame| frame.raw.len() <= self.max)
        {
            *chunk = chunk.get(frame.raw.len()..).unwrap_or_default();
            return Ok(Some(frame));
        }
        let end = self.scan.event_end(chunk);
        let (head, tail) =
            chunk.split_at_checked(end.unwrap_or(chunk.len())).unwrap_or((chunk, &[]));
        *chunk = tail;
        let length = self.rest.len().saturating_add(head.len());
        if end.is_some() && self.rest.is_empty() && length <= self.max {
            return Ok(Some(Frame::read(head)));
        }
        self.rest.extend_from_slice(head);
        if length > self.max {
            return Err(TooLong { max: self.max });
        }
        self.was_given = end.is_some();
        Ok(end.map(|_| Frame::read(&self.rest)))
    }

    /// Returns the bytes of the incomplete event.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.forget_given();
        self.scan = Scan::new();
        std::mem::take(&mut self.rest)
    }

    /// Returns the event that the stream ended in, its blank line missing, if it says something. Some servers leave the
    /// last line end out.
    pub fn last_frame(&mut self) -> Option<Frame<'_>> {
        self.forget_given();
        Some(Frame::read(&self.rest)).filter(|frame| frame.data.is_some())
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.was_given) {
            self.rest.clear();
        }
    }
}

/// Finds the ends of events. Lines end with CR, LF or both; where a CR comes last in a chunk, what follows tells
/// whether a LF belongs to it.
#[derive(Clone, Copy, Debug)]
struct Scan {
    /// The line so far is empty.
    is_line_empty: bool,
    /// The last byte was a CR that ended a line: of a blank one if true.
    open_return: Option<bool>,
    /// The line before ended with a CR alone. Then so does the blank one, and it needs no look ahead.
    was_return_alone: bool,
}

impl Scan {
    const fn new() -> Self {
        Self { is_line_empty: true, open_return: None, was_return_alone: false }
    }

    /// Nothing of an event has arrived, and nothing is open of the one before.
    const fn is_new(self) -> bool {
        self.is_line_empty && self.open_return.is_none() && !self.was_return_alone
    }

    /// Where the event ends that `bytes` continues; behind the blank line.
    fn event_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let left = bytes.get(at..).filter(|left| !left.is_empty())?;
            if let Some(was_blank) = self.open_return.take() {
                let is_pair = left.first() == Some(&b'\n');
                at = at.saturating_add(usize::from(is_pair));
                self.was_return_alone = !is_pair;
                if was_blank {
                    *self = Self::new();
                    return Some(at);
                }
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', left) else {
                self.is_line_empty = false;
                return None;
            };
            let is_blank = self.is_line_empty && end == 0;
            at = at.saturating_add(end).saturating_add(1);
            self.is_line_empty = true;
            if left.get(end) == Some(&b'\r') {
                if is_blank && self.was_return_alone {
                    // A LF that follows ends nothing: it opens the next frame and is passed over there.
                    *self = Self { open_return: Some(false), ..Self::new() };
                    return Some(at);
                }
                self.open_return = Some(is_blank);
            } else {
                self.was_return_alone = false;
                if is_blank {
                    *self = Self::new();
                    return Some(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
