//! The trace file of a root run: read back when the run continues.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use endstop_core::Program;
use endstop_core::wire::v1::trace::{Header, VERSION};
use thiserror::Error;

use super::replay::{Replay, Replayed};
use crate::limits::{MAX_TRACE_LINE, TRACE_READ_BYTES};
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
/// # use endstop_core::{Event, EventKind, units::Millis};
/// use endstop_runtime::trace::{TraceBuffer, TraceFile};
///
/// # let path = std::env::temp_dir().join(format!("endstop-{}", RunId::new()));
/// # let file = std::fs::File::create(&path)?;
/// let buffer = TraceBuffer::new();
/// buffer.push_header(&info, None);
/// buffer.push(&Event::new(Millis(0), EventKind::StepBegin));
/// buffer.write_to(&file, 0)?;
///
/// let read = TraceFile::read(&path, &info.id, &program)?;
/// assert_eq!(read.replayed.map(|replayed| replayed.run().step_count()), Some(1));
/// assert_eq!(read.end, read.length, "the last line is whole");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TraceFile {
    /// The run so far, with nothing open. `None` if there is no file, or no whole line in it.
    pub replayed: Option<Replayed>,
    /// Where its last whole line ends, in bytes.
    pub end: u64,
    /// Its length in bytes.
    pub length: u64,
    path: PathBuf,
}

/// Why a trace file cannot be read back. Then the spend of its run is not known.
#[derive(Debug, Error)]
pub enum TraceFileError {
    /// The system does not let it be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a directory or a device.
    #[error("its place is taken by something that is no file")]
    NotAFile,
    /// A line is longer than what is ever written.
    #[error("a line has more than {} MiB", MAX_TRACE_LINE >> 20)]
    LongLine,
    /// A line is not what was written.
    #[error("line {line} of its file is damaged: {problem}")]
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
}

impl TraceFile {
    /// Reads the file of a root run, and replays it under `program`.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be read, or a whole line of it is not what a run writes.
    pub fn read(path: &Path, id: &RunId, program: &Arc<Program>) -> Result<Self, TraceFileError> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { replayed: None, end: 0, length: 0, path: path.to_owned() });
            }
            file => file?,
        };
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(TraceFileError::NotAFile);
        }
        let mut lines = WholeLines::new(BufReader::with_capacity(TRACE_READ_BYTES, file));
        let (mut end, mut number) = (0u64, 0u64);
        let mut replay: Option<Replay> = None;
        while lines.advance(MAX_TRACE_LINE)? {
            if lines.line().len() >= MAX_TRACE_LINE {
                return Err(TraceFileError::LongLine);
            }
            number = number.saturating_add(1);
            end = end.saturating_add(lines.length());
            let damaged = |problem| TraceFileError::Damaged { line: number, problem };
            match &mut replay {
                None => {
                    check_header(lines.line(), id).map_err(damaged)?;
                    replay = Some(Replay::new(Arc::clone(program)));
                }
                Some(replay) => replay.take_line(lines.line()).map_err(damaged)?,
            }
        }
        let (replayed, path) = (replay.map(Replay::finish), path.to_owned());
        Ok(Self { replayed, end, length: about.len(), path })
    }

    /// Cuts off what an interrupted write left after the last whole line.
    ///
    /// # Errors
    ///
    /// If the system does not let the file be shortened.
    pub fn cut_torn_tail(&self) -> io::Result<()> {
        if self.end == self.length {
            return Ok(());
        }
        File::options().write(true).open(&self.path)?.set_len(self.end)
    }

    /// Opens a file for writing at its end. Transcripts hold secrets: on Unix a new one has mode 0600.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or it is missing and `is_new` is false: one that vanished lacks its beginning.
    pub fn open_to_append(path: &Path, is_new: bool) -> io::Result<File> {
        disk::private_file().append(true).create(is_new).open(path)
    }
}

fn check_header(line: &[u8], id: &RunId) -> Result<(), TraceLineError> {
    let header: Header<'_> = serde_json::from_slice(line)?;
    if header.endstop_trace != VERSION {
        return Err(TraceLineError::Version(header.endstop_trace));
    }
    if header.run != id.as_str() {
        return Err(TraceLineError::OtherRun);
    }
    Ok(())
}
