//! Files of sealed lines: created with a header that counts the lines, appended to, and read back in order. The trace files
//! of the gateway and of [`FileStore`](super::FileStore) are both written and read here.
//!
//! The first line names the run and is the header of a trace, so every such file is an Endstop trace.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use endstop_core::wire::v1::trace::{Header, VERSION};
use thiserror::Error;

use super::seal::{self, LineChain, SealError};
use super::{RunId, WholeLines, disk};
use crate::limits::{
    CHECKED_TAIL_BYTES, MAX_TRACE_HEADER_BYTES, MAX_TRACE_LINE, TAIL_BLOCK_BYTES, TRACE_READ_BYTES,
};

/// Why a trace file cannot be read back. Then the spend of its run is not known.
#[derive(Debug, Error)]
pub enum TraceFileError {
    /// The system does not let it be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a directory, a symbolic link, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It belongs to another user of the system.
    #[error("it belongs to another user")]
    OtherOwner,
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// A line is longer than what is ever written.
    #[error("a line has more than {} MiB", MAX_TRACE_LINE >> 20)]
    LongLine,
    /// Lines at its end are missing.
    #[error("lines at its end are missing: it has {found} of {written}")]
    Shortened {
        /// The whole lines in it.
        found: u64,
        /// The lines that were written.
        written: u64,
    },
    /// Bytes after the last line are not the beginning of a line.
    #[error("the text after line {line} was not written by a run")]
    Tail {
        /// The number of the last whole line, from one.
        line: u64,
    },
    /// A line differs from the one that a run wrote.
    #[error("line {line} is damaged: {problem}")]
    Damaged {
        /// Its number, from one.
        line: u64,
        /// The problem with it.
        problem: TraceLineError,
    },
    /// A line is as it was written, and a later version of the program wrote it.
    #[error(
        "line {line} was written by a later version of the program ({}): upgrade this one",
        brief(problem)
    )]
    Newer {
        /// Its number, from one.
        line: u64,
        /// The part that is not known here.
        problem: TraceLineError,
    },
}

impl TraceFileError {
    /// The error for a line whose seal is right: a program wrote it as it is.
    pub(crate) fn of_sealed(line: u64, problem: TraceLineError) -> Self {
        match problem {
            TraceLineError::Json(_) => Self::Newer { line, problem },
            problem => Self::of_line(line, problem),
        }
    }

    /// The error for a line whose seal may be wrong.
    fn of_line(line: u64, problem: TraceLineError) -> Self {
        match problem {
            TraceLineError::Version(found) if found > VERSION => Self::Newer { line, problem },
            problem => Self::Damaged { line, problem },
        }
    }
}

/// The problem without the list of all that is known.
fn brief(problem: &TraceLineError) -> String {
    let text = problem.to_string();
    match text.split_once(", expected") {
        Some((brief, _)) => brief.to_owned(),
        None => text,
    }
}

/// The problem with a line of a trace file.
#[derive(Debug, Error)]
pub enum TraceLineError {
    /// It is not JSON, or no known event.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The header has a version that is not known.
    #[error("the trace has version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// The header names another run.
    #[error("it is the file of another run")]
    OtherRun,
    /// The seal of the line is missing or wrong.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The header does not say how many lines there are.
    #[error("it does not record its number of lines")]
    NoMark,
}

/// Where a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedEnd {
    chain: LineChain,
    /// The checksum of the first line.
    first: u64,
    /// Where the mark begins, in bytes.
    mark_at: u64,
    /// The length of all whole lines, in bytes.
    bytes: u64,
}

impl SealedEnd {
    /// The length of all whole lines, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn mark(&self) -> [u8; seal::MARK_BYTES] {
        seal::mark(self.chain.lines(), self.first)
    }
}

/// Creates a file with its first lines, of which the first is the header. The file appears with all of them or not at all:
/// they are written to a draft next to it, which is renamed. Returns `None` without a line.
///
/// # Errors
///
/// Returns an error if anything is there already, and whatever the system says.
pub(crate) fn create<'l>(
    path: &Path,
    lines: impl IntoIterator<Item = &'l [u8]>,
    waits_for_disk: bool,
) -> io::Result<Option<(File, SealedEnd)>> {
    let (mut chain, mut text) = (LineChain::default(), Vec::new());
    let mut begin = None;
    for line in lines {
        chain.seal(line, &mut text);
        begin.get_or_insert_with(|| {
            let first = chain.sum();
            (first, seal::push_mark(&mut text, &seal::mark(1, first)))
        });
    }
    let Some((first, at)) = begin else { return Ok(None) };
    let mark_at = length(text.get(..at).unwrap_or_default());
    let end = SealedEnd { chain, first, mark_at, bytes: length(&text) };
    if let Some(mark) = text.get_mut(at..).and_then(|text| text.first_chunk_mut()) {
        *mark = end.mark();
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => {
            found?;
            return Err(ErrorKind::AlreadyExists.into());
        }
    }
    let draft = draft(path);
    let file = disk::open_empty(&draft)?;
    disk::write_all(&file, &text)?;
    if waits_for_disk {
        disk::sync(&file)?;
    }
    disk::rename(&draft, path)?;
    Ok(Some((file, end)))
}

