//! Files and streams that the command line names, read up to a limit.
//!
//! A separate file because every subcommand that is given a file reads it this way. A limit is checked while
//! reading, because `/dev/zero` and a pipe have no length to ask for before.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::CliError;

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
}

/// The state of a file, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
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
}

impl WatchedFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file differs from how it was at the last call; at the first one it does. Called before the file is read, a
    /// change in between is seen the next time.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = match FileStamp::of(&self.path) {
            Ok(Some(stamp)) => FileState::There(stamp),
            Ok(None) => FileState::Missing,
            Err(_) => FileState::Unknown,
        };
        self.seen.replace(now) != Some(now)
    }

    /// Whether there was a file at the last call.
    pub(crate) const fn was_there(&self) -> bool {
        matches!(self.seen, Some(FileState::There(_)))
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
