//! Just enough HTTP/1.1 to read requests and answers off a socket.

use std::io;

use memchr::memmem;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Beyond this a head is no head.
const MOST_HEAD: usize = 64 << 10;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(usize),
    /// By chunks.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// The start of a message.
#[derive(Clone, Debug)]
pub struct Head {
    /// The first line.
    pub line: String,
    /// How its body ends.
    pub framing: Framing,
}

impl Head {
    /// The status of an answer.
    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    fn read(text: &str, is_request: bool) -> Self {
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let mut framing = if is_request { Framing::Length(0) } else { Framing::Close };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                framing = Framing::Length(value.trim().parse().unwrap_or(0));
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked;
            }
        }
        Self { line, framing }
    }
}

/// Where a chunked body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chunks {
    #[default]
    Size,
    Data(usize),
    AfterData,
    Trailer,
    Done,
}

impl Chunks {
    /// Takes what it can of the input, appends the body's bytes and tells how much it took.
    fn decode(&mut self, input: &[u8], body: &mut Vec<u8>) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            match *self {
                Self::Done => return Ok(at),
                Self::Data(left) => {
                    let taken = left.min(rest.len());
                    body.extend_from_slice(rest.get(..taken).unwrap_or_default());
                    at += taken;
                    if taken < left {
                        *self = Self::Data(left - taken);
                        return Ok(at);
                    }
                    *self = Self::AfterData;
                }
                Self::Size | Self::AfterData | Self::Trailer => {
                    let Some(end) = memmem::find(rest, b"\r\n") else { return Ok(at) };
                    let line = rest.get(..end).unwrap_or_default();
                    at += end + 2;
                    *self = self.after_line(line)?;
                }
            }
        }
    }

    fn after_line(self, line: &[u8]) -> io::Result<Self> {
        match self {
            Self::AfterData => Ok(Self::Size),
            Self::Trailer if line.is_empty() => Ok(Self::Done),
            Self::Trailer => Ok(Self::Trailer),
            _ => {
                let text = std::str::from_utf8(line).unwrap_or_default();
                let digits = text.split(';').next().unwrap_or_default().trim();
                match usize::from_str_radix(digits, 16) {
                    Ok(0) => Ok(Self::Trailer),
                    Ok(size) => Ok(Self::Data(size)),
                    Err(_) => Err(io::Error::other(format!("`{text}` is no size of a chunk"))),
                }
            }
        }
    }
}

/// A socket, and its bytes that were read and not used yet.
#[derive(Debug)]
pub struct Wire {
    /// The socket.
    pub socket: TcpStream,
    unread: Vec<u8>,
}

impl Wire {
    /// Around a socket; small writes go out at once.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self { socket, unread: Vec::with_capacity(16 << 10) })
    }

    /// Reads more; none at the end of the connection.
    async fn more(&mut self) -> io::Result<Option<usize>> {
        let read = self.socket.read_buf(&mut self.unread).await?;
        Ok((read > 0).then_some(read))
    }

    /// Reads a head; none where the connection ended before one began.
    pub async fn head(&mut self, is_request: bool) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = memmem::find(&self.unread, b"\r\n\r\n") {
                let text = String::from_utf8_lossy(self.unread.get(..end).unwrap_or_default())
                    .into_owned();
                self.unread.drain(..end + 4);
                let head = Head::read(&text, is_request);
                if head.status() == 100 {
                    continue;
                }
                return Ok(Some(head));
            }
            if self.unread.len() > MOST_HEAD {
                return Err(io::Error::other("the head is too long"));
            }
            if self.more().await?.is_none() {
                return if self.unread.is_empty() { Ok(None) } else { Err(cut()) };
            }
        }
    }

    /// Reads a body to its end; `arrived` gets the number of its bytes in each read.
    pub async fn body(
        &mut self,
        framing: Framing,
        body: &mut Vec<u8>,
        mut arrived: impl FnMut(usize),
    ) -> io::Result<()> {
        body.clear();
        let mut chunks = Chunks::default();
        loop {
            let before = body.len();
            let is_whole = match framing {
                Framing::Length(length) => {
                    let taken = (length - body.len()).min(self.unread.len());
                    body.extend(self.unread.drain(..taken));
                    body.len() == length
                }
                Framing::Chunked => {
                    let taken = chunks.decode(&self.unread, body)?;
                    self.unread.drain(..taken);
                    chunks == Chunks::Done
                }
                Framing::Close => {
                    body.append(&mut self.unread);
                    false
                }
            };
            if body.len() > before {
                arrived(body.len() - before);
            }
            if is_whole {
                return Ok(());
            }
            if self.more().await?.is_none() {
                return if framing == Framing::Close { Ok(()) } else { Err(cut()) };
            }
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a message")
}

#[cfg(test)]
mod tests;
