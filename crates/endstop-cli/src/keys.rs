//! The file of keys that gateways have issued: `endstop key` writes it, `serve --keys` reads it, at its start and whenever it
//! changes.
//!
//! A line is a key that `endstop key` has issued, as JSON with the hash of the key, or `KEY RUN` or `KEY PREFIX*`, written by
//! hand. No error shows a key.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use endstop::account::{Account, AccountSet, BudgetStore, RunAccounts};
use endstop::core::units::WallTime;
use endstop::store::{create_private_directory, private_file, replace_file};
use endstop_gateway::{IssuedKey, Key, KeyChange, KeyHash, KeyRuns, KeySource};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::budgets::{self, Budgets, state_directory};
use crate::error::CliError;
use crate::input::{FileStamp, read_text};
use crate::limits::{MAX_KEYS_BYTES, UNCOUNTED_RECHECK};
use crate::output;

/// The name of the file in the state directory.
const NAME: &str = "keys.jsonl";

/// A key that `endstop key` has issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) name: String,
    pub(crate) hash: KeyHash,
    pub(crate) runs: KeyRuns,
    /// Budgets by name.
    pub(crate) budgets: Vec<String>,
    /// Its own limits, such as `$5 per day`.
    pub(crate) limits: Vec<String>,
    /// Patterns of the models that it may call.
    pub(crate) models: Vec<String>,
    pub(crate) created: Timestamp,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) revoked: Option<Timestamp>,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Stored(Box<StoredKey>),
    /// Written by hand.
    Plain(Key, KeyRuns, String),
    /// A comment, or nothing.
    Other(String),
}

/// The keys of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyFile {
    lines: Vec<Line>,
}

/// The file that is used if none is named.
///
/// # Errors
/// Returns an error if there is no state directory.
pub(crate) fn default_path() -> Result<PathBuf, CliError> {
    state_directory().map(|directory| directory.join(NAME)).ok_or_else(|| {
        CliError::new("no directory for keys: neither XDG_STATE_HOME nor HOME is set")
            .with_hint("name a file with --keys FILE")
    })
}

impl StoredKey {
    /// The name of the budget for its own limits.
    pub(crate) fn own_budget(&self) -> String {
        format!("key-{}", self.name)
    }

    /// The accounts that its calls draw on. `None` if it names none: then they are those of the gateway.
    ///
    /// # Errors
    /// Returns an error if a budget is not defined.
    pub(crate) fn account_set(&self, budgets: &Budgets) -> Result<Option<AccountSet>, CliError> {
        if self.budgets.is_empty() && self.limits.is_empty() {
            return Ok(None);
        }
        for name in &self.budgets {
            if budgets.set.get(name).is_none() {
                return Err(crate::budgets::unknown(name, &budgets.set));
            }
        }
        let mut accounts: Vec<Account> = budgets.set.iter().cloned().collect();
        if !self.limits.is_empty() {
            let limits: Vec<&str> = self.limits.iter().map(String::as_str).collect();
            let own = Account::new(&self.own_budget(), &limits);
            accounts.push(own.map_err(|error| CliError::new(error.to_string()))?);
        }
        let set = AccountSet::new(accounts).map_err(|error| CliError::new(error.to_string()))?;
        Ok(Some(set))
    }

    /// The names of the accounts that its calls draw on.
    fn account_names(&self, budgets: &Budgets) -> Vec<String> {
        let own = (!self.limits.is_empty()).then(|| self.own_budget());
        let named = budgets.explicit.iter().chain(&self.budgets).cloned();
        let all: BTreeSet<String> = named.chain(own).collect();
        all.into_iter().collect()
    }

