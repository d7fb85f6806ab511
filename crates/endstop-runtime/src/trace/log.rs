//! Writing the trace file of a stored run: sealed lines at its end, and the mark that counts them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::store::disk;
use crate::store::seal::{self, LineChain};

/// Where a file ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogEnd {
    pub(super) chain: LineChain,
    /// The checksum of the first line.
    pub(super) first: u64,
    /// Where the mark begins, in bytes.
    pub(super) mark_at: u64,
    /// The length of all whole lines, in bytes.
    pub(super) bytes: u64,
}

/// Writes the lines of a stored run, each with its number and its checksum. Each write takes whole lines of
/// [`TraceBuffer`](super::TraceBuffer), and a new file begins with the header.
///
/// A new file appears with its first lines or not at all. A file that vanished, or that another program has written to, is an
/// error: it is not begun again, and nothing in it is overwritten.
///
/// See the example of [`TraceFile`](super::TraceFile).
#[derive(Debug)]
pub struct TraceLog {
    path: PathBuf,
    file: Option<File>,
    /// `None` before the first write to a new file.
    end: Option<LogEnd>,
    /// The length that the file has, with half a line that a killed process left.
    length: u64,
}

impl TraceLog {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, end: None, length: 0 }
    }

    pub(super) fn after(path: &Path, end: LogEnd, length: u64) -> Self {
        Self { path: path.to_owned(), file: None, end: Some(end), length }
    }

    /// Whether the file is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file. The next write opens it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Creates the file with its first lines.
    fn create(&mut self, lines: &[u8]) -> io::Result<()> {
        let (mut chain, mut text) = (LineChain::default(), Vec::new());
        let mut mark = None;
        for line in whole_lines(lines) {
            chain.seal(line, &mut text);
            mark.get_or_insert_with(|| {
                let first = chain.sum();
                (first, seal::push_mark(&mut text, &seal::mark(1, first)))
            });
        }
        let Some((first, mark_at)) = mark else { return Ok(()) };
        let marked = text.get_mut(mark_at..).and_then(|text| text.first_chunk_mut());
        if let Some(marked) = marked {
            *marked = seal::mark(chain.lines(), first);
        }
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => {
                found?;
                return Err(ErrorKind::AlreadyExists.into());
            }
        }
        let mut draft = self.path.clone().into_os_string();
        draft.push(".new");
        let options = &mut disk::not_through_links();
        let mut file = options.write(true).create(true).truncate(true).open(&draft)?;
        file.write_all(&text)?;
        fs::rename(&draft, &self.path)?;
        let bytes = length(&text);
        self.end = Some(LogEnd {
            chain,
            first,
            mark_at: length(text.get(..mark_at).unwrap_or_default()),
            bytes,
        });
        (self.file, self.length) = (Some(file), bytes);
        Ok(())
    }

    fn append(&mut self, lines: &[u8], mut end: LogEnd) -> io::Result<()> {
        let mut text = Vec::new();
        whole_lines(lines).for_each(|line| end.chain.seal(line, &mut text));
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open(end.bytes)?,
        };
        file.seek(SeekFrom::Start(end.bytes))?;
        file.write_all(&text)?;
        end.bytes = end.bytes.saturating_add(length(&text));
        file.seek(SeekFrom::Start(end.mark_at))?;
        file.write_all(&seal::mark(end.chain.lines(), end.first))?;
        (self.file, self.end, self.length) = (Some(file), Some(end), end.bytes);
        Ok(())
    }

    /// Opens the file where it ends. Half a line of a killed process is cut off.
    fn open(&self, bytes: u64) -> io::Result<File> {
        let file = disk::not_through_links().write(true).open(&self.path)?;
        let about = file.metadata()?;
        if !about.is_file() || about.len() != self.length {
            return Err(io::Error::other("another program has written to its file"));
        }
        if bytes < self.length {
            file.set_len(bytes)?;
        }
        Ok(file)
    }
}

impl Write for TraceLog {
    /// Writes whole lines, and closes the file after an error.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match self.end {
            None => self.create(lines),
            Some(end) => self.append(lines, end),
        }?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn whole_lines(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn length(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
