//! Where keys are: in a file of this machine, or in a store that gateways on many machines share.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use endstop::account::{BudgetStoreError, RedisBudgetStore, StoreKeyChange};
use endstop::core::units::WallTime;
use endstop::store::{create_private_directory, private_file, replace_file};
use endstop_gateway::control_source::{SourceError, SourceErrorKind};
use jiff::Timestamp;

use super::size::{self, TooLarge};
use super::{KeyAct, KeyFile, default_path};
use crate::error::CliError;
use crate::limits::{KEY_LOCK_RECHECK, MAX_KEY_LOCK_TIME, MAX_KEY_TRIES, MAX_STORE_KEYS};

/// Where keys are.
#[derive(Clone, Debug)]
pub(crate) enum KeyPlace {
    /// A file; it need not exist.
    File(PathBuf),
    /// A store.
    Store(RedisBudgetStore),
}

impl KeyPlace {
    /// The file that is named, the store if there is one, or the default file.
    ///
    /// # Errors
    /// Returns an error if there is no state directory for the default file.
    pub(crate) fn of(
        file: Option<PathBuf>,
        store: Option<RedisBudgetStore>,
    ) -> Result<Self, CliError> {
        match (file, store) {
            (Some(file), _) => Ok(Self::File(file)),
            (None, Some(store)) => Ok(Self::Store(store)),
            (None, None) => default_path().map(Self::File),
        }
    }

    /// The keys. A missing file has no key.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub(crate) fn read(&self) -> Result<KeyFile, SourceError> {
        match self {
            Self::File(path) if !path.exists() => Ok(KeyFile::default()),
            Self::File(path) => KeyFile::read(path).map_err(failed),
            Self::Store(store) => {
                let keys = store.keys(None).map_err(|error| refused_by_store(&error))?;
                Ok(KeyFile::of_store(&keys.unwrap_or_default()))
            }
        }
    }

    /// The time by which keys expire: that of this machine, or that of the store as it was last heard of. The store is heard of
    /// when it is opened, and whenever its keys are read.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::File(_) => Timestamp::now(),
            Self::Store(store) => timestamp(store.time()),
        }
    }

    /// The same time, after a question to the store.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub(crate) fn ask_now(&self) -> Result<Timestamp, SourceError> {
        if matches!(self, Self::Store(_)) {
            self.read()?;
        }
        Ok(self.now())
    }

    /// Changes the keys, and notes in each key that is changed who did so, when and why. Whole or not at all: a gateway never
    /// reads half of it. With a store, `change` is called again if another process has changed the same key in the meantime.
    ///
    /// # Errors
    /// Returns an error if they cannot be read or written, or `change` fails: then they are as before.
    pub(crate) fn change<T>(
        &self,
        act: &KeyAct,
        mut change: impl FnMut(&mut KeyFile) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match self {
            Self::File(path) => change_file(path, act, change),
            Self::Store(store) => change_store(store, act, &mut change),
        }
    }
}

/// A time of the store. One after all dates is the last date, by which every key with an end has expired.
fn timestamp(time: WallTime) -> Timestamp {
    let millis = i64::try_from(time.0).ok();
    let read = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    read.unwrap_or(Timestamp::MAX)
}

/// An error of the store of the keys.
pub(super) fn store_failed(error: &BudgetStoreError) -> CliError {
    CliError::new(error.to_string())
}

/// The same as an answer: only a store that is away can be tried again as it is.
fn refused_by_store(error: &BudgetStoreError) -> SourceError {
    let kind = match error {
        BudgetStoreError::Away { .. } => SourceErrorKind::Away,
        _ => SourceErrorKind::Failed,
    };
    store_failed(error).into_source(kind)
}

/// A file that is damaged, or cannot be read or written.
fn failed(error: CliError) -> SourceError {
    error.into_source(SourceErrorKind::Failed)
}

/// A change that is not possible now.
fn refused(error: CliError) -> SourceError {
    error.into_source(SourceErrorKind::Refused)
}

/// Locks a file, and waits while another process has it, but not for one that hangs.
///
/// # Errors
/// Returns an error if the file cannot be locked, or is locked for longer than `limit`.
fn lock(file: &File, limit: Duration) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(error);
            }
            Err(_) if begun.elapsed() >= limit => {
                let held = format!("another process has locked them for {} s", limit.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, held));
            }
            Err(_) => std::thread::sleep(KEY_LOCK_RECHECK),
        }
    }
}

fn too_large(error: TooLarge) -> SourceError {
    match error {
        TooLarge::Key(error) => error.into_source(SourceErrorKind::Unusable),
        TooLarge::Together(error) => refused(error),
    }
}

/// Changes a file of keys, which is created if it is missing.
fn change_file<T>(
    path: &Path,
    act: &KeyAct,
    change: impl FnOnce(&mut KeyFile) -> Result<T, SourceError>,
) -> Result<T, SourceError> {
    let not_written = |error: io::Error| {
        let shown = path.display();
        failed(CliError::new(format!("cannot write the keys `{shown}`: {error}")))
    };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        create_private_directory(directory).map_err(not_written)?;
    }
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // Two commands at once would each write back what they have read.
    let locked: File =
        private_file().create(true).append(true).open(beside(".lock")).map_err(not_written)?;
    lock(&locked, MAX_KEY_LOCK_TIME).map_err(not_written)?;
    let mut file = match path.exists() {
        true => KeyFile::read(path).map_err(failed)?,
        false => KeyFile::default(),
    };
    let before = file.clone();
    let result = change(&mut file)?;
    file.note(&before, act);
    size::check(&before, &file).map_err(too_large)?;
    replace_file(path, &beside(".draft"), file.to_text().as_bytes()).map_err(not_written)?;
    Ok(result)
}

/// Changes keys of a store, each only if it is still as it was read.
fn change_store<T>(
    store: &RedisBudgetStore,
    act: &KeyAct,
    change: &mut impl FnMut(&mut KeyFile) -> Result<T, SourceError>,
) -> Result<T, SourceError> {
    let failed = |error: BudgetStoreError| refused_by_store(&error);
    for _ in 0..MAX_KEY_TRIES {
        let read = store.keys(None).map_err(failed)?.unwrap_or_default();
        let before = KeyFile::of_store(&read);
        let mut file = before.clone();
        let result = change(&mut file)?;
        file.note(&before, act);
        if file.lines.len() > MAX_STORE_KEYS.max(before.lines.len()) {
            let error = format!("the store has {MAX_STORE_KEYS} keys, the most");
            return Err(too_large(size::full(error)));
        }
        size::check(&before, &file).map_err(too_large)?;
        if store.change_keys(&changes(&before, &file, read.keys)).map_err(failed)? {
            return Ok(result);
        }
    }
    let error = "others change this key all the time: nothing was changed";
    Err(refused(CliError::new(error).with_hint("try again")))
}

/// The changes that lead to `after`. `read` is the text of each key before, as the store has it.
fn changes(before: &KeyFile, after: &KeyFile, read: Vec<(String, String)>) -> Vec<StoreKeyChange> {
    let known: BTreeMap<&str, _> = before.stored().map(|key| (key.name.as_str(), key)).collect();
    let mut read: BTreeMap<String, String> = read.into_iter().collect();
    let changed = after.stored().filter(|key| known.get(key.name.as_str()) != Some(key));
    changed
        .map(|key| StoreKeyChange {
            name: key.name.clone(),
            before: read.remove(&key.name),
            after: key.to_json().to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