    fn read(text: &str) -> Result<Self, String> {
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("no JSON object: {error}"))?;
        const KNOWN: [&str; 10] = [
            "version", "name", "sha256", "runs", "budgets", "limits", "models", "created",
            "expires", "revoked",
        ];
        if let Some(unknown) = object.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(format!("`{unknown}` is not known here; a later version wrote it"));
        }
        match object.get("version").and_then(Value::as_u64) {
            Some(1) => {}
            Some(2..) => return Err("a later version wrote it".to_owned()),
            _ => return Err("`version` is not 1".to_owned()),
        }
        // A value of another type is an error: read as a missing one, it would lift a limit.
        let word = |key: &str| match object.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(word)) => Ok(Some(word.as_str())),
            Some(_) => Err(format!("`{key}` is not a text")),
        };
        let words = |key: &str| -> Result<Vec<String>, String> {
            let words: Option<Vec<String>> = match object.get(key) {
                None => Some(Vec::new()),
                Some(Value::Array(all)) => {
                    all.iter().map(|word| word.as_str().map(str::to_owned)).collect()
                }
                Some(_) => None,
            };
            words.ok_or_else(|| format!("`{key}` is not a list of texts"))
        };
        let time = |key: &str| {
            let time = word(key)?.map(str::parse::<Timestamp>).transpose();
            time.map_err(|error| format!("`{key}`: {error}"))
        };
        let needed = |key: &str| word(key)?.ok_or_else(|| format!("`{key}` is missing"));
        Ok(Self {
            name: needed("name")?.to_owned(),
            hash: KeyHash::from_hex(needed("sha256")?).ok_or("`sha256` is not a hash")?,
            runs: needed("runs")?.parse().map_err(|error| format!("`runs`: {error}"))?,
            budgets: words("budgets")?,
            limits: words("limits")?,
            models: words("models")?,
            created: time("created")?.unwrap_or_default(),
            expires: time("expires")?,
            revoked: time("revoked")?,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "version": 1,
            "name": self.name,
            "sha256": self.hash.to_hex(),
            "runs": self.runs.to_string(),
            "budgets": self.budgets,
            "limits": self.limits,
            "models": self.models,
            "created": self.created.to_string(),
            "expires": self.expires.map(|time| time.to_string()),
            "revoked": self.revoked.map(|time| time.to_string()),
        })
    }
}

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or a line is wrong.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let text = read_text(path, "keys", MAX_KEYS_BYTES)?;
        Self::parse(&text).map_err(|problem| CliError::new(format!("`{shown}`: {problem}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (mut seen, mut names) = (BTreeSet::new(), BTreeSet::new());
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let parsed =
                Self::parse_line(line).map_err(|error| format!("line {number} {error}"))?;
            let hash = match &parsed {
                Line::Stored(key) => Some(key.hash),
                Line::Plain(key, ..) => Some(KeyHash::of(key)),
                Line::Other(_) => None,
            };
            if hash.is_some_and(|hash| !seen.insert(hash.to_hex())) {
                return Err(format!("line {number} repeats the key of an earlier line"));
            }
            if let Line::Stored(key) = &parsed
                && !names.insert(key.name.clone())
            {
                return Err(format!("line {number} repeats the name of an earlier line"));
            }
            lines.push(parsed);
        }
        Ok(Self { lines })
    }

    fn parse_line(line: &str) -> Result<Line, String> {
        if line.trim_start().starts_with('{') {
            let key =
                StoredKey::read(line).map_err(|error| format!("is no issued key: {error}"))?;
            return Ok(Line::Stored(Box::new(key)));
        }
        let mut words = line.split_whitespace();
        let Some(key) = words.next().filter(|key| !key.starts_with('#')) else {
            return Ok(Line::Other(line.to_owned()));
        };
        let (Some(runs), None) = (words.next(), words.next()) else {
            return Err("is not `KEY RUN` or `KEY PREFIX*`".to_owned());
        };
        let runs = runs.parse().map_err(|error| format!("has wrong runs: {error}"))?;
        Ok(Line::Plain(Key::new(key), runs, line.to_owned()))
    }

    /// The keys that `endstop key` has issued.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &StoredKey> {
        self.lines.iter().filter_map(|line| match line {
            Line::Stored(key) => Some(&**key),
            Line::Plain(..) | Line::Other(_) => None,
        })
    }

    /// One of them by its name.
    pub(crate) fn find(&mut self, name: &str) -> Option<&mut StoredKey> {
        self.lines.iter_mut().find_map(|line| match line {
            Line::Stored(key) if key.name == name => Some(&mut **key),
            _ => None,
        })
    }

    pub(crate) fn push(&mut self, key: StoredKey) {
        self.lines.push(Line::Stored(Box::new(key)));
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let _ = match line {
                Line::Stored(key) => writeln!(text, "{}", key.to_json()),
                Line::Plain(_, _, line) | Line::Other(line) => writeln!(text, "{line}"),
            };
        }
        text
    }
}

