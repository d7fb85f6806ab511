//! Runs that are stored in a directory: their spend survives the end of the process, `kill -9` included.
//!
//! ```text
//! kept/
//!   nightly-17.jsonl    the events of a root run, as an Endstop trace
//!   ~locks/             one process per directory
//! ```
//!
//! The gateway logs each call before sending it, and logs its cost before the client can send another; each is one
//! `write` to the end of the file. The system has it then, but the disk may not: a loss of power may take the last
//! events. A run that is named and not in memory goes on from its file ([`Replay`]). Files are only ever appended to.
//! A run whose file was removed begins anew, with a full budget.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use endstop_core::Program;
use endstop_core::wire::v1::trace::{Header, Line, VERSION};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::observe::{Observation, Observer, RunInfo};
use endstop_runtime::store::{FileStore, RunId, RunLock, Store as _, StoreError};
use endstop_runtime::trace::{Replay, Replayed};
use endstop_runtime::trace::{push_seen, push_trace_line, trace_header};

use crate::limits::{MAX_LOG_LINE, MAX_OPEN_LOGS, MAX_UNWRITTEN};

/// The ending of a run's file.
const SUFFIX: &str = ".jsonl";
/// The directory's lock has a name among the locks of runs.
const LOCK: &str = "gateway";

/// The directory of stored runs. It is locked as long as one of its runs is in memory.
#[derive(Debug)]
pub(super) struct RunLogDir {
    folder: PathBuf,
    /// The version of the price table, for the headers.
    prices: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    _lock: RunLock,
    open: AtomicUsize,
}

/// The content of a file.
struct Found {
    /// `None` if it has no whole line.
    replayed: Option<Replayed>,
    /// Where its last whole line ends.
    end: u64,
    length: u64,
}

impl RunLogDir {
    /// Locks the directory. Creates it if it is missing.
    pub(super) async fn open(folder: &Path, prices: &str) -> Result<Self, String> {
        let locked = match FileStore::open(folder) {
            Err(error) => return Err(said(&error)),
            Ok(store) => store.lock(&RunId::parse(LOCK).unwrap_or_default()).await,
        };
        let lock = locked.map_err(|error| match error {
            StoreError::Locked { pid: Some(pid), .. } => {
                format!("process {pid} keeps its runs there")
            }
            StoreError::Locked { .. } => "another process keeps its runs there".to_owned(),
            error => said(&error),
        })?;
        let shared = Shared { _lock: lock, open: AtomicUsize::new(0) };
        let (folder, prices) = (folder.to_owned(), prices.to_owned());
        Ok(Self { folder, prices, shared: Arc::new(shared) })
    }

    fn path(&self, id: &RunId) -> PathBuf {
        self.folder.join(format!("{id}{SUFFIX}"))
    }

    /// Whether there is a file of the run.
    pub(super) fn has(&self, id: &RunId) -> bool {
        fs::symlink_metadata(self.path(id)).is_ok()
    }

    /// Returns the file that a run is written to from here on, and what it says so far. Nothing is written yet.
    pub(super) fn file(
        &self,
        info: &RunInfo,
        program: &Arc<Program>,
    ) -> Result<(RunLogFile, Option<Replayed>), String> {
        let path = self.path(&info.id);
        let read = read(&path, &info.id, program)?;
        if read.end < read.length {
            let cut = OpenOptions::new().write(true).open(&path);
            cut.and_then(|file| file.set_len(read.end)).map_err(|error| error.to_string())?;
        }
        let mut state = State { is_made: read.replayed.is_some(), ..State::default() };
        match &read.replayed {
            None => {
                let header = trace_header(info, Some(&self.prices));
                state.lines.extend_from_slice(header.as_bytes());
            }
            Some(replayed) => {
                replayed.added().iter().for_each(|event| push_trace_line(&mut state.lines, event));
            }
        }
        let log = RunLogFile { path, shared: Arc::clone(&self.shared), state: Mutex::new(state) };
        Ok((log, read.replayed))
    }

    /// The stored runs by their files, in no order.
    pub(super) fn ids(&self) -> Result<impl Iterator<Item = Result<RunId, String>>, String> {
        let entries = fs::read_dir(&self.folder).map_err(|error| error.to_string())?;
        Ok(entries.filter_map(|entry| match entry {
            Err(error) => Some(Err(error.to_string())),
            Ok(entry) => {
                let name = entry.file_name();
                let stem = name.to_str()?.strip_suffix(SUFFIX)?;
                RunId::parse(stem).ok().map(Ok)
            }
        }))
    }

    /// Returns the spend of all stored runs, as the ledger counts it.
    pub(super) fn spent(&self, program: &Arc<Program>) -> Result<Amounts, String> {
        let mut sum = Amounts::ZERO;
        for id in self.ids()? {
            let id = id?;
            let read = read(&self.path(&id), &id, program);
            let read = read.map_err(|error| format!("run `{id}`: {error}"))?;
            let spent = read.replayed.map_or(Amounts::ZERO, |replayed| replayed.spent());
            sum = sum.checked_add(&spent).ok_or("what was spent is too much to count")?;
        }
        Ok(sum)
    }
}

