//! A file to read, or bytes in its place.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memchr_iter;

/// Endings that are no part of a file's stem.
const ENDINGS: [&str; 6] = [".jsonl", ".ndjson", ".json", ".traj", ".log", ".eval"];

/// How much is read at once where line feeds are counted: it fits the cache.
const CHUNK_BYTES: u64 = 128 << 10;

/// The reader for archives: their table of contents is at their end.
pub(super) trait ReadSeek: Read + Seek {}

impl<R: Read + Seek> ReadSeek for R {}

/// A file of a transcript.
///
/// ```
/// use endstop_transcript::Part;
///
/// let part = Part::bytes("a.jsonl", &b"{}\n{}\n"[..]);
/// assert_eq!((part.name(), part.length()), ("a.jsonl", Some(6)));
/// assert_eq!(part.line_feeds()?, 2);
/// assert_eq!(Part::file("b.jsonl").path(), Some(std::path::Path::new("b.jsonl")));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Part {
    name: String,
    content: Content,
}

/// Begins a stream from its beginning. A reader may go through its part more than once.
type Opener = dyn Fn() -> io::Result<Box<dyn Read>> + Send + Sync;

#[derive(Clone)]
enum Content {
    File(PathBuf),
    /// Shared, for pieces of it may be many.
    Bytes(Arc<Cow<'static, [u8]>>),
    Stream(Arc<Opener>),
    /// Bytes from one offset up to another, of a file or of bytes.
    Piece(Box<Content>, Range<u64>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Piece(of, range) => write!(f, "{of:?}[{range:?}]"),
        }
    }
}

impl Part {
    /// Creates a part from a file on disk.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: path.display().to_string(), content: Content::File(path) }
    }

    /// Creates a part from bytes, under the name of a file.
    #[must_use]
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { name: name.into(), content: Content::Bytes(Arc::new(bytes.into())) }
    }

    /// Returns the data that `open` returns, under the name of a file. It is called each time the part is read from its
    /// beginning, and has to return the same bytes each time.
    #[must_use]
    pub fn stream(
        name: impl Into<String>,
        open: impl Fn() -> io::Result<Box<dyn Read>> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), content: Content::Stream(Arc::new(open)) }
    }

    /// Its bytes from `range.start` up to `range.end`, or to the end if that comes first, under the same
    /// name. Lines are counted from the piece's first.
    pub(super) fn piece(&self, range: Range<u64>) -> Self {
        let content = Content::Piece(Box::new(self.content.clone()), range);
        Self { name: self.name.clone(), content }
    }

    /// Returns the name, as shown in warnings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path, if it is a whole file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.content {
            Content::File(path) => Some(path),
            Content::Bytes(_) | Content::Stream(_) | Content::Piece(..) => None,
        }
    }

    /// Returns the length in bytes, if it is known and pieces can be taken.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match &self.content {
            Content::File(path) => {
                let about = path.metadata().ok()?;
                about.is_file().then_some(about.len())
            }
            Content::Bytes(bytes) => u64::try_from(bytes.len()).ok(),
            Content::Stream(_) | Content::Piece(..) => None,
        }
    }

    /// Returns the number of line feeds.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn line_feeds(&self) -> io::Result<u64> {
        let (mut reader, mut chunk, mut feeds) = (self.open()?, Vec::new(), 0u64);
        loop {
            chunk.clear();
            if reader.by_ref().take(CHUNK_BYTES).read_to_end(&mut chunk)? == 0 {
                return Ok(feeds);
            }
            feeds += memchr_iter(b'\n', &chunk).count() as u64;
        }
    }

    /// Returns the file's name without directories and known endings.
    #[must_use]
    pub fn stem(&self) -> &str {
        let mut stem = self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name);
        while let Some(shorter) = ENDINGS.iter().find_map(|ending| stem.strip_suffix(ending)) {
            if shorter.is_empty() {
                break;
            }
            stem = shorter;
        }
        stem
    }

    /// Opens it from its beginning.
    ///
    /// # Errors
    ///
    /// Returns the errors of opening the file or the stream.
    pub fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        match &self.content {
            Content::File(path) => Ok(Box::new(File::open(path)?)),
            Content::Bytes(bytes) => Ok(Box::new(&***bytes)),
            Content::Stream(open) => open(),
            Content::Piece(of, range) => {
                let mut whole = of.open_to_seek()?;
                whole.seek(SeekFrom::Start(range.start))?;
                Ok(Box::new(whole.take(range.end.saturating_sub(range.start))))
            }
        }
    }

    /// Opens it to be read in any order, which a stream cannot be.
    pub(super) fn open_to_seek(&self) -> io::Result<Box<dyn ReadSeek + '_>> {
        self.content.open_to_seek()
    }
}

impl Content {
    fn open_to_seek(&self) -> io::Result<Box<dyn ReadSeek + '_>> {
        match self {
            Self::File(path) => Ok(Box::new(File::open(path)?)),
            Self::Bytes(bytes) => Ok(Box::new(Cursor::new(&***bytes))),
            Self::Stream(_) | Self::Piece(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