/// Changes a file of keys; it is created if it is missing. Whole or not at all: a gateway never reads half of it.
///
/// # Errors
/// Returns an error if it cannot be read or written, or `change` fails: then it is as before.
pub(crate) fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut KeyFile) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let failed = |error: io::Error| {
        CliError::new(format!("cannot write the keys `{}`: {error}", path.display()))
    };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        create_private_directory(directory).map_err(failed)?;
    }
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    // Two commands at once would each write back what they have read.
    let lock: File =
        private_file().create(true).append(true).open(beside(".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut file = if path.exists() { KeyFile::read(path)? } else { KeyFile::default() };
    let result = change(&mut file)?;
    replace_file(path, &beside(".draft"), file.to_text().as_bytes()).map_err(failed)?;
    Ok(result)
}

/// Whether the group of a file, or everybody, can read or replace what is in it.
#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o066 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}

/// The keys of a gateway: those of the file, as it is now. Budgets are those of its start.
pub(crate) struct FileKeys {
    path: PathBuf,
    budgets: Arc<Budgets>,
    /// See [`Budgets::open`].
    is_nested: bool,
    /// Takes the warnings of thresholds.
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    store: Mutex<Option<Arc<dyn BudgetStore>>>,
    seen: Mutex<Seen>,
}

/// The file as it was last read.
#[derive(Debug, Default)]
struct Seen {
    stamp: Option<FileStamp>,
    /// When the budgets of a key could not be counted: they are tried again some time later.
    uncounted: Option<Instant>,
}

impl FileKeys {
    /// The keys of a file, with the budgets that the gateway knows. Warns if other users can read the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(crate) fn open(
        path: &Path,
        budgets: Arc<Budgets>,
        is_nested: bool,
        warn: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, CliError> {
        KeyFile::read(path)?;
        if is_open_to_others(path) {
            let shown = path.display();
            output::warn(&format!("other users can read the keys `{shown}`: chmod 600 {shown}"));
        }
        let (store, seen) = (Mutex::default(), Mutex::default());
        Ok(Self { path: path.to_owned(), budgets, is_nested, warn, store, seen })
    }

    fn read(&self) -> Result<Vec<IssuedKey>, CliError> {
        let file = KeyFile::read(&self.path)?;
        // No store is opened for keys without budgets.
        let draws = file.stored().any(|key| !(key.budgets.is_empty() && key.limits.is_empty()));
        let accounts = draws.then(|| self.accounts(&file));
        let mut keys = Vec::new();
        for (place, line) in
            (1u64..).zip(file.lines.iter().filter(|line| !matches!(line, Line::Other(_))))
        {
            match line {
                Line::Stored(key) => keys.push(self.issued(key, accounts.as_ref())),
                Line::Plain(key, runs, _) => {
                    keys.push(IssuedKey::new(place.to_string(), KeyHash::of(key), runs.clone()));
                }
                Line::Other(_) => {}
            }
        }
        Ok(keys)
    }

    /// A key as the gateway takes it.
    fn issued(
        &self,
        key: &StoredKey,
        accounts: Option<&Result<RunAccounts, CliError>>,
    ) -> IssuedKey {
        let wall = |time: Timestamp| WallTime(u64::try_from(time.as_millisecond()).unwrap_or(0));
        let mut issued = IssuedKey::new(key.name.as_str(), key.hash, key.runs.clone());
        issued.models.clone_from(&key.models);
        issued.expires = key.expires.map(wall);
        issued.is_revoked = key.revoked.is_some();
        match self.accounts_of(key, accounts) {
            Ok(accounts) => issued.accounts = accounts,
            Err(why) => issued.uncounted = Some(why),
        }
        issued
    }

    /// The accounts that a key's calls draw on, out of those of all keys.
    fn accounts_of(
        &self,
        key: &StoredKey,
        all: Option<&Result<RunAccounts, CliError>>,
    ) -> Result<Option<RunAccounts>, String> {
        let own = key.account_set(&self.budgets).map_err(|error| error.message)?;
        let Some(all) = all.filter(|_| own.is_some()) else { return Ok(None) };
        let all = all.as_ref().map_err(|error| error.message.clone())?;
        let names = key.account_names(&self.budgets);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        all.named(&names).map(Some).map_err(|error| error.to_string())
    }

    /// The budgets of the gateway, and the own limits of every key: one set, so that a warning is given once.
    fn accounts(&self, file: &KeyFile) -> Result<RunAccounts, CliError> {
        let mut accounts: Vec<Account> = self.budgets.set.iter().cloned().collect();
        for key in file.stored() {
            let own = key.account_set(&self.budgets).ok().flatten();
            accounts.extend(own.iter().filter_map(|set| set.get(&key.own_budget())).cloned());
        }
        let set = AccountSet::new(accounts).map_err(|error| CliError::new(error.to_string()))?;
        budgets::draw(self.store()?, set, &[], self.is_nested, &self.warn)
    }

    /// The store of budgets, opened once, by the first key that has some.
    fn store(&self) -> Result<Arc<dyn BudgetStore>, CliError> {
        let mut known = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match &*known {
            Some(opened) => Arc::clone(opened),
            None => self.budgets.store()?,
        };
        Ok(Arc::clone(known.get_or_insert(opened)))
    }
}

impl std::fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileKeys").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeySource for FileKeys {
    fn look(&self) -> KeyChange {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = FileStamp::of(&self.path).ok().flatten();
        let is_same = now.is_some() && seen.stamp == now;
        if is_same && seen.uncounted.is_none_or(|since| since.elapsed() < UNCOUNTED_RECHECK) {
            return KeyChange::Same;
        }
        let was_missing = seen.stamp.is_none() && now.is_none();
        // Taken before the file is read: a change in between is seen the next time.
        *seen = Seen { stamp: now, uncounted: None };
        match self.read() {
            Ok(keys) => {
                let uncounted = keys.iter().filter_map(|key| Some((key, key.uncounted.as_ref()?)));
                for (key, why) in uncounted {
                    if !is_same {
                        let name = &key.name;
                        output::warn(&format!("calls with the key `{name}` are refused: {why}"));
                    }
                    seen.uncounted = Some(Instant::now());
                }
                KeyChange::Keys(keys)
            }
            Err(error) => {
                if !was_missing {
                    output::warn(&format!(
                        "no call is taken until the keys can be read: {}",
                        error.message
                    ));
                }
                KeyChange::Unreadable
            }
        }
    }
}

#[cfg(test)]
mod tests;
