//! The keys of a gateway: those of a file or a store, and the budgets of its configuration, as they are now.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use endstop::account::{BudgetStoreError, RedisBudgetStore, RunAccounts};
use endstop::clock::system_wall_time;
use endstop::core::units::WallTime;
use endstop_gateway::{IssuedKey, KeyChange, KeyHash, KeySource};
use jiff::Timestamp;

use super::place::store_failed;
use super::{KeyFile, KeyPlace, Line, StoredKey, UnreadKey};
use crate::budgets::OpenBudgets;
use crate::error::CliError;
use crate::input::WatchedFile;
use crate::limits::UNCOUNTED_RECHECK;
use crate::output;

/// The keys of a gateway, with its budgets.
#[derive(Debug)]
pub(crate) struct GatewayKeys {
    budgets: OpenBudgets,
    /// The store of the keys, whose clock counts. Not in `seen`, which is locked while the store is asked.
    store: Option<RedisBudgetStore>,
    seen: Mutex<SeenKeys>,
}

#[derive(Debug)]
struct SeenKeys {
    place: WatchedPlace,
    /// When the budgets of a key could not be counted: they are tried again some time later.
    uncounted: Option<Instant>,
    /// The warnings about the keys as they were last read.
    warned: Vec<String>,
}

/// Where the keys are, and how they were when they were last read.
#[derive(Debug)]
enum WatchedPlace {
    File(WatchedFile),
    /// The server says before each call whether it still has this version. `None` if it is not known.
    Store {
        store: RedisBudgetStore,
        version: Option<u64>,
    },
}

/// Why keys cannot be read now.
#[derive(Debug)]
enum NoKeys {
    /// They are damaged or gone, or their store refuses: a person has to act.
    Unreadable(CliError),
    /// Their store is away, which passes, with the error.
    Away(String),
}

impl NoKeys {
    fn of_store(error: &BudgetStoreError) -> Self {
        if matches!(error, BudgetStoreError::Away { .. }) {
            return Self::Away(error.to_string());
        }
        Self::Unreadable(store_failed(error))
    }
}

impl GatewayKeys {
    /// The keys of a place, with the budgets of the gateway. Warns if other users can read the file.
    ///
    /// # Errors
    /// Returns an error if they cannot be read, or a store has none.
    pub(crate) fn open(place: &KeyPlace, budgets: OpenBudgets) -> Result<Self, CliError> {
        let mut of_clock = None;
        let place = match place {
            KeyPlace::File(path) => {
                KeyFile::read(path)?;
                if is_open_to_others(path) {
                    let shown = path.display();
                    output::warn(&format!(
                        "other users can read the keys `{shown}`: chmod 600 {shown}"
                    ));
                }
                WatchedPlace::File(WatchedFile::new(path.clone()))
            }
            KeyPlace::Store(store) => {
                let all = store.keys(None).map_err(|error| store_failed(&error))?;
                if all.unwrap_or_default().is_empty() {
                    return Err(no_key(store));
                }
                of_clock = Some(store.clone());
                WatchedPlace::Store { store: store.clone(), version: None }
            }
        };
        Ok(Self {
            budgets,
            store: of_clock,
            seen: Mutex::new(SeenKeys { place, uncounted: None, warned: Vec::new() }),
        })
    }

    /// The keys as the gateway takes them.
    fn issue(&self, file: &KeyFile) -> Vec<IssuedKey> {
        let defined = self.define(file);
        let mut keys = Vec::new();
        for (place, line) in
            (1u64..).zip(file.lines.iter().filter(|line| !matches!(line, Line::Other(_))))
        {
            match line {
                Line::Stored(key) => keys.push(self.issued(key, defined.as_ref().err())),
                Line::Plain(key, runs, _) => {
                    keys.push(IssuedKey::new(place.to_string(), KeyHash::of(key), runs.clone()));
                }
                Line::Unread(key) => keys.push(key.issued()),
                Line::Other(_) => {}
            }
        }
        // Last, so that the other keys keep their places.
        keys.extend(file.unread().flat_map(UnreadKey::usual_runs));
        keys
    }

    /// A key as the gateway takes it. `problem` says why no key's budgets can be counted.
    fn issued(&self, key: &StoredKey, problem: Option<&CliError>) -> IssuedKey {
        let wall = |time: Timestamp| WallTime(u64::try_from(time.as_millisecond()).unwrap_or(0));
        let mut issued = IssuedKey::new(key.name.as_str(), key.hash, key.runs.clone());
        issued.models.clone_from(&key.models);
        issued.expires = key.expires.map(wall);
        issued.is_revoked = key.revoked.is_some();
        match self.accounts_of(key, problem) {
            Ok(accounts) => issued.accounts = accounts,
            Err(why) => issued.uncounted = Some(why),
        }
        issued
    }

