//! The file of keys that gateways have issued: `endstop key` writes it, `serve --keys` reads it, at its start and whenever it
//! changes.
//!
//! A line is a key that `endstop key` has issued, as JSON with the hash of the key, or `KEY RUN` or `KEY PREFIX*`, written by
//! hand. No error shows a key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use endstop::account::{Account, AccountSet, RunAccounts};
use endstop::core::units::WallTime;
use endstop::store::{create_private_directory, private_file, replace_file};
use endstop_gateway::{IssuedKey, Key, KeyChange, KeyHash, KeyRuns, KeySource};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::budgets::{Budgets, OpenBudgets, state_directory};
use crate::error::CliError;
use crate::input::{WatchedFile, read_text};
use crate::limits::{MAX_KEYS_BYTES, UNCOUNTED_RECHECK};
use crate::output;
use crate::who::who;

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
    /// Its last change, its issue included. `None` for a key of an earlier version.
    pub(crate) changed: Option<KeyAct>,
}

/// A change of a key: when, by whom, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyAct {
    at: Timestamp,
    by: String,
    /// Empty if that is not known.
    why: String,
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

    /// Whether it names budgets or has limits. If not, its calls draw on the budgets of the gateway.
    fn has_budgets(&self) -> bool {
        !(self.budgets.is_empty() && self.limits.is_empty())
    }

    /// The account for its own limits, if it has some.
    fn own_account(&self) -> Result<Option<Account>, CliError> {
        if self.limits.is_empty() {
            return Ok(None);
        }
        let limits: Vec<&str> = self.limits.iter().map(String::as_str).collect();
        let own = Account::new(&self.own_budget(), &limits);
        own.map(Some).map_err(|error| CliError::new(error.to_string()))
    }

    /// Checks that its budgets are defined.
    ///
    /// # Errors
    /// Returns an error if one is not, or its own limits cannot be used.
    pub(crate) fn check_budgets(&self, budgets: &Budgets) -> Result<(), CliError> {
        for name in &self.budgets {
            if budgets.set.get(name).is_none() {
                return Err(crate::budgets::unknown(name, &budgets.set));
            }
        }
        let all = budgets.set.iter().cloned().chain(self.own_account()?);
        AccountSet::new(all).map(drop).map_err(|error| CliError::new(error.to_string()))
    }

    /// The names of the accounts that its calls draw on.
    fn account_names(&self, of_gateway: &[String]) -> BTreeSet<String> {
        let own = (!self.limits.is_empty()).then(|| self.own_budget());
        of_gateway.iter().chain(&self.budgets).cloned().chain(own).collect()
    }

    fn read(text: &str) -> Result<Self, String> {
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("no JSON object: {error}"))?;
        const KNOWN: [&str; 11] = [
            "version", "name", "sha256", "runs", "budgets", "limits", "models", "created",
            "expires", "revoked", "changed",
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
            changed: object.get("changed").map(KeyAct::read).transpose()?,
        })
    }

    fn to_json(&self) -> Value {
        let mut json = json!({
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
        });
        // Left out for keys of an earlier version, so that they stay as they are.
        if let (Some(object), Some(changed)) = (json.as_object_mut(), &self.changed) {
            object.insert("changed".to_owned(), changed.to_json());
        }
        json
    }
}

impl KeyAct {
    fn read(value: &Value) -> Result<Self, String> {
        let word = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let at = word("at").parse::<Timestamp>().map_err(|error| format!("`changed`: {error}"))?;
        Ok(Self { at, by: word("by").to_owned(), why: word("why").to_owned() })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "at": self.at.to_string(), "by": self.by, "why": self.why })
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

    /// Notes an act on every key that is not as it was.
    fn note(&mut self, before: &Self, act: &KeyAct) {
        let known: BTreeMap<&str, &StoredKey> =
            before.stored().map(|key| (key.name.as_str(), key)).collect();
        for line in &mut self.lines {
            if let Line::Stored(key) = line
                && known.get(key.name.as_str()) != Some(&&**key)
            {
                key.changed = Some(act.clone());
            }
        }
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

/// Like [`change_for`], without a reason.
///
/// # Errors
/// See [`change_for`].
pub(crate) fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut KeyFile) -> Result<T, CliError>,
) -> Result<T, CliError> {
    change_for(path, None, change)
}

