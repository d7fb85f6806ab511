//! Writing entries into the tables: at once, or through a journal.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use endstop_core::units::WallTime;
use rusqlite::Connection;

use super::entry::{HistoryEntry, ProcessFacts};
use super::journal::{self, OwnJournal};
use super::{HistoryError, HistoryOrigin, rows};
use crate::clock::millis;
use crate::limits::{
    HISTORY_BUSY, HISTORY_OPENING, JOURNAL_BATCH, JOURNAL_PAUSE, JOURNAL_RETRY, LONG_JOURNAL,
    MAX_WAITING_ENTRIES, TIDY_EVERY,
};
use crate::store::{RunId, disk};

/// Takes the first error.
pub(super) type OnFailure = Box<dyn Fn(&HistoryError) + Send + Sync>;

/// The writer of the entries of one process. The thread of its journal has it too.
pub(super) struct HistoryWriter {
    pub(super) path: PathBuf,
    process: ProcessFacts,
    pub(super) on_failure: Option<OnFailure>,
    /// Older entries are removed.
    pub(super) keep_for: Option<Duration>,
    pub(super) has_journal: bool,
    has_entries: AtomicBool,
    /// Locked before the queue, never after it.
    tables: Mutex<Writing>,
    queue: Mutex<JournalQueue>,
    /// The queue has entries, or is closed.
    woken: Condvar,
}

/// The entries that are in the journal and not yet in the tables. Calls wait for its lock, so it is not held while tables are
/// written.
#[derive(Default)]
struct JournalQueue {
    journal: Option<OwnJournal>,
    waiting: Vec<HistoryEntry>,
    thread: Option<JoinHandle<()>>,
    /// Entries are only in the journal, and another process takes it over.
    is_left: bool,
    /// Entries no longer go through the journal.
    is_closed: bool,
}

/// The file, and the entries that wait for it.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) connection: Option<Connection>,
    pub(super) waiting: Vec<HistoryEntry>,
    /// How many of them, the first ones, are in the journal too.
    journaled: usize,
    /// The name of the journal, and the number of the last line of which the entry waits.
    mark: Option<(String, u64)>,
    /// The journal is left to another process.
    has_left_journal: bool,
    has_taken_over: bool,
    /// A problem with the journal of another process.
    problem: Option<HistoryError>,
    /// Entries that never will be in the file.
    missing: u64,
    has_failed: bool,
    is_failing: bool,
    /// The file cannot become usable while this process lives.
    is_given_up: bool,
    /// When old entries were last removed, in milliseconds.
    tidied: Option<u64>,
}

impl HistoryWriter {
    pub(super) fn new(path: PathBuf, origin: HistoryOrigin) -> Self {
        Self {
            path,
            process: ProcessFacts { id: RunId::new().to_string(), origin },
            on_failure: None,
            keep_for: None,
            has_journal: false,
            has_entries: AtomicBool::new(false),
            tables: Mutex::default(),
            queue: Mutex::default(),
            woken: Condvar::new(),
        }
    }

    /// Whether there ever was something to write.
    pub(super) fn has_entries(&self) -> bool {
        self.has_entries.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn tables(&self) -> MutexGuard<'_, Writing> {
        held(&self.tables)
    }

    /// Writes an entry, and all that wait before it.
    pub(super) fn put(self: &Arc<Self>, entry: HistoryEntry) {
        self.has_entries.store(true, Ordering::Relaxed);
        let entry = match self.has_journal {
            true => self.append(entry),
            false => Some(entry),
        };
        let Some(entry) = entry else { return };
        let mut tables = held(&self.tables);
        // In the tables it would come before the entries of the journal, which another process writes.
        if tables.is_given_up || held(&self.queue).is_left {
            tables.lose(&entry);
            return;
        }
        let at = entry.at();
        // Those in the journal are older.
        tables.take_in(&mut held(&self.queue));
        tables.waiting.push(entry);
        let written = self.write_waiting(&mut tables);
        self.tell(tables, written, at);
    }

    /// Appends an entry to the journal. Returns it if that is impossible.
    fn append(self: &Arc<Self>, entry: HistoryEntry) -> Option<HistoryEntry> {
        let mut queue = held(&self.queue);
        if queue.is_closed {
            return Some(entry);
        }
        if queue.thread.is_none() {
            let writer = Arc::clone(self);
            let name = "endstop-history".to_owned();
            let begun = thread::Builder::new().name(name).spawn(move || writer.write_on());
            queue.thread = begun.ok();
        }
        if queue.journal.is_none() && queue.thread.is_some() {
            queue.journal = OwnJournal::create(&self.path, &self.process).ok();
        }
        let appended = queue.journal.as_mut().map(|it| it.append(&entry));
        if !matches!(appended, Some(Ok(()))) {
            // Permanently: entries in the journal are all older than those that are not.
            queue.is_closed = true;
            self.woken.notify_all();
            return Some(entry);
        }
        if queue.is_left {
            return None;
        }
        queue.waiting.push(entry);
        if matches!(queue.waiting.len(), 1 | JOURNAL_BATCH) {
            self.woken.notify_all();
        }
        None
    }