/// The name that a file has before it appears.
pub(crate) fn draft(path: &Path) -> PathBuf {
    let mut draft = path.to_owned().into_os_string();
    draft.push(".new");
    draft.into()
}

/// Appends lines to a file that ends at `end`, and counts them in its header. After an error they are taken back.
///
/// The mark is written after the lines, and with `waits_for_disk` only once the disk has them: a mark without its lines
/// would make the whole file look damaged.
pub(crate) fn append<'l>(
    file: &File,
    end: &mut SealedEnd,
    lines: impl IntoIterator<Item = &'l [u8]>,
    waits_for_disk: bool,
) -> io::Result<()> {
    let (mut after, mut text) = (*end, Vec::new());
    lines.into_iter().for_each(|line| after.chain.seal(line, &mut text));
    after.bytes = after.bytes.saturating_add(length(&text));
    let wait = || if waits_for_disk { disk::sync(file) } else { Ok(()) };
    let written = disk::write_at(file, end.bytes, &text)
        .and_then(|()| wait())
        .and_then(|()| disk::overwrite(file, after.mark_at, &after.mark()))
        .and_then(|()| wait());
    if written.is_err() {
        // The mark first: it must not count lines that are gone. If this fails too, lines are left that no caller knows.
        if disk::overwrite(file, end.mark_at, &end.mark()).is_ok() {
            drop(disk::set_len(file, end.bytes));
        }
        return written;
    }
    *end = after;
    Ok(())
}

/// Finds where the file of a run ends by its first and its last line, without reading those between. Cuts off half a line
/// that a killed process left. The file must be locked.
///
/// # Errors
///
/// The damage in the file, if either line differs from the one that a run wrote: then the whole file is read to name it.
pub(crate) fn find_end(
    file: &File,
    path: &Path,
    id: &RunId,
    torn: &[u8],
) -> Result<SealedEnd, TraceFileError> {
    let length = checked_length(file)?;
    let end = match quick_end(file, id, torn, length)? {
        Some(end) => end,
        None => {
            let Some(mut lines) = SealedLines::open(path, id, torn)? else {
                return Err(io::Error::from(ErrorKind::NotFound).into());
            };
            while lines.advance()?.is_some() {}
            lines.end()
        }
    };
    if end.bytes < length {
        disk::set_len(file, end.bytes)?;
    }
    Ok(end)
}

/// `None` if the file has to be read as a whole.
fn quick_end(
    mut file: &File,
    id: &RunId,
    torn: &[u8],
    length: u64,
) -> io::Result<Option<SealedEnd>> {
    let mut block = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(MAX_TRACE_HEADER_BYTES).read_to_end(&mut block)?;
    let header = memchr::memchr(b'\n', &block).and_then(|end| block.get(..end));
    let Some(Ok(begin)) = header.map(|header| Begin::read(header, id)) else { return Ok(None) };
    let header_bytes = header.map_or(0, self::length).saturating_add(1);
    let (bytes, tail) = last_line_end(file, length)?;
    if !seal::is_torn_line(&tail, torn) {
        return Ok(None);
    }
    let mut end = begin.end(header_bytes);
    if bytes > header_bytes {
        // Without the line feed.
        let last = bytes.saturating_sub(1);
        let from = last.saturating_sub(length_of_seal());
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        file.take(last.saturating_sub(from)).read_to_end(&mut text)?;
        let Some(chain) = LineChain::after(&text) else { return Ok(None) };
        end = SealedEnd { chain, bytes, ..end };
    }
    Ok((end.chain.lines() >= begin.written).then_some(end))
}

fn length_of_seal() -> u64 {
    u64::try_from(seal::LONGEST_SEAL).unwrap_or(u64::MAX)
}

/// Where the last whole line ends, and the first bytes of what follows it.
fn last_line_end(mut file: &File, length: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut end = length;
    let mut tail = Vec::new();
    // One byte first: nearly always it is the line feed.
    let mut block = 1;
    while end > 0 {
        let start = end.saturating_sub(block);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
        if let Some(at) = memchr::memrchr(b'\n', &bytes) {
            let after = bytes.split_off(at.saturating_add(1));
            end = start.saturating_add(self::length(&bytes));
            tail = [after, tail].concat();
            break;
        }
        bytes.extend_from_slice(&tail);
        bytes.truncate(CHECKED_TAIL_BYTES);
        tail = bytes;
        end = start;
        block = TAIL_BLOCK_BYTES;
    }
    tail.truncate(CHECKED_TAIL_BYTES);
    Ok((end, tail))
}

