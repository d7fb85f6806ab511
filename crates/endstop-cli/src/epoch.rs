//! The kill epoch: `endstop kill --all` counts it up in the state directory, and every process that admits calls checks it.
//!
//! A process checks it when it starts and before each call; a check holds for a millisecond. So `kill --all` reaches processes
//! that have no entry in the registry, or enter it after the command has looked. While the command works it holds a lock, and
//! nothing starts.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use endstop::cancel::{FileKillSwitch, KillSwitch, MemoryKillSwitch};
use endstop::store::{create_private_directory, private_file, replace_file};
use serde_json::{Value, json};

use crate::budgets::state_directory;
use crate::error::{CliError, ExitMeaning};
use crate::input::{FileStamp, read_text};
use crate::limits::{EPOCH_LOOK, EPOCH_WAIT, MAX_EPOCH_BYTES};

/// The version of the file.
const VERSION: u64 = 1;
const NAME: &str = "kill-epoch.json";
/// Locked by `kill --all` while it works.
const LOCK: &str = "kill-epoch.lock";

/// The kill epoch as it was when this process started: a switch that is on once the epoch is another one.
#[derive(Debug)]
pub(crate) struct KillEpoch {
    file: PathBuf,
    epoch: u64,
    stamp: Option<FileStamp>,
    /// The start, from which times are counted.
    since: Instant,
    /// The last look found it off, and serves until then: in microseconds.
    off_until: AtomicU64,
}

/// The kill epoch, the file of `--kill-file`, and the kills of a store that other machines share.
#[derive(Debug)]
pub(crate) struct ProcessSwitch {
    epoch: Option<Arc<KillEpoch>>,
    file: Option<FileKillSwitch>,
    shared: Option<MemoryKillSwitch>,
}

/// The kill switch of a process. `None` if nothing can turn it on.
pub(crate) fn switch(
    epoch: Option<&Arc<KillEpoch>>,
    file: Option<&Path>,
    shared: Option<MemoryKillSwitch>,
) -> Option<ProcessSwitch> {
    let has_any = epoch.is_some() || file.is_some() || shared.is_some();
    let (epoch, file) = (epoch.cloned(), file.map(FileKillSwitch::new));
    has_any.then_some(ProcessSwitch { epoch, file, shared })
}

impl KillSwitch for ProcessSwitch {
    fn on(&self) -> Option<String> {
        let of_file = self.file.as_ref().and_then(KillSwitch::on);
        let of_store = || self.shared.as_ref().and_then(KillSwitch::on);
        of_file.or_else(of_store).or_else(|| self.epoch.as_ref()?.on())
    }
}

/// Held by `kill --all`: until this is dropped no process starts.
#[derive(Debug)]
pub(crate) struct EpochLock {
    directory: PathBuf,
    _lock: File,
}

impl KillEpoch {
    /// The epoch now. `None` without a state directory: then `kill --all` reaches this process by its socket alone.
    ///
    /// # Errors
    /// Returns an error if `kill --all` works just now.
    pub(crate) fn at_start() -> Result<Option<Arc<Self>>, CliError> {
        let Some(directory) = state_directory() else { return Ok(None) };
        if is_locked(&directory.join(LOCK)) {
            return Err(CliError::new("`endstop kill --all` is at work, so nothing starts")
                .with_hint("start it again once the command has ended"));
        }
        let file = directory.join(NAME);
        let stamp = FileStamp::of(&file).ok().flatten();
        let epoch = read(&file).map_or(0, |(epoch, _)| epoch);
        Ok(Some(Arc::new(Self::new(file, epoch, stamp))))
    }

    fn new(file: PathBuf, epoch: u64, stamp: Option<FileStamp>) -> Self {
        Self { file, epoch, stamp, since: Instant::now(), off_until: AtomicU64::new(0) }
    }

    /// Refuses to continue if everything was killed since the start.
    ///
    /// # Errors
    /// Why.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        match self.look() {
            None => Ok(()),
            Some(why) => Err(CliError::new(format!("killed while it started: {why}"))
                .with_exit(ExitMeaning::Stopped)),
        }
    }
}

impl KillSwitch for KillEpoch {
    fn on(&self) -> Option<String> {
        self.on_at(whole_micros(self.since.elapsed()))
    }
}