    /// Writes what is in the journal into the tables, until it is closed.
    fn write_on(&self) {
        loop {
            let mut queue = held(&self.queue);
            while queue.waiting.is_empty() && !queue.is_closed {
                queue = self.woken.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let is_early =
                |it: &mut JournalQueue| it.waiting.len() < JOURNAL_BATCH && !it.is_closed;
            let waited = self.woken.wait_timeout_while(queue, JOURNAL_PAUSE, is_early);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_closed {
                return;
            }
            while !self.flush() {
                // The journal has what waits, so nothing is gained by trying for each entry.
                let is_open = |it: &mut JournalQueue| !it.is_closed;
                let queue = held(&self.queue);
                let waited = self.woken.wait_timeout_while(queue, JOURNAL_RETRY, is_open);
                if waited.unwrap_or_else(PoisonError::into_inner).0.is_closed {
                    return;
                }
            }
        }
    }

    /// Writes all that waits, and returns how many calls and acts are missing.
    pub(super) fn finish(&self) -> u64 {
        self.flush();
        let mut tables = held(&self.tables);
        tables.give_up_waiting();
        let journal = {
            let mut queue = held(&self.queue);
            queue.is_closed = true;
            // Another process takes one over that is not empty.
            queue.journal.take_if(|it| it.is_empty())
        };
        self.woken.notify_all();
        if let Some(journal) = journal {
            let name = journal.name.clone();
            if journal.remove().is_ok() {
                tables.forget_journal(&name);
            }
        }
        tables.missing
    }

    /// Ends the thread, and the lock of the journal.
    pub(super) fn end(&self) {
        self.finish();
        let (thread, journal) = {
            let mut queue = held(&self.queue);
            (queue.thread.take(), queue.journal.take())
        };
        drop(journal);
        // A receiver of errors may drop the recorder on that thread.
        let thread = thread.filter(|it| it.thread().id() != thread::current().id());
        // It has ended by a panic, or ends now.
        let _ = thread.map(JoinHandle::join);
    }

    /// Writes all that waits. Returns whether that succeeded.
    fn flush(&self) -> bool {
        let mut tables = held(&self.tables);
        tables.take_in(&mut held(&self.queue));
        let at = tables.waiting.iter().rev().find_map(HistoryEntry::at);
        let written = self.write_waiting(&mut tables);
        let is_written = written.is_ok();
        self.tell(tables, written, at);
        is_written
    }

    /// Writes all that waits, and clears the journal.
    fn write_waiting(&self, tables: &mut Writing) -> Result<(), HistoryError> {
        let queue = {
            let mut queue = held(&self.queue);
            // Calls wait for a long journal: otherwise it may never be found without new lines.
            let is_long = queue.journal.as_ref().is_some_and(|it| it.bytes() > LONG_JOURNAL);
            is_long.then(|| tables.take_in(&mut queue)).map(|()| queue)
        };
        if tables.waiting.is_empty() {
            return Ok(());
        }
        let last = tables.mark.as_ref().map(|(_, number)| *number);
        let written = tables.write(&self.path, &self.process);
        let mut queue = queue.unwrap_or_else(|| held(&self.queue));
        queue.is_left |= tables.has_left_journal && !queue.is_closed;
        queue.is_closed |= tables.is_given_up;
        if written.is_ok()
            && let Some(journal) = queue.journal.as_mut().filter(|it| Some(it.number) == last)
        {
            // Lines that stay are known by their numbers.
            let _ = journal.clear();
        }
        written
    }

    /// Removes old entries after a write, and tells the first error.
    fn tell(
        &self,
        mut tables: MutexGuard<'_, Writing>,
        written: Result<(), HistoryError>,
        at: Option<u64>,
    ) {
        if let (Ok(()), Some(length), Some(at)) = (&written, self.keep_for, at) {
            tables.tidy(length, at);
        }
        let error = written.err().or_else(|| tables.problem.take());
        let first = error.filter(|_| !std::mem::replace(&mut tables.has_failed, true));
        drop(tables);
        if let (Some(error), Some(told)) = (first, &self.on_failure) {
            told(&error);
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writing {
    /// Takes the entries of the journal. None waits that is not in it, unless it is closed.
    fn take_in(&mut self, queue: &mut JournalQueue) {
        if self.has_left_journal {
            // A mark with their numbers would stand for the lines before them too, and those are not in the tables.
            queue.waiting.clear();
        }
        if queue.waiting.is_empty() {
            return;
        }
        self.mark = queue.journal.as_ref().map(|it| (it.name.clone(), it.number));
        self.waiting.append(&mut queue.waiting);
        self.journaled = self.waiting.len();
    }

    /// Writes all that waits in one transaction. If that fails, it stays, up to a number of entries.
    fn write(&mut self, path: &Path, process: &ProcessFacts) -> Result<(), HistoryError> {
        let written = self.try_write(path, process);
        match &written {
            Ok(()) => {
                self.waiting.clear();
                (self.journaled, self.mark) = (0, None);
            }
            Err(error) if error.can_end() => {
                if self.journaled > MAX_WAITING_ENTRIES {
                    self.waiting.drain(..self.journaled);
                    (self.journaled, self.mark, self.has_left_journal) = (0, None, true);
                }
                while self.waiting.len() > MAX_WAITING_ENTRIES {
                    let last = self.waiting.pop();
                    last.iter().for_each(|entry| self.lose(entry));
                }
            }
            Err(_) => {
                self.is_given_up = true;
                self.give_up_waiting();
            }
        }
        self.is_failing = written.is_err();
        written
    }

    fn try_write(&mut self, path: &Path, process: &ProcessFacts) -> Result<(), HistoryError> {
        let failed = |error: &rusqlite::Error| HistoryError::of("write the history", path, error);
        // Calls do not wait again and again for a file that stays busy.
        let (opening, patience) = match self.is_failing {
            true => (Duration::ZERO, Duration::ZERO),
            false => (HISTORY_OPENING, HISTORY_BUSY),
        };
        if self.connection.is_none() {
            self.connection = Some(create(path, opening)?);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.busy_timeout(patience).map_err(|error| failed(&error))?;
        // A run that continues has the row of its earlier process, and replaces calls of it: both can be in that one's journal.
        let has_log = self.waiting.iter().any(HistoryEntry::has_log);
        let continues = has_log || self.waiting.iter().any(HistoryEntry::is_of_resumed);
        if !std::mem::replace(&mut self.has_taken_over, true) || continues {
            let problem = match journal::take_over(connection, path) {
                Ok(damaged) => damaged.into_iter().next(),
                Err(error) if has_log => return Err(error),
                // Another process tries it again.
                Err(error) => Some(error),
            };
            self.problem = self.problem.take().or(problem);
        }
        let mark = self.mark.as_ref().map(|(name, number)| (&**name, *number));
        rows::write(connection, process, &self.waiting, mark).map_err(|error| failed(&error))
    }

    /// Removes what is older than a length of time, at most once a day.
    fn tidy(&mut self, length: Duration, now: u64) {
        let Some(connection) = &mut self.connection else { return };
        if self.tidied.is_some_and(|last| now.abs_diff(last) < millis(TIDY_EVERY)) {
            return;
        }
        self.tidied = Some(now);
        let before = WallTime(now.saturating_sub(millis(length)));
        // Nothing is lost if this fails: it is done on another day.
        let _ = rows::prune(connection, before, false);
    }

    /// Forgets the journal of this process, whose file is gone.
    fn forget_journal(&self, name: &str) {
        if let Some(connection) = &self.connection {
            // A name that stays counts nothing: no other journal has it.
            let _ = rows::forget_journal(connection, name);
        }
    }

    /// Those that are in the journal are not lost: the next process takes it over.
    fn give_up_waiting(&mut self) {
        self.has_left_journal |= self.journaled > 0;
        for entry in std::mem::take(&mut self.waiting).into_iter().skip(self.journaled) {
            self.lose(&entry);
        }
        (self.journaled, self.mark) = (0, None);
    }

    /// The end of a run is not counted: its calls are in the file.
    fn lose(&mut self, entry: &HistoryEntry) {
        let is_counted = !matches!(entry, HistoryEntry::End(_));
        self.missing = self.missing.saturating_add(u64::from(is_counted));
    }
}

/// Opens the file, which only the user may read, and its directory.
pub(super) fn create(path: &Path, patience: Duration) -> Result<Connection, HistoryError> {
    let failed = |error: std::io::Error| HistoryError::Failed {
        doing: "create the history",
        path: path.to_owned(),
        why: error.to_string(),
    };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        disk::create_directory(directory).map_err(failed)?;
    }
    // SQLite gives the files that it creates next to this one the same permissions.
    disk::create_file(path).map_err(failed)?;
    rows::open(path, patience)
}

#[cfg(test)]
mod tests;
