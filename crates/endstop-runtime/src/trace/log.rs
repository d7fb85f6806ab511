//! Writing the trace file of a stored run: sealed lines at its end, and the mark that counts them.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::store::disk;
use crate::store::sealed_file::{self, SealedEnd};

/// Writes the lines of a stored run, each with its number and its checksum. Each write takes whole lines of
/// [`TraceBuffer`](super::TraceBuffer), and a new file begins with the header.
///
/// A new file appears with its first lines or not at all. A file that vanished, or that another program has written to, is an
/// error at the next write: it is not begun again, and nothing in it is overwritten.
///
/// See the example of [`TraceFile`](super::TraceFile).
#[derive(Debug)]
pub struct TraceLog {
    path: PathBuf,
    file: Option<File>,
    /// `None` before the first write to a new file.
    end: Option<SealedEnd>,
    /// The length that the file has, with half a line that a killed process left.
    length: u64,
}

impl TraceLog {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, end: None, length: 0 }
    }

    pub(super) fn after(path: &Path, end: SealedEnd, length: u64) -> Self {
        Self { path: path.to_owned(), file: None, end: Some(end), length }
    }

    /// Returns whether the file is open.
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
        if let Some((file, end)) = sealed_file::create(&self.path, whole_lines(lines), false)? {
            (self.file, self.end, self.length) = (Some(file), Some(end), end.bytes());
        }
        Ok(())
    }

    fn append(&mut self, lines: &[u8], mut end: SealedEnd) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => disk::not_through_links().write(true).open(&self.path)?,
        };
        self.check(&file)?;
        if end.bytes() < self.length {
            // Half a line of a killed process.
            file.set_len(end.bytes())?;
        }
        sealed_file::append(&file, &mut end, whole_lines(lines), false)?;
        (self.file, self.end, self.length) = (Some(file), Some(end), end.bytes());
        Ok(())
    }

    /// Refuses a file that is not as it was left. Before each write, because a file that is kept open can be written to,
    /// removed or replaced as well as a closed one.
    fn check(&self, file: &File) -> io::Result<()> {
        let about = file.metadata()?;
        if !about.is_file() || about.len() != self.length {
            return Err(io::Error::other("another program has written to its file"));
        }
        if !disk::is_at(file, &self.path)? {
            return Err(io::Error::other("another program has removed or replaced its file"));
        }
        Ok(())
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
