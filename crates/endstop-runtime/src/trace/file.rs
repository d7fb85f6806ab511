//! The trace file of a root run: read back when the run continues.

use std::path::Path;
use std::sync::Arc;

use endstop_core::Program;

use super::log::TraceLog;
use super::replay::{Replay, Replayed};
use crate::store::RunId;
use crate::store::sealed_file::{SealedLines, TraceFileError};

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

/// How the lines of events begin.
const EVENT: &[u8] = b"{\"at\":";

impl TraceFile {
    /// Reads the file of a root run, and replays it under `program`. The file is not changed.
    ///
    /// A process that was killed can leave half a line at the end: it was never acknowledged, and does not count.
    ///
    /// # Errors
    ///
    /// Returns an error if it is there and cannot be read, or is not what a run wrote, from the first line to the last.
    pub fn read(path: &Path, id: &RunId, program: &Arc<Program>) -> Result<Self, TraceFileError> {
        let Some(mut lines) = SealedLines::open(path, id, EVENT)? else {
            return Ok(Self { replayed: None, log: TraceLog::new(path) });
        };
        let mut replay = Replay::new(Arc::clone(program));
        while let Some(line) = lines.advance()? {
            replay.take_line(line).map_err(|problem| lines.unread(problem))?;
        }
        let log = TraceLog::after(path, lines.end(), lines.length());
        Ok(Self { replayed: Some(replay.finish()), log })
    }
}
