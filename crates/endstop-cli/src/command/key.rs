//! `endstop key`: issue, list, change, revoke and rotate the keys of clients of `endstop serve`.

mod local;
#[cfg(unix)]
mod remote;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use endstop::core::units::Money;
use endstop_gateway::control_source::SourceError;
use endstop_gateway::{KeyDesk, KeyReason, KeyRecord, KeySettings, NewKey, RunsOfKey, ShownKey};
use serde_json::json;

#[cfg(unix)]
use super::control::ServerArgs;
use super::limits::usd;
use crate::budgets::StoreArgs;
use crate::duration::span;
use crate::error::{CliError, ExitMeaning};
use crate::keys::KeyPlace;
use crate::output;
use crate::policy_source::load_file;
use crate::who::who;
pub(super) use local::LocalKeys;

/// The value of `--budget` and `--usd` for none.
const NONE: &str = "none";
/// The value of `--models` for all.
const ALL: &str = "all";
/// The value of `--expires` for a key that does not expire.
const NEVER: &str = "never";

/// How a desk begins an error about a field, and the option that has its value.
const FIELDS: [(&str, &str); 4] = [
    ("`budgets`", "--budget"),
    ("`usd`", "--usd"),
    ("`models`", "--models"),
    ("`expires`", "--expires"),
];

const EXAMPLES: &str = "\
Examples:
  endstop key new alice --budget team-a --expires 90d
  endstop key new ci --runs one --usd 20 --models 'gpt-*,claude-haiku-*'
  endstop key list
  endstop key set alice --budget '$5 per day' --expires never
  endstop key revoke alice
  endstop serve --usd 2 --keys
  endstop key revoke alice --budget-store redis://HOST:6379

A client of `endstop serve --keys` sends its key as its API key, and the gateway
puts the upstream's own in its place. The key is printed once; the file has its
hash. A change holds at the next call, without a restart of the gateway.

With --budget-store, or ENDSTOP_BUDGET_STORE, keys are in Redis, and a change
holds on every gateway with the same address. With --server, the gateway there
changes the keys that it takes.";

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

/// The long help of --server.
#[cfg(unix)]
const SERVER_HELP: &str = "Ask the control API at this address\n\n\
    The gateway there uses its keys, and the budgets that it knows.";

/// Where the keys are.
#[derive(Debug, clap::Args)]
#[cfg_attr(unix, command(mut_arg("server", |arg| {
    arg.conflicts_with_all(["keys", "budget_store"]).long_help(SERVER_HELP)
})))]
struct Place {
    /// File of keys
    ///
    /// Instead of those of --budget-store. The default is keys.jsonl in the state directory, which `serve --keys` reads.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Use the keys in this Redis or Valkey
    ///
    /// All gateways with the same address and `--keys` take them. ENDSTOP_BUDGET_STORE is a default for this too.
    #[arg(long, value_name = "URL")]
    budget_store: Option<String>,
    #[cfg(unix)]
    #[command(flatten)]
    server: ServerArgs,
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
    #[cfg_attr(unix, arg(conflicts_with = "server"))]
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
    if text == NEVER { Ok(NewValue::Nothing) } else { span(text).map(NewValue::Set) }
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
    fn policy(&self) -> Option<&Path> {
        self.policy.as_deref()
    }
}

