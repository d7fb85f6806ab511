//! Chunks that come together are read as one.
//!
//! The HTTP library hands over each chunk of a body separately, and the events of a stream are a chunk each: fifty
//! chunks that an upstream has sent in one piece cost as much as fifty pieces. So the framing is made coarser before
//! the library reads it: complete chunks that were read together become one. The boundaries of chunks mean nothing,
//! and nothing else in a response is touched. Anything that is not plainly such a body stays as it is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::{memchr, memmem};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::MAX_CHUNK_DIGITS;

/// A connection to an upstream, its chunks put together.
#[derive(Debug)]
pub(super) struct JoinedChunks<W> {
    wire: W,
    position: ChunkPosition,
    /// A request was written since the last read: what is read next is the head of its answer. Where an upstream
    /// answers before it has read the whole request, a part of the answer is taken for a head; it is none, so nothing
    /// is put together then.
    has_written: bool,
}

impl<W> JoinedChunks<W> {
    pub(super) const fn new(wire: W) -> Self {
        Self { wire, position: ChunkPosition::Unknown, has_written: false }
    }
}

/// Where in an answer the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPosition {
    /// At its beginning.
    Head,
    /// In the size of a chunk: what it is so far, and of how many digits.
    Size(u64, usize),
    /// After the size of a chunk: before its line feed.
    SizeEnd(u64),
    /// In a chunk: so many bytes are left of it.
    Chunk(u64),
    /// Before the carriage return that ends a chunk.
    Return,
    /// Before the line feed that ends a chunk.
    LineFeed,
    /// Somewhere that is not followed.
    Unknown,
}

/// Before a chunk.
const BETWEEN: ChunkPosition = ChunkPosition::Size(0, 0);

impl ChunkPosition {
    /// Records data that was read, and puts its chunks together; returns its new length.
    fn take(&mut self, read: &mut [u8]) -> usize {
        if read.is_empty() {
            return 0;
        }
        let mut at = 0;
        if *self == Self::Head {
            at = self.head(read);
        }
        at = self.follow(read, at, true);
        if *self != BETWEEN {
            return read.len();
        }
        let rest = read.get_mut(at..).unwrap_or_default();
        let (taken, left) = join(rest);
        if left < taken {
            read.copy_within(at + taken.., at + left);
        }
        let length = read.len().saturating_sub(taken.saturating_sub(left));
        self.follow(read.get(..length).unwrap_or_default(), at + left, false);
        length
    }

    /// Takes the head of an answer, if it is there as a whole; gives where it ends.
    fn head(&mut self, read: &[u8]) -> usize {
        let end = memmem::find(read, b"\r\n\r\n").map(|end| end.saturating_add(4));
        let head = end.and_then(|end| read.get(..end)).unwrap_or_default();
        *self = if is_chunked(head) { BETWEEN } else { Self::Unknown };
        end.unwrap_or(0)
    }

    /// Continues byte by byte from `at`: to the end of the present chunk if `stops_between`, and otherwise to the
    /// end.
    fn follow(&mut self, read: &[u8], at: usize, stops_between: bool) -> usize {
        let mut at = at;
        while let Some(&byte) = read.get(at)
            && *self != Self::Unknown
            && !(stops_between && *self == BETWEEN)
        {
            let mut taken = 1;
            *self = match *self {
                Self::Size(size, digits) => match (char::from(byte).to_digit(16), byte) {
                    (Some(digit), _) if digits < MAX_CHUNK_DIGITS => {
                        Self::Size(size.wrapping_mul(16).wrapping_add(digit.into()), digits + 1)
                    }
                    (_, b'\r') if digits > 0 && size > 0 => Self::SizeEnd(size),
                    // The last chunk, an extension, or no size at all.
                    _ => Self::Unknown,
                },
                Self::SizeEnd(size) if byte == b'\n' => Self::Chunk(size),
                Self::Chunk(left) => {
                    taken = usize::try_from(left).unwrap_or(usize::MAX).min(read.len() - at);
                    match left.saturating_sub(taken as u64) {
                        0 => Self::Return,
                        left => Self::Chunk(left),
                    }
                }
                Self::Return if byte == b'\r' => Self::LineFeed,
                Self::LineFeed if byte == b'\n' => BETWEEN,
                _ => Self::Unknown,
            };
            at += taken;
        }
        at
    }
}