/// Changes a file of keys, and notes in each key that is changed who did so, when and why. The file is created if it is missing.
/// Whole or not at all: a gateway never reads half of it.
///
/// # Errors
/// Returns an error if it cannot be read or written, or `change` fails: then it is as before.
pub(crate) fn change_for<T>(
    path: &Path,
    why: Option<&str>,
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
    let before = file.clone();
    let result = change(&mut file)?;
    let why = why.unwrap_or_default().to_owned();
    file.note(&before, &KeyAct { at: Timestamp::now(), by: who(), why });
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

/// The keys of a gateway: those of the file, and the budgets of its configuration, as they are now.
#[derive(Debug)]
pub(crate) struct FileKeys {
    budgets: OpenBudgets,
    seen: Mutex<SeenKeys>,
}

#[derive(Debug)]
struct SeenKeys {
    file: WatchedFile,
    /// When the budgets of a key could not be counted: they are tried again some time later.
    uncounted: Option<Instant>,
    /// The warnings about the file as it was last read.
    warned: Vec<String>,
}

impl FileKeys {
    /// The keys of a file, with the budgets of the gateway. Warns if other users can read the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(crate) fn open(path: &Path, budgets: OpenBudgets) -> Result<Self, CliError> {
        KeyFile::read(path)?;
        if is_open_to_others(path) {
            let shown = path.display();
            output::warn(&format!("other users can read the keys `{shown}`: chmod 600 {shown}"));
        }
        let file = WatchedFile::new(path.to_owned());
        Ok(Self {
            budgets,
            seen: Mutex::new(SeenKeys { file, uncounted: None, warned: Vec::new() }),
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<IssuedKey>, CliError> {
        let file = KeyFile::read(path)?;
        let defined = self.define(&file);
        let mut keys = Vec::new();
        for (place, line) in
            (1u64..).zip(file.lines.iter().filter(|line| !matches!(line, Line::Other(_))))
        {
            match line {
                Line::Stored(key) => keys.push(self.issued(key, defined.as_ref().err())),
                Line::Plain(key, runs, _) => {
                    keys.push(IssuedKey::new(place.to_string(), KeyHash::of(key), runs.clone()));
                }
                Line::Other(_) => {}
            }
        }
        Ok(keys)
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

impl SeenKeys {
    /// Prints the warnings that the file did not have when it was last read.
    fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings.iter().filter(|it| !self.warned.contains(it)) {
            output::warn(warning);
        }
        self.warned = warnings;
    }
}

impl KeySource for FileKeys {
    fn look(&self) -> KeyChange {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = seen.uncounted.is_some_and(|since| since.elapsed() >= UNCOUNTED_RECHECK);
        if !seen.file.has_changed() && !is_due {
            return KeyChange::Same;
        }
        seen.uncounted = None;
        match self.read(seen.file.path()) {
            Ok(keys) => {
                let uncounted = keys.iter().filter_map(|key| Some((key, key.uncounted.as_ref()?)));
                let warnings: Vec<String> = uncounted
                    .map(|(key, why)| {
                        format!("calls with the key `{}` are refused: {why}", key.name)
                    })
                    .collect();
                seen.uncounted = (!warnings.is_empty()).then(Instant::now);
                seen.warn(warnings);
                KeyChange::Keys(keys)
            }
            Err(error) => {
                // It may be readable later, without another state.
                seen.file.read_again();
                let message = &error.message;
                seen.warn(vec![format!("no call is taken until the keys can be read: {message}")]);
                KeyChange::Unreadable
            }
        }
    }
}

#[cfg(test)]
mod tests;
