//! The keys that gateways have issued: `endstop key` writes them, `serve --keys` reads them, at its start and whenever they
//! change. They are in a file, or in a store that gateways on many machines share.
//!
//! A line of the file is a key that `endstop key` has issued, as JSON with the hash of the key, or `KEY RUN` or `KEY PREFIX*`,
//! written by hand. The store has the same JSON by the name of the key. No error shows a key.

mod place;
mod size;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use endstop::account::{Account, AccountSet, StoreKeys};
use endstop_gateway::{IssuedKey, Key, KeyHash, KeyRuns, new_key};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::budgets::{state_directory, unknown};
use crate::error::CliError;
use crate::input::read_text;
use crate::limits::MAX_KEYS_BYTES;
pub(crate) use place::KeyPlace;
pub(crate) use source::GatewayKeys;

/// The name of the file in the state directory.
const NAME: &str = "keys.jsonl";
/// The end of the problem with a line that this version cannot read, but another one can.
const LATER: &str = "a later version wrote it";
/// What to do about a line that is wrong. It counts for all: a key that cannot be read would leave its runs open to others.
const FIX_LINE: &str =
    "fix or remove that line; until then a gateway with these keys takes no call";

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
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    /// Empty if that is not known.
    pub(crate) why: String,
}

/// A key of a store that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadKey {
    pub(crate) name: String,
    /// The text of the store.
    text: String,
    /// Why it cannot be read.
    pub(crate) why: String,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Stored(Box<StoredKey>),
    /// Written by hand.
    Plain(Key, KeyRuns, String),
    /// Only in a store: the other keys of a file are not taken either.
    Unread(Box<UnreadKey>),
    /// A comment, or nothing.
    Other(String),
}

/// The keys of a file or of a store.
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
    pub(crate) fn check_budgets(&self, budgets: &AccountSet) -> Result<(), CliError> {
        for name in &self.budgets {
            if budgets.get(name).is_none() {
                return Err(unknown(name, budgets));
            }
        }
        let all = budgets.iter().cloned().chain(self.own_account()?);
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
            return Err(format!("`{unknown}` is not known here; {LATER}"));
        }
        match object.get("version").and_then(Value::as_u64) {
            Some(1) => {}
            Some(2..) => return Err(LATER.to_owned()),
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
            created: time("created")?.ok_or("`created` is missing")?,
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

    fn to_json(&self) -> Value {
        json!({ "at": self.at.to_string(), "by": self.by, "why": self.why })
    }
}

impl UnreadKey {
    fn line(name: &str, text: &str, why: String) -> Line {
        Line::Unread(Box::new(Self { name: name.to_owned(), text: text.to_owned(), why }))
    }

    /// The key as a gateway refuses it by its name. If its runs cannot be read, they may be any: so it has all that no other
    /// key has, because a caller without a key could spend in them otherwise.
    fn issued(&self) -> IssuedKey {
        let object: Map<String, Value> = serde_json::from_str(&self.text).unwrap_or_default();
        let word = |key: &str| object.get(key).and_then(Value::as_str);
        let hash = word("sha256").and_then(KeyHash::from_hex).unwrap_or_else(hash_of_no_key);
        let runs = word("runs").and_then(|runs| runs.parse::<KeyRuns>().ok());
        self.with(hash, runs.unwrap_or_else(|| KeyRuns::Under(String::new())))
    }

    /// The runs that a key of its name usually has, whatever is in its text.
    fn usual_runs(&self) -> impl Iterator<Item = IssuedKey> {
        let usual = [self.name.clone(), format!("{}-*", self.name)];
        let runs = usual.into_iter().filter_map(|runs| runs.parse::<KeyRuns>().ok());
        runs.map(move |runs| self.with(hash_of_no_key(), runs))
    }

    fn with(&self, hash: KeyHash, runs: KeyRuns) -> IssuedKey {
        let mut issued = IssuedKey::new(self.name.as_str(), hash, runs);
        issued.unread = Some(self.why.clone());
        issued
    }
}

/// A hash for which no client has a key.
fn hash_of_no_key() -> KeyHash {
    KeyHash::of(&Key::new(new_key()))
}

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or a line is wrong.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let text = read_text(path, "keys", MAX_KEYS_BYTES)?;
        Self::parse(&text).map_err(|problem| {
            let hint = match problem.ends_with(LATER) {
                true => "install the latest version of Endstop",
                false => FIX_LINE,
            };
            CliError::new(format!("`{shown}`: {problem}")).with_hint(hint)
        })
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
                Line::Unread(_) | Line::Other(_) => None,
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

    /// The keys of a store by their names.
    fn of_store(all: &StoreKeys) -> Self {
        let read = |(name, text): &(String, String)| match StoredKey::read(text) {
            Ok(key) if key.name == *name => Line::Stored(Box::new(key)),
            Ok(_) => UnreadKey::line(name, text, "it has another name".to_owned()),
            Err(why) => UnreadKey::line(name, text, why),
        };
        let no_text = |name: &String| UnreadKey::line(name, "", "it is no text".to_owned());
        Self { lines: all.keys.iter().map(read).chain(all.unread.iter().map(no_text)).collect() }
    }

    /// Those that this version cannot read.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &UnreadKey> {
        self.lines.iter().filter_map(|line| match line {
            Line::Unread(key) => Some(&**key),
            _ => None,
        })
    }

    /// The keys that `endstop key` has issued.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &StoredKey> {
        self.lines.iter().filter_map(|line| match line {
            Line::Stored(key) => Some(&**key),
            Line::Plain(..) | Line::Unread(_) | Line::Other(_) => None,
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
                Line::Unread(key) => writeln!(text, "{}", key.text),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests;