/// Whether a head says that a body in chunks follows, and says nothing else of it.
fn is_chunked(head: &[u8]) -> bool {
    let lines = head.strip_suffix(b"\n").unwrap_or_default();
    let mut fields = lines.split(|byte| *byte == b'\n');
    let status = fields.next().filter(|line| line.ends_with(b"\r"));
    let status = status.and_then(|line| line.strip_prefix(b"HTTP/1.1 "));
    // Others have no body, or another meaning.
    if !status.is_some_and(|status| matches!(status.first(), Some(b'2'..=b'5'))) {
        return false;
    }
    let mut is_chunked = false;
    for field in fields {
        // A head may end at a line feed alone for those who take that for the end of a line.
        if !field.ends_with(b"\r") {
            return false;
        }
        let name = memchr(b':', field).and_then(|colon| field.split_at_checked(colon));
        let Some((name, value)) = name else { continue };
        if name.eq_ignore_ascii_case(b"content-length") {
            return false;
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            if is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return false;
            }
            is_chunked = true;
        }
    }
    is_chunked
}

/// The bytes of the chunk that these begin with, if it is plain and complete, and its length with its framing.
fn chunk(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let mut size = 0usize;
    let mut digits = 0;
    let start = loop {
        let byte = *bytes.get(digits)?;
        match char::from(byte).to_digit(16) {
            Some(digit) if digits < MAX_CHUNK_DIGITS => {
                size = size.wrapping_mul(16).wrapping_add(usize::try_from(digit).ok()?);
                digits += 1;
            }
            _ => break digits,
        }
    };
    let data = bytes.get(start..)?.strip_prefix(b"\r\n").filter(|_| size > 0)?;
    let (data, after) = data.split_at_checked(size)?;
    let left = after.strip_prefix(b"\r\n")?;
    Some((data, bytes.len().saturating_sub(left.len())))
}

/// Makes one chunk of the whole ones that these bytes begin with; gives how long they were, and how long it is.
fn join(bytes: &mut [u8]) -> (usize, usize) {
    let Some((first, mut taken)) = chunk(bytes).map(|(data, length)| (data.len(), length)) else {
        return (0, 0);
    };
    let (alone, start) = (taken, taken.saturating_sub(first + 2));
    let mut end = start + first;
    while let Some((data, length)) = bytes.get(taken..).and_then(chunk) {
        let (size, next) = (data.len(), taken + length);
        bytes.copy_within(next.saturating_sub(size + 2)..next.saturating_sub(2), end);
        end += size;
        taken = next;
    }
    if taken == alone {
        return (taken, taken);
    }
    let size = format!("{:x}\r\n", end.saturating_sub(start));
    // A size of more digits needs less room than the framing had that is gone.
    bytes.copy_within(start..end, size.len());
    let end = end.saturating_sub(start) + size.len();
    let places = [(0..size.len(), size.as_bytes()), (end..end + 2, b"\r\n")];
    for (place, framing) in places {
        if let Some(place) = bytes.get_mut(place) {
            place.copy_from_slice(framing);
        }
    }
    (taken, end + 2)
}

impl<W: AsyncRead + Unpin> AsyncRead for JoinedChunks<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buf))?;
        if std::mem::take(&mut self.has_written) {
            self.position = ChunkPosition::Head;
        }
        if let Some(read) = buf.filled_mut().get_mut(before..) {
            let length = self.position.take(read);
            buf.set_filled(before.saturating_add(length));
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for JoinedChunks<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.has_written = true;
        Pin::new(&mut self.wire).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.has_written = true;
        Pin::new(&mut self.wire).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
