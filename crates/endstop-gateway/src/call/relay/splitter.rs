//! Streams cut into events: server-sent events, or a growing JSON list, which is Gemini's stream without `alt=sse`.

use std::borrow::Cow;

use crate::sse::{Frame, SseSplitter, TooLong};

/// Cuts a stream into events.
#[derive(Debug)]
pub(super) enum StreamSplitter {
    Events(SseSplitter),
    List(ListSplitter),
}

impl StreamSplitter {
    pub(super) const fn new(is_list: bool, max: usize) -> Self {
        if is_list {
            Self::List(ListSplitter::new(max))
        } else {
            Self::Events(SseSplitter::new(max))
        }
    }

    pub(super) fn next_frame<'e, 'c: 'e>(
        &'e mut self,
        chunk: &mut &'c [u8],
    ) -> Result<Option<Frame<'e>>, TooLong> {
        match self {
            Self::Events(events) => events.next_frame(chunk),
            Self::List(list) => list.next_frame(chunk),
        }
    }

    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        match self {
            Self::Events(events) => events.take_rest(),
            Self::List(list) => list.take_rest(),
        }
    }

    pub(super) fn last_frame(&mut self) -> Option<Frame<'_>> {
        match self {
            Self::Events(events) => events.last_frame(),
            Self::List(_) => None,
        }
    }

    /// Returns events of the gateway's own as they are written in the stream. `has_passed` says whether something of the
    /// stream comes before them.
    pub(super) fn written<'e>(&self, events: &'e [u8], has_passed: &mut bool) -> Cow<'e, [u8]> {
        if matches!(self, Self::Events(_)) {
            return Cow::Borrowed(events);
        }
        let mut out = Vec::new();
        let text = String::from_utf8_lossy(events);
        for element in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let before = if std::mem::replace(has_passed, true) { ",\r\n" } else { "[" };
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(element.as_bytes());
        }
        Cow::Owned(out)
    }

    /// The end of the stream after its last event.
    pub(super) const fn end(&self, has_passed: bool) -> &'static str {
        match self {
            Self::Events(_) => "",
            Self::List(_) if has_passed => "]",
            Self::List(_) => "[]",
        }
    }
}

/// Cuts a list into its objects, each with the bytes before it.
#[derive(Debug)]
pub(super) struct ListSplitter {
    max: usize,
    /// The part of an element that came in earlier chunks, or the last frame that was returned.
    rest: Vec<u8>,
    was_given: bool,
    depth: u32,
    is_in_string: bool,
    is_escaped: bool,
    /// The start of the object in the frame, and its depth.
    begun: Option<(usize, u32)>,
}

impl ListSplitter {
    const fn new(max: usize) -> Self {
        Self {
            max,
            rest: Vec::new(),
            was_given: false,
            depth: 0,
            is_in_string: false,
            is_escaped: false,
            begun: None,
        }
    }

    fn next_frame<'e, 'c: 'e>(
        &'e mut self,
        chunk: &mut &'c [u8],
    ) -> Result<Option<Frame<'e>>, TooLong> {
        self.forget_given();
        let end = self.object_end(chunk);
        let (head, tail) =
            chunk.split_at_checked(end.unwrap_or(chunk.len())).unwrap_or((chunk, &[]));
        *chunk = tail;
        let length = self.rest.len().saturating_add(head.len());
        let begin = match end {
            Some(_) => self.begun.take().map_or(0, |(begin, _)| begin),
            None => 0,
        };
        if end.is_some() && self.rest.is_empty() && length <= self.max {
            return Ok(Some(Frame::of_data(head, begin)));
        }
        self.rest.extend_from_slice(head);
        if length > self.max {
            return Err(TooLong { max: self.max });
        }
        self.was_given = end.is_some();
        Ok(end.map(|_| Frame::of_data(&self.rest, begin)))
    }

    fn take_rest(&mut self) -> Vec<u8> {
        self.forget_given();
        std::mem::take(&mut self.rest)
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.was_given) {
            self.rest.clear();
        }
    }

    /// Returns the end of the object that `bytes` continues or begins.
    fn object_end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_in_string {
                match byte {
                    _ if std::mem::take(&mut self.is_escaped) => {}
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => {
                    if *byte == b'{' && self.begun.is_none() {
                        self.begun = Some((self.rest.len().saturating_add(at), self.depth));
                    }
                    self.depth = self.depth.saturating_add(1);
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.begun.is_some_and(|(_, depth)| depth == self.depth) {
                        return Some(at.saturating_add(1));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
