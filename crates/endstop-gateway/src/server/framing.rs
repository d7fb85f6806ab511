//! The framing of what a client sends, followed strictly.
//!
//! If two readers of the same bytes can disagree on the end of a request, one of them can be made to see a request
//! that the other does not. The HTTP library is lenient in places, so the bytes are followed here first, and
//! ambiguous framing is refused. Bodies are counted, not read; heads are read line by line.

use crate::limits::{MAX_CHUNK_LINE, MAX_METHOD, MAX_TRAILERS};

/// Follows the bytes of one connection.
#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    /// The incomplete line.
    line: Vec<u8>,
    head: Head,
    /// Bytes that the present head or trailers may still have.
    left: usize,
    max_head: usize,
    takes_connect: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between two requests; an empty line has been seen or not.
    Start {
        has_skipped: bool,
    },
    Head,
    Body(u64),
    ChunkLine,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// The bytes after a `CONNECT`, which are not HTTP.
    Tunnel,
}

/// The fields of a head so far that determine the end of its request.
#[derive(Debug, Default)]
struct Head {
    is_connect: bool,
    is_1_0: bool,
    length: Option<u64>,
    is_chunked: bool,
    has_host: bool,
    /// The host that the target names, if any.
    authority: Option<Box<[u8]>>,
}

/// The bytes are not plainly a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ambiguous;

impl Framing {
    pub(super) fn new(max_head: usize, takes_connect: bool) -> Self {
        Self {
            state: State::Start { has_skipped: false },
            line: Vec::new(),
            head: Head::default(),
            left: 0,
            max_head,
            takes_connect,
        }
    }

    /// Records the next bytes.
    ///
    /// # Errors
    /// The index of the first byte that may not be passed on. The line that it belongs to has not ended before it,
    /// so that a reader that has all before it does not know of a whole head.
    pub(super) fn take(&mut self, data: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
            at += match &mut self.state {
                State::Body(left) | State::Chunk(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = match self.state {
                            State::Chunk(_) => State::ChunkEnd,
                            _ => State::Start { has_skipped: false },
                        };
                    }
                    taken
                }
                State::Tunnel => rest.len(),
                _ => self.lines(rest).map_err(|in_rest| at + in_rest)?,
            };
        }
        Ok(())
    }

    /// Whether the head of a request is being read, or none has begun.
    pub(super) const fn is_in_head(&self) -> bool {
        matches!(self.state, State::Start { .. } | State::Head)
    }

    /// Whether no part of an incomplete request has been read.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.state, State::Start { .. } | State::Tunnel) && self.line.is_empty()
    }

    /// Takes one line, or the available part of it.
    fn lines(&mut self, rest: &[u8]) -> Result<usize, usize> {
        let most = match self.state {
            State::ChunkLine => MAX_CHUNK_LINE,
            State::ChunkEnd => 2,
            State::Start { .. } => self.max_head,
            _ => self.left,
        };
        let Some(end) = memchr::memchr(b'\n', rest) else {
            if self.line.len() + rest.len() > most {
                return Err(0);
            }
            self.line.extend_from_slice(rest);
            return Ok(rest.len());
        };
        let length = self.line.len() + end + 1;
        if length > most {
            return Err(end);
        }
        let here = rest.get(..end).unwrap_or_default();
        let checked = if self.line.is_empty() {
            self.line_of(here, length)
        } else {
            self.line.extend_from_slice(here);
            let line = std::mem::take(&mut self.line);
            let checked = self.line_of(&line, length);
            self.line = line;
            self.line.clear();
            checked
        };
        checked.map_err(|Ambiguous| end)?;
        Ok(end + 1)
    }

    /// Takes a whole line, its line feed cut off.
    fn line_of(&mut self, line: &[u8], length: usize) -> Result<(), Ambiguous> {
        let Some((b'\r', line)) = line.split_last() else { return Err(Ambiguous) };
        match self.state {
            State::Start { has_skipped: false } if line.is_empty() => {
                self.state = State::Start { has_skipped: true };
            }
            State::Start { .. } => {
                self.head = request_line(line)?;
                if self.head.is_connect && !self.takes_connect {
                    return Err(Ambiguous);
                }
                self.left = self.max_head.saturating_sub(length);
                self.state = State::Head;
            }
            State::Head if line.is_empty() => self.state = self.head.body()?,
            State::Head => {
                self.left = self.left.saturating_sub(length);
                self.head.field(line)?;
            }
            State::ChunkLine => match chunk_size(line)? {
                0 => {
                    self.left = MAX_TRAILERS;
                    self.state = State::Trailers;
                }
                size => self.state = State::Chunk(size),
            },
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkLine,
            State::Trailers if line.is_empty() => self.state = State::Start { has_skipped: false },
            State::Trailers => {
                self.left = self.left.saturating_sub(length);
                let (name, _) = field(line)?;
                if FramingHeader::by(name).is_some() {
                    return Err(Ambiguous);
                }
            }
            State::ChunkEnd | State::Body(_) | State::Chunk(_) | State::Tunnel => {
                return Err(Ambiguous);
            }
        }
        Ok(())
    }
}