/// An error and its causes.
fn said(error: &StoreError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn read(path: &Path, id: &RunId, program: &Arc<Program>) -> Result<Found, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Found { replayed: None, end: 0, length: 0 });
        }
        file => file.map_err(|error| error.to_string())?,
    };
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("its place is taken by something that is no file".to_owned());
    }
    let mut lines = Lines { reader: BufReader::with_capacity(64 << 10, file), line: Vec::new() };
    let (mut end, mut number) = (0u64, 0u64);
    let mut replay: Option<Replay> = None;
    while lines.advance().map_err(|error| error.to_string())? {
        number = number.saturating_add(1);
        end = end.saturating_add(u64::try_from(lines.line.len()).unwrap_or(u64::MAX));
        let wrong = |why: String| format!("line {number} of its file is damaged: {why}");
        match &mut replay {
            None => {
                check_header(&lines.line, id).map_err(wrong)?;
                replay = Some(Replay::new(Arc::clone(program)));
            }
            Some(replay) => {
                let line: Line<'_> = serde_json::from_slice(&lines.line)
                    .map_err(|error| wrong(error.to_string()))?;
                replay.take(&line);
            }
        }
    }
    Ok(Found { replayed: replay.map(Replay::finish), end, length: about.len() })
}

fn check_header(line: &[u8], id: &RunId) -> Result<(), String> {
    let header: Header<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if header.endstop_trace != VERSION {
        return Err(format!("a trace of version {}; known is {VERSION}", header.endstop_trace));
    }
    if header.run != id.as_str() {
        return Err("it is the file of another run".to_owned());
    }
    Ok(())
}

/// Whole lines, each with its line feed.
struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// Returns `false` at the end. Half a line before it does not count.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read = self.reader.by_ref().take(MAX_LOG_LINE).read_until(b'\n', &mut self.line)?;
        if self.line.ends_with(b"\n") {
            return Ok(true);
        }
        if u64::try_from(read).is_ok_and(|read| read >= MAX_LOG_LINE) {
            return Err(io::Error::other(format!(
                "a line has more than {} MiB",
                MAX_LOG_LINE >> 20
            )));
        }
        Ok(false)
    }
}

/// Writes the events of one root run.
#[derive(Debug)]
pub(super) struct RunLogFile {
    path: PathBuf,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Events that are not written yet.
    lines: Vec<u8>,
    file: Option<File>,
    /// Whether the file is there. One that vanishes is not made again: it would lack its beginning.
    is_made: bool,
    /// Why nothing is written any more: after a hole, the file would replay as something else.
    problem: Option<String>,
}

impl RunLogFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the waiting events. Returns why they cannot be written, now or earlier.
    pub(super) fn flush(&self) -> Result<(), String> {
        let mut state = self.state();
        self.write(&mut state);
        state.problem.clone().map_or(Ok(()), Err)
    }

    /// Returns why the run can no longer be stored.
    pub(super) fn problem(&self) -> Option<String> {
        self.state().problem.clone()
    }

    /// Nothing more is written: the run is forgotten, and may go on from its file.
    pub(super) fn close(&self) {
        let mut state = self.state();
        self.write(&mut state);
        state.problem.get_or_insert_with(|| "it was forgotten".to_owned());
        self.shut(&mut state);
    }

    fn write(&self, state: &mut State) {
        if state.lines.is_empty() || state.problem.is_some() {
            return;
        }
        if let Err(error) = self.write_all(state) {
            state.problem = Some(error.to_string());
            self.shut(state);
        }
        state.lines.clear();
        state.lines.shrink_to(MAX_UNWRITTEN);
    }

    fn write_all(&self, state: &mut State) -> io::Result<()> {
        if let Some(file) = &mut state.file {
            return file.write_all(&state.lines);
        }
        let mut file = private().append(true).create(!state.is_made).open(&self.path)?;
        state.is_made = true;
        file.write_all(&state.lines)?;
        if self.shared.open.fetch_add(1, Ordering::Relaxed) < MAX_OPEN_LOGS {
            state.file = Some(file);
        } else {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn shut(&self, state: &mut State) {
        if state.file.take().is_some() {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Transcripts hold secrets.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Observer for RunLogFile {
    fn observe(&self, seen: &Observation<'_>) {
        // The root also observes the events of its descendants.
        if seen.info.parent.is_some() {
            return;
        }
        let mut state = self.state();
        if state.problem.is_none() {
            push_seen(&mut state.lines, seen);
            if state.lines.len() > MAX_UNWRITTEN {
                self.write(&mut state);
            }
        }
    }
}

impl Drop for RunLogFile {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state());
        self.shut(&mut state);
    }
}
