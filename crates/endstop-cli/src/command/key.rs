//! `endstop key`: issue, list, change, revoke and rotate the keys of clients of `endstop serve`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use endstop::account::{AccountLimit, Window};
use endstop::core::units::Money;
use endstop::ledger::Dimension;
use endstop::store::{RunId, RunIdError};
use endstop_gateway::{Key, KeyHash, KeyRuns, new_key};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::limits::{span, usd};
use crate::budgets::{Budgets, check_limit, is_name};
use crate::error::{CliError, ExitMeaning};
use crate::keys::{self, KeyFile, StoredKey};
use crate::output;
use crate::policy_source::load_file;

/// The value of `--budget` and `--usd` for none.
const NONE: &str = "none";

const EXAMPLES: &str = "\
Examples:
  endstop key new alice --budget team-a --expires 90d
  endstop key new ci --runs one --usd 20 --models 'gpt-*,claude-haiku-*'
  endstop key list
  endstop key set alice --budget '$5 per day' --expires never
  endstop key revoke alice
  endstop serve --usd 2 --keys

A client of `endstop serve --keys` sends its key as its API key, and the gateway
puts the upstream's own in its place. The key is printed once; the file has its
hash. A change holds at the next call, without a restart of the gateway.";

/// Arguments of `endstop key`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct KeyArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, clap::Subcommand)]
enum Act {
    /// Issue a key, and print it once
    New(NewArgs),
    /// List the issued keys
    List(ListArgs),
    /// Change the limits, budgets, models or expiry of a key
    ///
    /// An option replaces what the key had; the rest stays as it was. The change holds at the next call of the key.
    Set(SetArgs),
    /// Refuse a key from the next call on
    Revoke(NamedArgs),
    /// Replace a key by a new one, and print it once
    ///
    /// The new key has the same name, runs and limits.
    Rotate(NamedArgs),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// File of keys
    ///
    /// The default is keys.jsonl in the state directory, which `serve --keys` reads.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct NewArgs {
    /// The name of the key, and the beginning of the names of its runs
    #[arg(value_name = "NAME")]
    name: String,
    /// Draw on a budget, or on `$5 per day`
    ///
    /// The name of a budget, or a limit of the key itself. It can be repeated.
    #[arg(long, value_name = "NAME|LIMIT")]
    budget: Vec<String>,
    /// Stop at this many US dollars in all
    #[arg(long, value_name = "USD", value_parser = usd)]
    usd: Option<Money>,
    /// Runs: many (default) or one
    ///
    /// All runs whose names begin with NAME-, or the one that is called NAME.
    #[arg(hide_possible_values = true, hide_default_value = true, long, value_name = "WHICH", value_enum, default_value_t = Runs::Many)]
    runs: Runs,
    /// Models that it may call: `gpt-*,o3`
    ///
    /// Names with commas between. `*` stands for any text.
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    models: Vec<String>,
    /// How long it is valid, such as 90d
    #[arg(long, value_name = "TIME", value_parser = span)]
    expires: Option<Duration>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    defined: Defined,
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The name of the key
    #[arg(value_name = "NAME")]
    name: String,
    /// Draw on this budget or limit instead, or on `none`
    ///
    /// It replaces all budgets and limits of the key. The limit of --usd stays unless this is `none` or dollars without a
    /// window; `--usd none` takes it away. It can be repeated.
    #[arg(long, value_name = "NAME|LIMIT")]
    budget: Vec<String>,
    /// Stop at this many US dollars in all, or `none`
    ///
    /// Earlier spend counts if the key had such a limit.
    #[arg(long, value_name = "USD", value_parser = usd_or_none)]
    usd: Option<NewValue<Money>>,
    /// Models that it may call: `gpt-*,o3`, or `all`
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    models: Vec<String>,
    /// Validity from now on, such as 90d, or `never`
    #[arg(long, value_name = "TIME", value_parser = span_or_never)]
    expires: Option<NewValue<Duration>>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    defined: Defined,
}

/// Definitions of budgets outside the configuration file.
#[derive(Debug, clap::Args)]
struct Defined {
    /// A policy file with budgets, as that of `serve`
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// A value that an option sets or takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewValue<T> {
    Nothing,
    Set(T),
}

fn usd_or_none(text: &str) -> Result<NewValue<Money>, String> {
    if text == NONE { Ok(NewValue::Nothing) } else { usd(text).map(NewValue::Set) }
}