impl Head {
    fn field(&mut self, line: &[u8]) -> Result<(), Ambiguous> {
        let (name, value) = field(line)?;
        match FramingHeader::by(name) {
            None => Ok(()),
            Some(FramingHeader::Length) if self.length.is_none() && name.get(7) == Some(&b'-') => {
                self.length = Some(length(value)?);
                Ok(())
            }
            Some(FramingHeader::Encoding) if !self.is_chunked && name.get(8) == Some(&b'-') => {
                self.is_chunked = value.eq_ignore_ascii_case(b"chunked");
                if self.is_chunked { Ok(()) } else { Err(Ambiguous) }
            }
            Some(FramingHeader::Host) if !self.has_host => {
                self.has_host = true;
                let is_host = !value.is_empty() && all(value, HOST);
                let agrees =
                    self.authority.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(value));
                if is_host && agrees { Ok(()) } else { Err(Ambiguous) }
            }
            Some(_) => Err(Ambiguous),
        }
    }

    /// The state after the head.
    const fn body(&self) -> Result<State, Ambiguous> {
        match (self.is_chunked, self.length) {
            // Some clients send no `Host`, or one without the port; the target alone counts.
            (false, None | Some(0)) if self.is_connect => Ok(State::Tunnel),
            _ if self.is_connect => Err(Ambiguous),
            _ if !self.has_host && !self.is_1_0 => Err(Ambiguous),
            (true, None) if !self.is_1_0 => Ok(State::ChunkLine),
            (true, _) => Err(Ambiguous),
            (false, Some(length)) if length > 0 => Ok(State::Body(length)),
            (false, _) => Ok(State::Start { has_skipped: false }),
        }
    }
}

/// The fields that decide where a request ends or whom it is for.
#[derive(Clone, Copy)]
enum FramingHeader {
    Length,
    Encoding,
    Host,
}

impl FramingHeader {
    /// By a name; one with an underline for its dash counts too, since some servers take it for the same.
    fn by(name: &[u8]) -> Option<Self> {
        let is = |wanted: &[u8]| {
            let same = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
            name.iter().zip(wanted).all(same)
        };
        match name.len() {
            4 if is(b"host") => Some(Self::Host),
            14 if is(b"content-length") => Some(Self::Length),
            17 if is(b"transfer-encoding") => Some(Self::Encoding),
            _ => None,
        }
    }
}

fn request_line(line: &[u8]) -> Result<Head, Ambiguous> {
    let method_end = memchr::memchr(b' ', line).ok_or(Ambiguous)?;
    let target_end = memchr::memrchr(b' ', line).ok_or(Ambiguous)?;
    let method = line.get(..method_end).unwrap_or_default();
    let target = line.get(method_end + 1..target_end).ok_or(Ambiguous)?;
    let is_1_0 = match line.get(target_end + 1..) {
        Some(b"HTTP/1.1") => false,
        Some(b"HTTP/1.0") => true,
        _ => return Err(Ambiguous),
    };
    let is_method = (1..=MAX_METHOD).contains(&method.len()) && all(method, TOKEN);
    if !is_method || !all(target, TARGET) {
        return Err(Ambiguous);
    }
    if method == b"CONNECT" {
        let head = Head { is_connect: true, is_1_0, ..Head::default() };
        return if all(target, HOST) { Ok(head) } else { Err(Ambiguous) };
    }
    let authority = match target {
        [b'/', ..] => None,
        b"*" if method == b"OPTIONS" => None,
        _ => Some(authority(target)?.into()),
    };
    Ok(Head { is_1_0, authority, ..Head::default() })
}

/// The host and port of a target that names them.
fn authority(target: &[u8]) -> Result<&[u8], Ambiguous> {
    let after = |scheme: &[u8]| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let rest = after(b"http://").or_else(|| after(b"https://")).ok_or(Ambiguous)?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let authority = rest.get(..end).unwrap_or_default();
    if authority.is_empty() || !all(authority, HOST) { Err(Ambiguous) } else { Ok(authority) }
}

/// Name and value of a field. A line that continues the one before has no name.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Ambiguous> {
    let colon = memchr::memchr(b':', line).ok_or(Ambiguous)?;
    let (name, value) = line.split_at_checked(colon).ok_or(Ambiguous)?;
    let value = value.get(1..).unwrap_or_default();
    if name.is_empty() || !all(name, TOKEN) || !all(value, VALUE) {
        return Err(Ambiguous);
    }
    // Only spaces and tabs are left of what `trim_ascii` would cut off.
    Ok((name, value.trim_ascii()))
}

fn length(value: &[u8]) -> Result<u64, Ambiguous> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Ambiguous);
    }
    let digits = std::str::from_utf8(value).map_err(|_| Ambiguous)?;
    digits.parse().map_err(|_| Ambiguous)
}

fn chunk_size(line: &[u8]) -> Result<u64, Ambiguous> {
    let end = line.iter().position(|byte| *byte == b';').unwrap_or(line.len());
    let (digits, extension) = line.split_at_checked(end).ok_or(Ambiguous)?;
    let is_size = (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    if !is_size || !all(extension, VALUE) {
        return Err(Ambiguous);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| Ambiguous)?;
    u64::from_str_radix(digits, 16).map_err(|_| Ambiguous)
}

const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const VALUE: u8 = 4;
const HOST: u8 = 8;

/// The classes of each byte.
const CLASSES: [u8; 256] = classes();

fn all(bytes: &[u8], class: u8) -> bool {
    // Folded without a branch per byte.
    bytes.iter().fold(class, |seen, byte| seen & class_of(*byte)) == class
}

fn class_of(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(0)
}

#[expect(clippy::indexing_slicing, reason = "every index is a byte; evaluated when it is compiled")]
const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let mut class = 0;
        if byte.is_ascii_alphanumeric() {
            class |= TOKEN | HOST;
        }
        if matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        ) {
            class |= TOKEN;
        }
        if matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'[' | b']' | b'%') {
            class |= HOST;
        }
        if byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>' | b'\\') {
            class |= TARGET;
        }
        if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
            class |= VALUE;
        }
        classes[at] = class;
        at += 1;
    }
    classes
}

#[cfg(test)]
mod tests;