    /// The accounts that a key's calls draw on. `None` if they are those of the gateway.
    fn accounts_of(
        &self,
        key: &StoredKey,
        problem: Option<&CliError>,
    ) -> Result<Option<RunAccounts>, String> {
        if !key.has_budgets() {
            return Ok(None);
        }
        key.own_account().map_err(|error| error.message)?;
        if let Some(problem) = problem {
            return Err(problem.message.clone());
        }
        let names = key.account_names(self.budgets.explicit());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.budgets.named(&names).map(Some)
    }

    /// Defines the own limits of every key, next to the budgets of the gateway.
    fn define(&self, file: &KeyFile) -> Result<(), CliError> {
        let own = file.stored().filter_map(|key| key.own_account().ok().flatten());
        self.budgets.define_for_keys(own.collect())?;
        // No store is opened for keys without budgets.
        match file.stored().any(StoredKey::has_budgets) {
            true => self.budgets.open_store(),
            false => Ok(()),
        }
    }
}

impl WatchedPlace {
    /// The keys, if they may differ from those of the last call, or `is_due` asks for them.
    fn changed(&mut self, is_due: bool) -> Result<Option<KeyFile>, NoKeys> {
        match self {
            Self::File(file) => {
                if !file.has_changed() && !is_due {
                    return Ok(None);
                }
                KeyFile::read(file.path()).map(Some).map_err(|error| {
                    // It may be readable later, without another state.
                    file.read_again();
                    NoKeys::Unreadable(error)
                })
            }
            Self::Store { store, version } => {
                // Until they are read, nothing is known.
                let known = version.take().filter(|_| !is_due);
                match store.keys(known) {
                    Ok(None) => {
                        *version = known;
                        Ok(None)
                    }
                    // A server that has lost its keys would admit calls of their runs without a key.
                    Ok(Some(all)) if all.is_empty() => Err(NoKeys::Unreadable(no_key(store))),
                    Ok(Some(all)) => {
                        *version = Some(all.version);
                        Ok(Some(KeyFile::of_store(&all)))
                    }
                    Err(error) => Err(NoKeys::of_store(&error)),
                }
            }
        }
    }
}

impl SeenKeys {
    /// Prints the warnings that the keys did not have when they were last read.
    fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings.iter().filter(|it| !self.warned.contains(it)) {
            output::warn(warning);
        }
        self.warned = warnings;
    }
}

impl KeySource for GatewayKeys {
    fn look(&self) -> KeyChange {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = seen.uncounted.is_some_and(|since| since.elapsed() >= UNCOUNTED_RECHECK);
        match seen.place.changed(is_due) {
            Ok(None) => KeyChange::Same,
            Ok(Some(file)) => {
                let keys = self.issue(&file);
                let uncounted = keys.iter().filter_map(|key| Some((key, key.uncounted.as_ref()?)));
                let mut warnings: Vec<String> = uncounted
                    .map(|(key, why)| {
                        format!("calls with the key `{}` are refused: {why}", key.name)
                    })
                    .collect();
                seen.uncounted = (!warnings.is_empty()).then(Instant::now);
                warnings.extend(file.unread().map(|key| {
                    format!("calls with the key `{}` are refused: {}", key.name, key.why)
                }));
                seen.warn(warnings);
                KeyChange::Keys(keys)
            }
            Err(NoKeys::Unreadable(error)) => {
                seen.uncounted = None;
                let message = &error.message;
                seen.warn(vec![format!("no call is taken until the keys can be read: {message}")]);
                KeyChange::Unreadable
            }
            // The store itself reports its outages, once each.
            Err(NoKeys::Away(why)) => {
                seen.uncounted = None;
                KeyChange::Away(why)
            }
        }
    }

    /// A file that has not changed costs no other thread.
    fn is_same(&self) -> bool {
        let Ok(seen) = self.seen.try_lock() else { return false };
        let is_same = matches!(&seen.place, WatchedPlace::File(file) if file.is_same());
        is_same && seen.uncounted.is_none()
    }

    fn now(&self) -> WallTime {
        self.store.as_ref().map_or_else(system_wall_time, RedisBudgetStore::time)
    }
}

fn no_key(store: &RedisBudgetStore) -> CliError {
    CliError::new(format!("the store `{}` has no key", store.server())).with_hint(
        "`endstop key new NAME --budget-store URL` issues the first key; `--keys FILE` names a file of keys instead",
    )
}

/// Whether the group of a file, or everybody, can read or replace what is in it.
#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o066 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