fn span_or_never(text: &str) -> Result<NewValue<Duration>, String> {
    if text == "never" { Ok(NewValue::Nothing) } else { span(text).map(NewValue::Set) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Runs {
    Many,
    One,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct NamedArgs {
    /// The name of the key
    #[arg(value_name = "NAME")]
    name: String,
    /// The reason, which `key list --json` shows
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Defined {
    /// The budgets that a gateway with the same policy file knows.
    fn budgets(&self) -> Result<Budgets, CliError> {
        let policy = self.policy.as_deref().map(load_file).transpose()?.unwrap_or_default();
        Budgets::of(&policy, &[])
    }
}

impl Place {
    fn path(&self) -> Result<PathBuf, CliError> {
        self.keys.clone().map_or_else(keys::default_path, Ok)
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a name is taken or unknown, a budget is not defined, or the file cannot be used.
pub fn run(args: &KeyArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    match &args.act {
        Act::New(new) => issue(new, out),
        Act::List(list) => print(list, out),
        Act::Set(set) => change(set, out),
        Act::Revoke(named) => revoke(named, out),
        Act::Rotate(named) => rotate(named, out),
    }
}

fn issue(args: &NewArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let name = &args.name;
    let wrong = |error: RunIdError| CliError::new(format!("`{name}` cannot name a key: {error}"));
    // A `*` in it would stand for any text.
    let run = RunId::parse(name).map_err(wrong)?;
    let runs = match args.runs {
        Runs::One => KeyRuns::One(run),
        Runs::Many => format!("{name}-*").parse().map_err(wrong)?,
    };
    let (budgets, mut limits) = budgets_and_limits(&args.budget)?;
    limits.extend(args.usd.map(in_all));
    let key = new_key();
    let now = Timestamp::now();
    let expires = args.expires.map(|span| expiry(now, span)).transpose()?;
    let stored = StoredKey {
        name: args.name.clone(),
        hash: KeyHash::of(&Key::new(key.as_str())),
        runs,
        budgets,
        limits,
        models: args.models.clone(),
        created: now,
        expires,
        revoked: None,
        changed: None,
    };
    // Whether its budgets are defined.
    stored.check_budgets(&args.defined.budgets()?)?;
    let path = args.place.path()?;
    keys::change(&path, |file| {
        if file.find(&args.name).is_some() {
            return Err(CliError::new(format!("the key `{}` exists", args.name))
                .with_hint(format!("replace it: endstop key rotate {}", args.name)));
        }
        file.push(stored.clone());
        Ok(())
    })?;
    writeln!(out, "{key}")?;
    let example = match &stored.runs {
        KeyRuns::One(run) => run.to_string(),
        _ => format!("{}-1", args.name),
    };
    output::note(&format!(
        "key {} for {}; it is not shown again. Base URL: http://HOST:PORT/r/{example}/v1",
        args.name,
        in_words(&stored)
    ));
    Ok(ExitCode::SUCCESS)
}

/// The budgets by name and the limits of some values of `--budget`.
fn budgets_and_limits(texts: &[String]) -> Result<(Vec<String>, Vec<String>), CliError> {
    let (budgets, limits): (Vec<String>, Vec<String>) =
        texts.iter().cloned().partition(|text| is_name(text));
    limits.iter().try_for_each(|limit| check_limit(limit))?;
    Ok((budgets, limits))
}

/// The limit of `--usd`.
fn in_all(usd: Money) -> String {
    format!("${}", usd.to_decimal())
}

/// Whether a limit is one of `--usd`.
fn is_in_all(limit: &str) -> bool {
    let read = limit.parse::<AccountLimit>();
    read.is_ok_and(|it| it.dimension == Dimension::Cost && it.window == Window::Ever)
}

fn expiry(now: Timestamp, span: Duration) -> Result<Timestamp, CliError> {
    let at = now.checked_add(span).map_err(|_| CliError::new("--expires: that is too long"))?;
    if at <= now {
        return Err(CliError::new("--expires: the key would have expired already")
            .with_hint("write how long it is valid, such as `90d`"));
    }
    Ok(at)
}

fn change(args: &SetArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let is_empty = args.budget.is_empty() && args.models.is_empty();
    if is_empty && args.usd.is_none() && args.expires.is_none() {
        return Err(CliError::new("nothing to change")
            .with_hint("pass --budget, --usd, --models or --expires"));
    }
    if args.budget.len() > 1 && args.budget.iter().any(|text| text == NONE) {
        return Err(CliError::new("--budget: `none` stands alone"));
    }
    let named: &[String] = if args.budget == [NONE] { &[] } else { &args.budget };
    let (budgets, limits) = budgets_and_limits(named)?;
    let replaces_in_all = args.budget == [NONE] || limits.iter().any(|limit| is_in_all(limit));
    let now = Timestamp::now();
    let expires = match args.expires {
        None => None,
        Some(NewValue::Nothing) => Some(None),
        Some(NewValue::Set(span)) => Some(Some(expiry(now, span)?)),
    };
    let defined = args.defined.budgets()?;
    let changed = keys::change(&args.place.path()?, |file| {
        let key = found(file, &args.name)?;
        if key.revoked.is_some() {
            return Err(CliError::new(format!("the key `{}` is revoked", args.name))
                .with_hint("issue one with another name: endstop key new NAME"));
        }
        let (in_all_before, mut others): (Vec<String>, Vec<String>) =
            key.limits.iter().cloned().partition(|limit| is_in_all(limit));
        // A budget that it keeps may be one of a policy that is not named here.
        let mut checked = StoredKey { budgets: budgets.clone(), ..key.clone() };
        if !args.budget.is_empty() {
            key.budgets.clone_from(&budgets);
            others.clone_from(&limits);
        }
        others.extend(match args.usd {
            None if replaces_in_all => Vec::new(),
            None => in_all_before,
            Some(NewValue::Nothing) => Vec::new(),
            Some(NewValue::Set(usd)) => vec![in_all(usd)],
        });
        checked.limits.clone_from(&others);
        checked.check_budgets(&defined)?;
        key.limits = others;
        if !args.models.is_empty() {
            key.models = if args.models == ["all"] { Vec::new() } else { args.models.clone() };
        }
        key.expires = expires.unwrap_or(key.expires);
        Ok(key.clone())
    })?;
    writeln!(out, "{}: {}, {}", args.name, status(&changed, now), in_words(&changed))?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(args: &NamedArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    keys::change_for(&args.place.path()?, args.why.as_deref(), |file| {
        let key = found(file, &args.name)?;
        if key.revoked.is_some() {
            return Err(CliError::new(format!("the key `{}` is revoked already", args.name)));
        }
        key.revoked = Some(Timestamp::now());
        Ok(())
    })?;
    writeln!(out, "{}: revoked", args.name)?;
    Ok(ExitCode::SUCCESS)
}

fn rotate(args: &NamedArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let new = new_key();
    keys::change_for(&args.place.path()?, args.why.as_deref(), |file| {
        let key = found(file, &args.name)?;
        if key.revoked.is_some() {
            return Err(CliError::new(format!("the key `{}` is revoked", args.name))
                .with_hint("issue one with another name: endstop key new NAME"));
        }
        if status(key, Timestamp::now()) == "expired" {
            return Err(CliError::new(format!("the key `{}` has expired", args.name))
                .with_hint("issue one with another name: endstop key new NAME --expires 90d"));
        }
        key.hash = KeyHash::of(&Key::new(new.as_str()));
        key.created = Timestamp::now();
        Ok(())
    })?;
    writeln!(out, "{new}")?;
    output::note(&format!("the old key {} is refused from now on", args.name));
    Ok(ExitCode::SUCCESS)
}

fn found<'f>(file: &'f mut KeyFile, name: &str) -> Result<&'f mut StoredKey, CliError> {
    file.find(name).ok_or_else(|| {
        CliError::new(format!("no key `{name}`")).with_hint("`endstop key list` lists them")
    })
}

fn print(args: &ListArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let path = args.place.path()?;
    let file = if path.exists() { KeyFile::read(&path)? } else { KeyFile::default() };
    let now = Timestamp::now();
    if args.json {
        let keys: Vec<Value> = file.stored().map(|key| to_json(key, now)).collect();
        writeln!(out, "{:#}", json!({ "version": 1, "keys": keys }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if file.stored().next().is_none() {
        return Err(CliError::new("no key is issued")
            .with_hint("endstop key new NAME")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    let mut table =
        output::table(&["key", "status", "runs", "budgets", "models", "expires"], &[]).unbroken(0);
    for key in file.stored() {
        let budgets = key.budgets.iter().chain(&key.limits);
        table.add_row([
            key.name.clone(),
            status(key, now).to_owned(),
            key.runs.to_string(),
            budgets.map(String::as_str).collect::<Vec<_>>().join(", "),
            if key.models.is_empty() { "all".to_owned() } else { key.models.join(", ") },
            key.expires.map_or_else(|| "never".to_owned(), |time| time.strftime("%F").to_string()),
        ]);
    }
    writeln!(out, "{}", output::shown(&table.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Without the hash, which no reader needs.
fn to_json(key: &StoredKey, now: Timestamp) -> Value {
    json!({
        "name": key.name,
        "status": status(key, now),
        "runs": key.runs.to_string(),
        "budgets": key.budgets,
        "limits": key.limits,
        "models": key.models,
        "created": key.created.to_string(),
        "expires": key.expires.map(|time| time.to_string()),
        "revoked": key.revoked.map(|time| time.to_string()),
        "changed": key.changed.as_ref().map(keys::KeyAct::to_json),
    })
}

fn status(key: &StoredKey, now: Timestamp) -> &'static str {
    match (key.revoked, key.expires) {
        (Some(_), _) => "revoked",
        (None, Some(expires)) if expires <= now => "expired",
        (None, _) => "valid",
    }
}

fn in_words(key: &StoredKey) -> String {
    let runs = match &key.runs {
        KeyRuns::One(run) => format!("the run {run}"),
        runs => format!("runs {runs}"),
    };
    let budgets: Vec<&str> = key.budgets.iter().chain(&key.limits).map(String::as_str).collect();
    match budgets.as_slice() {
        [] => runs,
        budgets => format!("{runs}, budget {}", budgets.join(", ")),
    }
}