/// Checks that a line is the header of a run's trace.
pub(crate) fn check_header(line: &[u8], id: &RunId) -> Result<(), TraceLineError> {
    let header: Header<'_> = serde_json::from_slice(line)?;
    if header.endstop_trace != VERSION {
        return Err(TraceLineError::Version(header.endstop_trace));
    }
    if header.run != id.as_str() {
        return Err(TraceLineError::OtherRun);
    }
    Ok(())
}

/// The header of a file.
struct Begin {
    chain: LineChain,
    /// The lines that it says there are.
    written: u64,
    /// Where in the line the mark begins.
    mark_at: u64,
}

impl Begin {
    fn read(line: &[u8], id: &RunId) -> Result<Self, TraceLineError> {
        check_header(line, id)?;
        let (sealed, mark) = seal::split_mark(line).ok_or(TraceLineError::NoMark)?;
        let mut chain = LineChain::default();
        chain.check(&sealed)?;
        let written = seal::marked_lines(mark, chain.sum()).ok_or(TraceLineError::NoMark)?;
        Ok(Self { chain, written, mark_at: seal::mark_position(line.len()) })
    }

    /// The end of a file that has nothing but the header, of this length.
    const fn end(&self, bytes: u64) -> SealedEnd {
        SealedEnd { chain: self.chain, first: self.chain.sum(), mark_at: self.mark_at, bytes }
    }
}

/// Reads the lines of a file after its header and checks each. The file is not changed.
#[derive(Debug)]
pub(crate) struct SealedLines {
    lines: WholeLines<BufReader<File>>,
    /// How half a line begins that a killed process left.
    torn: Vec<u8>,
    /// The length of the file when it was opened.
    length: u64,
    end: SealedEnd,
    /// The lines that the header says there are.
    written: u64,
}

impl SealedLines {
    /// Opens the file of a run and reads its header. Returns `None` if there is no file.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be the file of this run.
    pub(crate) fn open(
        path: &Path,
        id: &RunId,
        torn: &[u8],
    ) -> Result<Option<Self>, TraceFileError> {
        let file = match disk::not_through_links().read(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if disk::is_link_error(&error) => return Err(TraceFileError::NotAFile),
            file => file?,
        };
        let length = checked_length(&file)?;
        let mut lines = WholeLines::new(BufReader::with_capacity(TRACE_READ_BYTES, file));
        if !next(&mut lines)? {
            return Err(TraceFileError::Shortened { found: 0, written: 1 });
        }
        let begin =
            Begin::read(lines.line(), id).map_err(|problem| TraceFileError::of_line(1, problem))?;
        let (end, written) = (begin.end(lines.length()), begin.written);
        Ok(Some(Self { lines, torn: torn.to_owned(), length, end, written }))
    }

    /// The next line, with its seal and without its line feed. Returns `None` at the end, after checking that the file ends
    /// as a run leaves it.
    ///
    /// A process that was killed can leave half a line at the end: it was never acknowledged, and does not count.
    ///
    /// # Errors
    ///
    /// The damage that was found.
    pub(crate) fn advance(&mut self) -> Result<Option<&[u8]>, TraceFileError> {
        let found = self.end.chain.lines();
        if next(&mut self.lines)? {
            let line = found.saturating_add(1);
            self.end.chain.check(self.lines.line()).map_err(|error| {
                let problem = error.into();
                TraceFileError::Damaged { line, problem }
            })?;
            self.end.bytes = self.end.bytes.saturating_add(self.lines.length());
            return Ok(Some(self.lines.line()));
        }
        if found < self.written {
            return Err(TraceFileError::Shortened { found, written: self.written });
        }
        if !seal::is_torn_line(self.lines.line(), &self.torn) {
            return Err(TraceFileError::Tail { line: found });
        }
        Ok(None)
    }

    /// The error for the line that was read last.
    pub(crate) fn unread(&self, problem: TraceLineError) -> TraceFileError {
        TraceFileError::of_sealed(self.end.chain.lines(), problem)
    }

    /// Where the lines end that were read so far.
    pub(crate) const fn end(&self) -> SealedEnd {
        self.end
    }

    /// The length that the file had when it was opened, with half a line that a killed process left.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }
}

/// Goes to the next whole line. Without one the reader has what follows the last.
fn next(lines: &mut WholeLines<impl io::BufRead>) -> Result<bool, TraceFileError> {
    let is_line = lines.advance(MAX_TRACE_LINE)?;
    if lines.line().len() >= MAX_TRACE_LINE {
        return Err(TraceFileError::LongLine);
    }
    Ok(is_line)
}

/// The length of a file that can be one of a run.
fn checked_length(file: &File) -> Result<u64, TraceFileError> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(TraceFileError::NotAFile);
    }
    if !disk::is_trusted(&about) {
        return Err(TraceFileError::OtherOwner);
    }
    if about.len() == 0 {
        return Err(TraceFileError::Empty);
    }
    Ok(about.len())
}

fn length(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
