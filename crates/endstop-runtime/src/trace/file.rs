//! The trace file of a root run: read back when the run continues.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use endstop_core::Program;
use endstop_core::wire::v1::trace::{Header, VERSION};
use thiserror::Error;

use super::log::{LogEnd, TraceLog};
use super::replay::{Replay, Replayed};
use crate::limits::{MAX_TRACE_LINE, TRACE_READ_BYTES};
use crate::store::seal::{self, LineChain, SealError};
use crate::store::{RunId, WholeLines, disk};

/// A trace file that was read.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunHandle, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let policy = Policy::from(max_steps(9));
/// # let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// use endstop_core::{Event, EventKind, units::Millis};
/// use endstop_runtime::trace::{TraceBuffer, TraceFile};
///
/// # let path = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// let mut new = TraceFile::read(&path, &info.id, &program)?;
/// assert!(new.replayed.is_none(), "there is no file");
/// let buffer = TraceBuffer::new();
/// buffer.push_header(&info, None);
/// buffer.push(&Event::new(Millis(0), EventKind::StepBegin));
/// buffer.write_to(&mut new.log, 0)?;
///
/// let read = TraceFile::read(&path, &info.id, &program)?;
/// assert_eq!(read.replayed.map(|replayed| replayed.run().step_count()), Some(1));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TraceFile {
    /// The run so far, with nothing open. `None` if there is no file.
    pub replayed: Option<Replayed>,
    /// Writes what happens from here on.
    pub log: TraceLog,
}

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
    #[error("what follows line {line} was not written by a run")]
    Tail {
        /// The number of the last whole line, from one.
        line: u64,
    },
    /// A line is not what was written.
    #[error("line {line} is damaged: {problem}")]
    Damaged {
        /// Its number, from one.
        line: u64,
        /// The problem with it.
        problem: TraceLineError,
    },
}

/// What is wrong with a line of a trace file.
#[derive(Debug, Error)]
pub enum TraceLineError {
    /// It is not JSON, or no known event.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The header has a version that is not known.
    #[error("a trace of version {0}; known is {VERSION}")]
    Version(u32),
    /// The header names another run.
    #[error("it is the file of another run")]
    OtherRun,
    /// The seal of the line is missing or wrong.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The header does not say how many lines there are.
    #[error("it does not say how many lines there are")]
    NoMark,
}

/// The header of a file.
struct Begin {
    chain: LineChain,
    /// The lines that it says there are.
    written: u64,
    /// Where in the line the mark begins.
    mark_at: u64,
}

impl TraceFile {
    /// Reads the file of a root run, and replays it under `program`. The file is not changed.
    ///
    /// A process that was killed can leave half a line at the end: it was never acknowledged, and does not count.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be read, or is not what a run wrote, from the first line to the last.
    pub fn read(path: &Path, id: &RunId, program: &Arc<Program>) -> Result<Self, TraceFileError> {
        let file = match disk::not_through_links().read(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { replayed: None, log: TraceLog::new(path) });
            }
            Err(error) if disk::is_link_error(&error) => return Err(TraceFileError::NotAFile),
            file => file?,
        };
        let length = checked_length(&file)?;
        let mut lines = WholeLines::new(BufReader::with_capacity(TRACE_READ_BYTES, file));
        if !next(&mut lines)? {
            return Err(TraceFileError::Shortened { found: 0, written: 1 });
        }
        let mut end = lines.length();
        let begin = begin(lines.line(), id)
            .map_err(|problem| TraceFileError::Damaged { line: 1, problem })?;
        let (mut chain, first) = (begin.chain, begin.chain.sum());
        let mut replay = Replay::new(Arc::clone(program));
        while next(&mut lines)? {
            let line = chain.lines().saturating_add(1);
            let damaged = |problem| TraceFileError::Damaged { line, problem };
            chain.check(lines.line()).map_err(|error| damaged(error.into()))?;
            replay.take_line(lines.line()).map_err(damaged)?;
            end = end.saturating_add(lines.length());
        }
        if chain.lines() < begin.written {
            let (found, written) = (chain.lines(), begin.written);
            return Err(TraceFileError::Shortened { found, written });
        }
        if !seal::is_torn_line(lines.line()) {
            return Err(TraceFileError::Tail { line: chain.lines() });
        }
        let end = LogEnd { chain, first, mark_at: begin.mark_at, bytes: end };
        Ok(Self { replayed: Some(replay.finish()), log: TraceLog::after(path, end, length) })
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

fn begin(line: &[u8], id: &RunId) -> Result<Begin, TraceLineError> {
    let header: Header<'_> = serde_json::from_slice(line)?;
    if header.endstop_trace != VERSION {
        return Err(TraceLineError::Version(header.endstop_trace));
    }
    if header.run != id.as_str() {
        return Err(TraceLineError::OtherRun);
    }
    let (sealed, mark) = seal::split_mark(line).ok_or(TraceLineError::NoMark)?;
    let mut chain = LineChain::default();
    chain.check(&sealed)?;
    let written = seal::marked_lines(mark, chain.sum()).ok_or(TraceLineError::NoMark)?;
    Ok(Begin { chain, written, mark_at: seal::mark_position(line.len()) })
}