impl Place {
    /// The place of the keys, or the gateway that has them. `policy` is a file with budgets that the gateways know.
    fn desk(&self, policy: Option<&Path>) -> Result<Box<dyn KeyDesk>, CliError> {
        #[cfg(unix)]
        if let Some(gateway) = self.server.gateway()? {
            return Ok(Box::new(remote::RemoteKeys(gateway)));
        }
        let policy = policy.map(load_file).transpose()?.unwrap_or_default();
        let store = match &self.keys {
            Some(_) => None,
            None => StoreArgs::at(self.budget_store.clone()).connect()?,
        };
        let place = KeyPlace::of(self.keys.clone(), store)?;
        Ok(Box::new(LocalKeys::new(place, policy)))
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a name is taken or unknown, a budget is not defined, or the keys cannot be read or written.
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
    let new = NewKey {
        name: args.name.clone(),
        budgets: args.budget.clone(),
        usd: args.usd.map(Money::to_decimal),
        runs: match args.runs {
            Runs::One => RunsOfKey::One,
            Runs::Many => RunsOfKey::Many,
        },
        models: args.models.clone(),
        expires: args.expires.map(in_millis),
        by: Some(who()),
        message: None,
    };
    let desk = args.place.desk(args.defined.policy())?;
    let ShownKey { key, issued } = desk.issue(&new).map_err(shown)?;
    writeln!(out, "{key}")?;
    let example = match issued.runs.strip_suffix('*') {
        Some(beginning) => format!("{beginning}1"),
        None => issued.runs.clone(),
    };
    output::note(&format!(
        "key {} for {}; it is not shown again. Base URL: http://HOST:PORT/r/{example}/v1",
        issued.name,
        in_words(&issued)
    ));
    Ok(ExitCode::SUCCESS)
}

fn change(args: &SetArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let has_lists = !args.budget.is_empty() || !args.models.is_empty();
    if !has_lists && args.usd.is_none() && args.expires.is_none() {
        return Err(CliError::new("nothing to change")
            .with_hint("pass --budget, --usd, --models or --expires"));
    }
    let settings = KeySettings {
        budgets: args.budget.clone(),
        usd: args.usd.map(|usd| match usd {
            NewValue::Nothing => NONE.to_owned(),
            NewValue::Set(usd) => usd.to_decimal(),
        }),
        models: args.models.clone(),
        expires: args.expires.map(|expires| match expires {
            NewValue::Nothing => NEVER.to_owned(),
            NewValue::Set(span) => in_millis(span),
        }),
        by: Some(who()),
        message: None,
    };
    let desk = args.place.desk(args.defined.policy())?;
    let changed = desk.set(&args.name, &settings).map_err(shown)?;
    writeln!(out, "{}: {}, {}", changed.name, changed.status, in_words(&changed))?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(args: &NamedArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let revoked = args.place.desk(None)?.revoke(&args.name, &args.reason()).map_err(shown)?;
    writeln!(out, "{}: {}", revoked.name, revoked.status)?;
    Ok(ExitCode::SUCCESS)
}

fn rotate(args: &NamedArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let rotated = args.place.desk(None)?.rotate(&args.name, &args.reason()).map_err(shown)?;
    writeln!(out, "{}", rotated.key)?;
    output::note(&format!("the old key {} is refused from now on", args.name));
    Ok(ExitCode::SUCCESS)
}

impl NamedArgs {
    fn reason(&self) -> KeyReason {
        KeyReason { by: Some(who()), message: self.why.clone() }
    }
}

/// A length of time as the options take it.
fn in_millis(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}

/// The error of a desk, which names fields where the command line has options.
fn shown(error: SourceError) -> CliError {
    let of_option = FIELDS.iter().find_map(|(field, option)| {
        let rest = error.message.strip_prefix(field)?.strip_prefix(": ")?;
        Some(format!("{option}: {rest}"))
    });
    let message = of_option.unwrap_or(error.message);
    CliError { details: error.details, hint: error.hint, ..CliError::new(message) }
}

fn print(args: &ListArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let keys = args.place.desk(None)?.list().map_err(shown)?.keys;
    if args.json {
        writeln!(out, "{:#}", json!({ "version": 1, "keys": keys }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if keys.is_empty() {
        return Err(CliError::new("no key is issued")
            .with_hint("endstop key new NAME")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    let mut table =
        output::table(&["key", "status", "runs", "budgets", "models", "expires"], &[]).unbroken(0);
    for key in &keys {
        let budgets = key.budgets.iter().chain(&key.limits);
        let day = |time: &String| time.get(..10).unwrap_or(time).to_owned();
        table.add_row([
            key.name.clone(),
            key.status.clone(),
            key.runs.clone(),
            budgets.map(String::as_str).collect::<Vec<_>>().join(", "),
            if key.models.is_empty() { ALL.to_owned() } else { key.models.join(", ") },
            key.expires.as_ref().map_or_else(|| NEVER.to_owned(), day),
        ]);
    }
    writeln!(out, "{}", output::shown(&table.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(key: &KeyRecord) -> String {
    let runs = match key.runs.ends_with('*') {
        false => format!("the run {}", key.runs),
        true => format!("runs {}", key.runs),
    };
    let budgets: Vec<&str> = key.budgets.iter().chain(&key.limits).map(String::as_str).collect();
    match budgets.as_slice() {
        [] => runs,
        budgets => format!("{runs}, budget {}", budgets.join(", ")),
    }
}

#[cfg(test)]
mod tests;