impl KillEpoch {
    /// Why it is on at a time in microseconds since the start. A call asks several times, so a look that found it off serves
    /// for a while. That is counted from before the look, so `kill --all` knows how long to wait.
    fn on_at(&self, now: u64) -> Option<String> {
        if now < self.off_until.load(Ordering::Relaxed) {
            return None;
        }
        let why = self.look();
        if why.is_none() {
            let until = now.saturating_add(whole_micros(EPOCH_LOOK));
            self.off_until.store(until, Ordering::Relaxed);
        }
        why
    }

    /// Reads the state of the file, and the file if it is another one.
    fn look(&self) -> Option<String> {
        match FileStamp::of(&self.file) {
            Ok(stamp) if stamp == self.stamp => return None,
            // Removing the file kills nothing.
            Ok(None) => return None,
            Ok(Some(_)) => {}
            Err(error) => {
                let file = self.file.display();
                return Some(format!("`{file}` cannot be read, so it counts as on: {error}"));
            }
        }
        match read(&self.file) {
            Ok((epoch, _)) if epoch == self.epoch => None,
            Ok((_, why)) => Some(why),
            Err(error) => Some(error.message),
        }
    }
}

/// The last `kill --all` of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastKill {
    /// When, in milliseconds since 1970. Later than that by the clock only if the clock was set back since the one before.
    pub(crate) at: u64,
    /// The reason, with who killed.
    pub(crate) why: String,
}

/// The last kill of everything. `None` if there was none, or the file of it was removed.
///
/// # Errors
/// Returns an error if it cannot be read.
pub(crate) fn last_kill() -> Result<Option<LastKill>, CliError> {
    let Some(directory) = state_directory() else { return Ok(None) };
    let file = directory.join(NAME);
    if matches!(FileStamp::of(&file), Ok(None)) {
        return Ok(None);
    }
    let (epoch, why) = read(&file)?;
    // An epoch is a number of microseconds.
    Ok(Some(LastKill { at: epoch / 1_000, why }))
}

/// Lets no process start. `None` without a state directory.
///
/// # Errors
/// Returns an error if the state directory cannot be written.
pub(crate) fn lock() -> Result<Option<EpochLock>, CliError> {
    let Some(directory) = state_directory() else { return Ok(None) };
    let failed = |error: io::Error| not_written(&directory, &error);
    create_private_directory(&directory).map_err(failed)?;
    let file = private_file().create(true).append(true).open(directory.join(LOCK));
    let held = file.map_err(failed)?;
    held.lock().map_err(failed)?;
    Ok(Some(EpochLock { directory, _lock: held }))
}

fn not_written(directory: &Path, error: &io::Error) -> CliError {
    CliError::new(format!("cannot write the kill epoch in `{}`: {error}", directory.display()))
}

impl EpochLock {
    /// Begins the next epoch: once this returns, processes that started before it admit no further call. It waits until no
    /// earlier look serves.
    ///
    /// # Errors
    /// Returns an error if the state directory cannot be written.
    pub(crate) fn begin_next(&self, why: &str) -> Result<(), CliError> {
        let file = self.directory.join(NAME);
        // One that was removed or cannot be read is replaced by an epoch that no process has seen.
        let after = read(&file).map_or(0, |(epoch, _)| epoch.saturating_add(1));
        let epoch = after.max(micros());
        let text = json!({ "version": VERSION, "epoch": epoch, "why": why }).to_string();
        let draft = self.directory.join(format!("{NAME}.draft"));
        replace_file(&file, &draft, text.as_bytes())
            .map_err(|error| not_written(&self.directory, &error))?;
        thread::sleep(EPOCH_WAIT);
        Ok(())
    }
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map(whole_micros).unwrap_or_default()
}

fn whole_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whether a `kill --all` holds the lock.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The epoch of a file, and the reason for it.
fn read(path: &Path) -> Result<(u64, String), CliError> {
    let text = read_text(path, "kill epoch", MAX_EPOCH_BYTES)?;
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let epoch = value.get("epoch").and_then(Value::as_u64);
    let why = value.get("why").and_then(Value::as_str).unwrap_or_default();
    match epoch {
        Some(epoch) => Ok((epoch, why.to_owned())),
        None => Err(CliError::new(format!("`{}` is no kill epoch", path.display()))),
    }
}

#[cfg(test)]
mod tests;
