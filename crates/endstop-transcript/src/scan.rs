//! A JSON text as a stream of bytes: values are distinguished by their quotes and brackets, kept if they are wanted
//! and skipped if they are not. Memory is bounded by the largest value that is kept.

use std::io::{self, Read};

use memchr::{memchr_iter, memchr3};

/// How much is read from the file at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The byte order mark that some editors put first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a text cannot be read further.
#[derive(Debug)]
pub(super) enum Stop {
    /// It ends inside its document.
    Truncated,
    /// This byte, or what the words say, does not belong there.
    Malformed(String),
    /// The file cannot be read.
    Unreadable(io::Error),
}

/// A value that was scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'s> {
    /// Its bytes, not checked beyond quotes and brackets.
    Kept(&'s [u8]),
    /// It is larger than the limit.
    TooLarge,
}

/// Reads a JSON text from its beginning.
pub(super) struct Scanner<'p> {
    reader: Box<dyn Read + 'p>,
    buffer: Vec<u8>,
    /// How much of the buffer is read.
    end: usize,
    /// The next byte's place in the buffer.
    at: usize,
    /// Where the value that is being kept begins in the buffer.
    kept_from: Option<usize>,
    /// Line feeds before the buffer.
    lines: u64,
    /// The last byte that is no white space, of what has left the buffer.
    last: Option<u8>,
    limit: usize,
}

impl<'p> Scanner<'p> {
    pub(super) fn new(reader: Box<dyn Read + 'p>, limit: usize) -> Result<Self, Stop> {
        let (buffer, kept_from) = (vec![0; CHUNK_BYTES], None);
        let mut scanner =
            Self { reader, buffer, end: 0, at: 0, kept_from, lines: 0, last: None, limit };
        while scanner.end < BYTE_ORDER_MARK.len() && scanner.fill()? {}
        if scanner.rest().starts_with(BYTE_ORDER_MARK) {
            scanner.at = BYTE_ORDER_MARK.len();
        }
        Ok(scanner)
    }

    /// The line of the next byte, from 1.
    pub(super) fn line(&self) -> u64 {
        let before = self.buffer.get(..self.at).unwrap_or_default();
        self.lines + memchr_iter(b'\n', before).count() as u64 + 1
    }

    /// The next byte that is no white space; it stays the next one.
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            let byte = self.next_byte()?;
            if !byte.is_ascii_whitespace() {
                return Ok(byte);
            }
            self.at += 1;
        }
    }

    /// Takes this byte if it comes next.
    pub(super) fn take(&mut self, wanted: u8) -> Result<bool, Stop> {
        let is_next = self.peek()? == wanted;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Takes this byte.
    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), Stop> {
        match self.peek()? {
            next if next == wanted => self.at += 1,
            next => return Err(unexpected(next)),
        }
        Ok(())
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Result<(), Stop> {
        match self.peek()? {
            b'{' | b'[' => self.brackets(),
            b'"' => self.string(),
            next @ (b'}' | b']' | b',' | b':') => Err(unexpected(next)),
            _ => self.word(),
        }
    }

    /// Reads a value and keeps it.
    pub(super) fn keep(&mut self) -> Result<Value<'_>, Stop> {
        self.peek()?;
        self.kept_from = Some(self.at);
        let skipped = self.skip();
        let from = self.kept_from.take();
        skipped?;
        let bytes = from.and_then(|from| self.buffer.get(from..self.at));
        Ok(bytes.map_or(Value::TooLarge, Value::Kept))
    }

    /// Nothing but white space may follow.
    pub(super) fn end(&mut self) -> Result<(), Stop> {
        match self.peek() {
            Ok(next) => Err(unexpected(next)),
            Err(Stop::Truncated) => Ok(()),
            Err(stop) => Err(stop),
        }
    }

    /// The last byte of the text that is no white space. Reads to the end.
    pub(super) fn last_byte(&mut self) -> Option<u8> {
        self.kept_from = None;
        loop {
            self.at = self.end;
            // Read errors were reported before.
            if !self.fill().unwrap_or(false) {
                break;
            }
        }
        self.last
    }

    fn next_byte(&mut self) -> Result<u8, Stop> {
        loop {
            if let Some(byte) = self.rest().first() {
                return Ok(*byte);
            }
            if !self.fill()? {
                return Err(Stop::Truncated);
            }
        }
    }

    /// Goes on to the bracket that closes the one that comes next.
    fn brackets(&mut self) -> Result<(), Stop> {
        let mut depth = 0u64;
        loop {
            let rest = self.rest();
            let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']');
            let Some(place) = rest.iter().position(is_mark) else {
                self.at = self.end;
                self.next_byte()?;
                continue;
            };
            let mark = rest.get(place).copied().unwrap_or_default();
            self.at += place;
            match mark {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    depth = depth.saturating_add(1);
                    self.at += 1;
                }
                _ => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Moves behind the string that begins here.
    fn string(&mut self) -> Result<(), Stop> {
        self.at += 1;
        loop {
            let rest = self.rest();
            let Some(place) = memchr3(b'"', b'\\', b'\n', rest) else {
                self.at = self.end;
                self.next_byte()?;
                continue;
            };
            let mark = rest.get(place).copied();
            self.at += place + 1;
            match mark {
                Some(b'"') => return Ok(()),
                Some(b'\\') => {
                    self.next_byte()?;
                    self.at += 1;
                }
                // A quote that was lost or added would otherwise turn the rest of the file inside out.
                _ => return Err(Stop::Malformed("a line ends inside a string".to_owned())),
            }
        }
    }

    /// Moves behind a number or a literal.
    fn word(&mut self) -> Result<(), Stop> {
        loop {
            let byte = self.next_byte()?;
            if byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}' | b':') {
                return Ok(());
            }
            self.at += 1;
        }
    }

    /// The bytes read and not yet passed.
    fn rest(&self) -> &[u8] {
        self.buffer.get(self.at..self.end).unwrap_or_default()
    }

    /// Reads more and drops bytes that are not kept. Returns `false` at the end of the file.
    fn fill(&mut self) -> Result<bool, Stop> {
        if self.kept_from.is_some_and(|from| self.end - from > self.limit) {
            self.kept_from = None;
        }
        self.let_go(self.kept_from.unwrap_or(self.at));
        if self.kept_from.is_none() && self.buffer.len() > CHUNK_BYTES {
            // One large value must not hold its memory for the rest of the file.
            self.buffer.truncate(self.end.max(CHUNK_BYTES));
            self.buffer.shrink_to_fit();
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end.saturating_mul(2), 0);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read = loop {
            match self.reader.read(free) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(Stop::Unreadable)?,
            }
        };
        self.end += read;
        Ok(read > 0)
    }

    /// Lets the first bytes of the buffer go.
    fn let_go(&mut self, bytes: usize) {
        let gone = self.buffer.get(..bytes).unwrap_or_default();
        self.lines += memchr_iter(b'\n', gone).count() as u64;
        self.last = gone.trim_ascii_end().last().copied().or(self.last);
        self.buffer.copy_within(bytes..self.end, 0);
        self.end -= bytes;
        self.at -= bytes;
        self.kept_from = self.kept_from.map(|_| 0);
    }
}

fn unexpected(byte: u8) -> Stop {
    Stop::Malformed(format!("`{}` is not expected here", byte.escape_ascii()))
}
