//! Files, streams and variables that the command line names. Files and streams are read up to a limit.
//!
//! A separate file because every subcommand that is given a file reads it this way. A limit is checked while
//! reading, because `/dev/zero` and a pipe have no length to ask for before.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::CliError;
use crate::limits::{FILE_RECHECK, FRESH_FILE};

/// Reads an environment variable, without white space around it.
///
/// # Errors
/// Returns an error if it is empty or not set.
pub(crate) fn read_variable(name: &str) -> Result<String, CliError> {
    match std::env::var(name) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        _ => Err(CliError::new(format!("environment variable `{name}` is empty or not set"))),
    }
}

/// Reads a text file of at most `limit` bytes; `kind` is what it should be, such as `policy file`.
///
/// # Errors
/// Returns an error if it cannot be read, is no UTF-8, or is longer.
pub(crate) fn read_text(path: &Path, kind: &str, limit: usize) -> Result<String, CliError> {
    let shown = path.display();
    let text = File::open(path).and_then(|file| read_at_most(file, limit)).map_err(|error| {
        let failed = CliError::new(format!("cannot read the {kind} `{shown}`: {error}"));
        match error.kind() {
            io::ErrorKind::NotFound => failed.with_hint("check the path"),
            _ => failed,
        }
    })?;
    text.ok_or_else(|| {
        let most = size(limit);
        CliError::new(format!("`{shown}` is larger than {most}, the limit of the {kind}"))
            .with_hint(format!("check that `{shown}` is the {kind} you mean"))
    })
}

/// The state of a file; another one after it was replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: SystemTime,
    length: u64,
    inode: u64,
    /// When its contents or its rights changed last, in seconds and nanoseconds: a copy can keep the other time.
    changed: (i64, i64),
}

impl FileStamp {
    /// That of a file; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the system does not say.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let data = match std::fs::metadata(path) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        #[cfg(unix)]
        let (inode, changed) = {
            use std::os::unix::fs::MetadataExt as _;
            (data.ino(), (data.ctime(), data.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (inode, changed) = (0, (0, 0));
        Ok(Some(Self { modified: data.modified()?, length: data.len(), inode, changed }))
    }

    /// Whether the file was written just now: another write within the same tick of its clock can leave it the same state.
    fn is_fresh(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch = match (u64::try_from(seconds), u32::try_from(nanos)) {
            (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
            _ => Duration::ZERO,
        };
        let changed = SystemTime::UNIX_EPOCH.checked_add(since_epoch);
        let now = SystemTime::now();
        let is_fresh =
            |time: SystemTime| now.duration_since(time).is_ok_and(|age| age < FRESH_FILE);
        is_fresh(self.modified) || changed.is_some_and(is_fresh)
    }
}

/// The state of a file, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    There(FileStamp),
    Missing,
    /// The system does not say.
    Unknown,
}

/// A file that is read again whenever it has changed.
#[derive(Clone, Debug)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    seen: Option<FileState>,
    /// The next call counts it as changed.
    is_unsure: bool,
    /// When a reader asked for one more look, if that is not over.
    unread: Option<Instant>,
}

impl WatchedFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, seen: None, is_unsure: false, unread: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file may differ from how it was at the last call; at the first one it does. Called before the file is read, a
    /// change in between is seen the next time. One that was written just before a call counts as changed at the next one too.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = match FileStamp::of(&self.path) {
            Ok(Some(stamp)) => FileState::There(stamp),
            Ok(None) => FileState::Missing,
            Err(_) => FileState::Unknown,
        };
        let is_due = self.unread.is_some_and(|since| since.elapsed() >= FILE_RECHECK);
        let is_fresh = matches!(&now, FileState::There(stamp) if stamp.is_fresh());
        let was_unsure = std::mem::replace(&mut self.is_unsure, is_fresh);
        let has_changed = self.seen.replace(now) != Some(now) || was_unsure || is_due;
        if has_changed {
            self.unread = None;
        }
        has_changed
    }

    /// Whether the file is as it was at the last call of [`WatchedFile::has_changed`], and that is sure.
    pub(crate) fn is_same(&self) -> bool {
        let Ok(Some(now)) = FileStamp::of(&self.path) else { return false };
        let is_sure = !self.is_unsure && self.unread.is_none() && !now.is_fresh();
        is_sure && self.seen == Some(FileState::There(now))
    }

    /// Counts the file as changed after a while, whether it is or not: it could not be read, or not be relied on.
    pub(crate) fn read_again(&mut self) {
        self.unread = Some(Instant::now());
    }

    /// Lets the time of [`WatchedFile::read_again`] be over.
    #[cfg(test)]
    pub(crate) fn expire(&mut self) {
        self.unread = self.unread.and_then(|since| since.checked_sub(FILE_RECHECK));
    }

    /// Its state at the last call.
    pub(crate) const fn seen(&self) -> Option<FileState> {
        self.seen
    }

    /// Whether there was no file at the last call. One that the system does not show is not missing.
    pub(crate) const fn was_missing(&self) -> bool {
        matches!(self.seen, Some(FileState::Missing))
    }
}

/// The text of a stream; `None` if it has more than `limit` bytes, of which no more than one is read.
///
/// # Errors
/// Returns an error if it cannot be read or is no UTF-8.
pub(crate) fn read_at_most(stream: impl Read, limit: usize) -> io::Result<Option<String>> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    stream.take(most).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Ok(None);
    }
    // The same error as that of `read_to_string`.
    let text = io::read_to_string(bytes.as_slice())?;
    Ok(Some(text))
}

fn size(bytes: usize) -> String {
    match (bytes >> 20, bytes >> 10) {
        (0, 0) => format!("{bytes} bytes"),
        (0, kibibytes) => format!("{kibibytes} KiB"),
        (mebibytes, _) => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests;
