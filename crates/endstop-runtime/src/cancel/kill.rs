//! The kill switch: out of band, asked before every model and tool call and while waiting. While it is
//! on, nothing begins and calls in flight are aborted.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endstop_core::signal::{StopReason, StopSignal};

use super::{CancelToken, Urgency};
use crate::limits::{MAX_MESSAGE_BYTES, MIN_WATCH_INTERVAL};

/// Something outside the run that ends it.
///
/// ```
/// use endstop_runtime::cancel::KillSwitch;
///
/// /// On from a given hour of the day.
/// #[derive(Debug)]
/// struct ClosingTime(fn() -> u8);
///
/// impl KillSwitch for ClosingTime {
///     fn on(&self) -> Option<String> {
///         ((self.0)() >= 22).then(|| "closing time".to_owned())
///     }
/// }
///
/// assert_eq!(ClosingTime(|| 21).on(), None);
/// assert_eq!(ClosingTime(|| 22).on().as_deref(), Some("closing time"));
/// ```
pub trait KillSwitch: Send + Sync + Debug {
    /// The message, while the switch is on; it may be empty.
    ///
    /// It is checked before every model and tool call, so it has to be quick. A switch that cannot find out counts as
    /// on; the message reports it.
    fn on(&self) -> Option<String>;
}

/// Returns the signal of a kill switch that is on: reason `user_requested`, source `kill switch`.
#[must_use]
pub fn kill_signal(message: impl Into<String>) -> StopSignal {
    StopSignal::new(StopReason::UserRequested).with_message(message).with_source("kill switch")
}

/// Checks a switch once and returns its signal, if it is on.
pub(crate) fn look_at(switch: &dyn KillSwitch) -> Option<StopSignal> {
    switch.on().map(kill_signal)
}

/// A switch that is never on.
///
/// See the example of [`KillSwitch`] for one that can be on.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKillSwitch;

impl KillSwitch for NoKillSwitch {
    fn on(&self) -> Option<String> {
        None
    }
}

/// A switch within the process. Clones are the same switch.
///
/// ```
/// use endstop_runtime::cancel::{KillSwitch, MemoryKillSwitch};
///
/// let switch = MemoryKillSwitch::new();
/// let seen_by_runs = switch.clone();
/// switch.turn_on("maintenance");
/// assert_eq!(seen_by_runs.on().as_deref(), Some("maintenance"));
/// switch.reset();
/// assert_eq!(seen_by_runs.on(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryKillSwitch {
    // Not of the alias module: a model checker has nothing to find in a single lock.
    message: Arc<Mutex<Option<String>>>,
}

impl MemoryKillSwitch {
    /// Creates a switch that is not on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws it; the last message stands.
    pub fn turn_on(&self, message: impl Into<String>) {
        *self.message() = Some(message.into());
    }

    /// Makes it as if it had not been turned on. Runs that it ended stay ended.
    pub fn reset(&self) {
        *self.message() = None;
    }

    fn message(&self) -> MutexGuard<'_, Option<String>> {
        self.message.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KillSwitch for MemoryKillSwitch {
    fn on(&self) -> Option<String> {
        self.message().clone()
    }
}

/// A switch that is on while a file exists. Its first line is the message: at most 1 KiB of it, bytes
/// outside UTF-8 replaced, control characters left out.
///
/// Anything else in the place of the file counts as on too: a directory, a file that cannot be read, a broken link, a
/// parent directory that cannot be entered. The message then reports it.
///
/// ```
/// use endstop_runtime::cancel::{FileKillSwitch, KillSwitch};
///
/// # let path = std::env::temp_dir().join(format!("endstop-{}", endstop_runtime::store::RunId::new()));
/// let switch = FileKillSwitch::new(&path);
/// assert_eq!(switch.on(), None);
/// // `echo maintenance > path` does the same.
/// switch.turn_on("maintenance")?;
/// assert_eq!(switch.on().as_deref(), Some("maintenance"));
/// switch.reset()?;
/// assert_eq!(switch.on(), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKillSwitch {
    path: PathBuf,
}

impl FileKillSwitch {
    /// Creates a switch at `path`, and no file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path at which the file is looked for.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Throws it: writes the file, and directories on the way if they are missing. Line breaks of the
    /// message become blanks.
    ///
    /// The file is created before its text is written, so the switch is on even if the disk is full.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn turn_on(&self, message: &str) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(&self.path, message.replace(['\r', '\n'], " ") + "\n")
    }

    /// Removes the file; it may be missing. Runs that it ended stay ended.
    ///
    /// # Errors
    ///
    /// Returns an error if there is something that cannot be removed; the switch is then still on.
    pub fn reset(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        // Opening anything else could wait forever, as a pipe does.
        if !fs::metadata(&self.path)?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let mut bytes = Vec::new();
        File::open(&self.path)?.take(MAX_MESSAGE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl KillSwitch for FileKillSwitch {
    fn on(&self) -> Option<String> {
        let path = self.path.display();
        let found = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => Err(error),
            Ok(_) => self.read(),
        };
        Some(match found.as_deref().map(first_line) {
            Ok(line) if line.is_empty() => format!("the file `{path}` exists"),
            Ok(line) => line,
            Err(error) => {
                format!("the kill switch `{path}` cannot be read, so it counts as on: {error}")
            }
        })
    }
}

fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    // The bound may fall inside a character.
    let is_cut = u64::try_from(line.len()).is_ok_and(|length| length == MAX_MESSAGE_BYTES);
    let text = if is_cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &*text };
    let text: String = text.chars().filter(|c| !c.is_control() && *c != '\u{feff}').collect();
    text.trim().to_owned()
}

/// Checks `switch` immediately and then at every interval, and calls `while_on` with its signal at every check that
/// finds it on. Never returns. The shortest interval is [`MIN_WATCH_INTERVAL`].
///
/// To be run as a task next to all the runs that it watches; [`watch_kill_switch`] watches a single one.
///
/// # Panics
///
/// Outside a tokio runtime with time.
///
/// # Cancel safety
///
/// It may be dropped at any time; the switch is then no longer checked.
pub async fn poll_kill_switch(
    switch: Arc<dyn KillSwitch>,
    every: Duration,
    mut while_on: impl FnMut(StopSignal),
) {
    let every = every.max(MIN_WATCH_INTERVAL);
    loop {
        if let Some(signal) = look_at(&*switch) {
            while_on(signal);
        }
        tokio::time::sleep(every).await;
    }
}

/// Like [`poll_kill_switch`], for one run: when the switch is on, cancels `token` with [`Urgency::Now`] and returns.
/// It also returns when another caller aborts the token.
///
/// To be run as a task next to the run that it watches.
///
/// # Panics
///
/// Outside a tokio runtime with time.
///
/// # Cancel safety
///
/// It may be dropped at any time; the switch is then no longer checked.
pub async fn watch_kill_switch(switch: Arc<dyn KillSwitch>, token: CancelToken, every: Duration) {
    let polling = poll_kill_switch(switch, every, |signal| {
        token.cancel(signal, Urgency::Now);
    });
    // Only an abort ends it.
    let _ = token.run_until_aborted(polling).await;
}
