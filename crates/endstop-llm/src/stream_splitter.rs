//! Streams that are a JSON list which grows: Gemini's without `alt=sse`. Its elements are what events are elsewhere.

use crate::sse::{Frame, SseSplitter, TooLong};

/// Cuts the bytes of a stream into events: server-sent events, or the elements of a JSON list.
///
/// ```
/// use endstop_llm::StreamSplitter;
///
/// let mut splitter = StreamSplitter::new(true, 1 << 20);
/// let mut elements = Vec::new();
/// for mut chunk in [&b"[{\"a\":"[..], b"1}\n,{\"b\":2}]"] {
///     while let Some(frame) = splitter.next_frame(&mut chunk)? {
///         elements.extend(frame.event().map(|event| event.data.to_owned()));
///     }
/// }
/// assert_eq!(elements, ["{\"a\":1}", "{\"b\":2}"]);
/// # Ok::<(), endstop_llm::sse::TooLong>(())
/// ```
#[derive(Debug)]
pub struct StreamSplitter(Framing);

#[derive(Debug)]
enum Framing {
    Events(SseSplitter),
    List(JsonListSplitter),
}

impl StreamSplitter {
    /// Creates a splitter at the start of a stream. `is_list` is [`CallRequest::is_list`](crate::CallRequest::is_list)
    /// of its request, and `max` the most bytes of one event.
    #[must_use]
    pub const fn new(is_list: bool, max: usize) -> Self {
        Self(if is_list {
            Framing::List(JsonListSplitter::new(max))
        } else {
            Framing::Events(SseSplitter::new(max))
        })
    }

    /// Returns the next complete event and takes its bytes from the front of `chunk`, or `None` at the end of
    /// `chunk`.
    ///
    /// # Errors
    /// Returns [`TooLong`] for an event of more than `max` bytes. Nothing more can be read then.
    pub fn next_frame<'e, 'c: 'e>(
        &'e mut self,
        chunk: &mut &'c [u8],
    ) -> Result<Option<Frame<'e>>, TooLong> {
        match &mut self.0 {
            Framing::Events(events) => events.next_frame(chunk),
            Framing::List(list) => list.next_frame(chunk),
        }
    }

    /// Takes the bytes of the incomplete event.
    pub fn take_rest(&mut self) -> Vec<u8> {
        match &mut self.0 {
            Framing::Events(events) => events.take_rest(),
            Framing::List(list) => list.take_rest(),
        }
    }

    /// Returns the event that the stream ended in without its blank line, if it has data.
    pub fn last_frame(&mut self) -> Option<Frame<'_>> {
        match &mut self.0 {
            Framing::Events(events) => events.last_frame(),
            Framing::List(_) => None,
        }
    }

    /// Returns server-sent events in the framing of this stream. `has_passed` says whether part of the stream stands
    /// before them, and becomes `true` if any are written.
    pub fn written(&self, events: Vec<u8>, has_passed: &mut bool) -> Vec<u8> {
        if matches!(self.0, Framing::Events(_)) {
            return events;
        }
        let mut out = Vec::new();
        let text = String::from_utf8_lossy(&events);
        for element in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let before = if std::mem::replace(has_passed, true) { ",\r\n" } else { "[" };
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(element.as_bytes());
        }
        out
    }

    /// Returns what ends the stream after its last event.
    #[must_use]
    pub const fn end(&self, has_passed: bool) -> &'static str {
        match &self.0 {
            Framing::Events(_) => "",
            Framing::List(_) if has_passed => "]",
            Framing::List(_) => "[]",
        }
    }
}

/// Cuts a list into its objects, each with what stands before it.
#[derive(Debug)]
struct JsonListSplitter {
    max: usize,
    /// The part of an element that came in earlier chunks; or the last frame that was given out.
    rest: Vec<u8>,
    was_given: bool,
    depth: u32,
    is_in_string: bool,
    is_escaped: bool,
    /// Where the object begins in the frame, and how deep.
    begun: Option<(usize, u32)>,
}

impl JsonListSplitter {
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

    /// Where the object ends that `bytes` continues or begins.
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
