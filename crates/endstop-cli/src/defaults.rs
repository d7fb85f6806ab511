//! Defaults of options: the user's configuration file, and variables `ENDSTOP_*`.
//!
//! One mechanism over the tree of commands. A key of the file is an option's name: at the top it holds for every
//! command with that option, in the table of a command for that command and its subcommands. A variable is the same
//! in capitals: `ENDSTOP_STEPS`, and `ENDSTOP_RUN_STEPS` for `endstop run` alone. The command line takes precedence
//! over variables, those over the file, and the narrower name over the wider one.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::process;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use endstop::core::expr::did_you_mean;
use endstop::core::policy::Action;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{CliError, causes};
use crate::input::read_text;
use crate::limits::MAX_CONFIG_BYTES;

/// How the names of variables begin.
const PREFIX: &str = "ENDSTOP_";
/// The variable that names another file; empty for none.
const FILE_VARIABLE: &str = "ENDSTOP_CONFIG";
/// The variable that names, for a command of `endstop run`, the budgets that count its calls.
pub(crate) const DRAWN_VARIABLE: &str = "ENDSTOP_BUDGETS";
/// The variable that names, for such a command, the file whose budgets count its calls: `default:FILE`, or `named:FILE` if
/// the calls draw on the budgets of a flag instead of the default one.
pub(crate) const DRAWN_FILE_VARIABLE: &str = "ENDSTOP_BUDGETS_FILE";
/// Variables that Endstop sets for the commands that it runs. They are defaults of nothing.
const RESERVED: [&str; 5] =
    ["ENDSTOP_BASE_URL", "ENDSTOP_RUN", DRAWN_VARIABLE, DRAWN_FILE_VARIABLE, FILE_VARIABLE];
/// Commands that change a run. A default for all commands is meant for runs that begin, and not for these.
const ACTING: [&str; 7] = ["approve", "cancel", "key", "kill", "pause", "resume", "signal"];
/// Options of `endstop key set` that only name a place. Each other one changes a key, so a default that is meant for
/// `endstop key new` must not reach it.
const PLACES_OF_KEY_SET: [&str; 5] = ["budget-store", "keys", "policy", "server", "token-env"];
/// Tables of the file that are no defaults of options.
const OTHER_TABLES: [&str; 2] = ["budget", "webhook"];

/// The default of one option of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultValue {
    /// The command, without `endstop`: `run`. Empty for an option of all commands.
    pub command: String,
    /// The option, without dashes: `steps`.
    pub option: String,
    /// Its values; most options have one.
    pub values: Vec<String>,
    /// Its place: the name of a variable, or `FILE:LINE`.
    pub origin: String,
    /// Its precedence among defaults that contradict each other.
    rank: Rank,
}

/// The precedence of a default: variables before the file, then the narrower name before the wider one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_variable: bool,
    /// The words of the command that its name has.
    words: usize,
}

/// Every default that holds.
///
/// ```
/// use endstop_cli::defaults::Defaults;
///
/// let variable = |name: &str| (name == "ENDSTOP_RUN_STEPS").then(|| "25".into());
/// let defaults = Defaults::load(&endstop_cli::command(), variable)?;
/// let [steps] = defaults.all() else { panic!("one default") };
/// assert_eq!((steps.command.as_str(), steps.option.as_str()), ("run", "steps"));
/// # Ok::<(), endstop_cli::error::CliError>(())
/// ```
#[derive(Debug, Default)]
pub struct Defaults {
    file: Option<PathBuf>,
    has_file: bool,
    all: Vec<DefaultValue>,
}

/// A value of the file, and its line.
struct DefaultEntry {
    values: Vec<String>,
    line: usize,
}

/// A table of the file: the path of its command, and its options.
struct CommandTable {
    path: Vec<String>,
    entries: Vec<(String, DefaultEntry)>,
}

impl Defaults {
    /// Reads the file and the variables, and checks every value as the command line would.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, names something that is not an option or command, or a value is
    /// refused.
    pub fn load(
        command: &Command,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CliError> {
        let file = file_of(&variable);
        let mut defaults = Self { file, ..Self::default() };
        let mut tables = Vec::new();
        // One that the system does not show is not missing: its limits would be.
        let is_there = |path: &&PathBuf| path.try_exists().unwrap_or(true);
        if let Some(path) = defaults.file.as_ref().filter(is_there) {
            defaults.has_file = true;
            let text = read_text(path, "configuration file", MAX_CONFIG_BYTES)?;
            let shown = path.display().to_string();
            let failed = |message: &str, span: Option<Range<usize>>| {
                CliError::new(format!("{shown}:{}: {message}", line_of(&text, span)))
            };
            let table = DeTable::parse(&text)
                .map_err(|error| failed(error.message(), error.span()))?
                .into_inner();
            read_table(command, &[], &table, &text, &mut tables).map_err(|(problem, span)| {
                let error = failed(&problem.message, Some(span));
                match problem.hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            })?;
        }
        let file = defaults.file.as_ref().map(|path| path.display().to_string());
        let sources = Sources { variable: &variable, tables, file: file.unwrap_or_default() };
        sources.collect(command, &mut Vec::new(), &mut defaults.all)?;
        Ok(defaults)
    }

    /// Returns the defaults, by command.
    #[must_use]
    pub fn all(&self) -> &[DefaultValue] {
        &self.all
    }

    /// Returns the configuration file, if the user has a place for one, and whether it exists.
    #[must_use]
    pub fn file(&self) -> Option<(&std::path::Path, bool)> {
        Some((self.file.as_deref()?, self.has_file))
    }

    /// Returns the same command with these defaults, for a command line (the program's name first). A default that
    /// contradicts an option of the command line, or a default of higher precedence, is left out.
    #[must_use]
    pub fn apply(&self, command: Command, args: &[OsString]) -> Command {
        // Errors are ignored here: the parser that has the defaults reports them.
        let given = command.clone().ignore_errors(true).try_get_matches_from(args).ok();
        self.apply_at(command, given.as_ref(), &mut Vec::new())
    }

    fn apply_at(
        &self,
        mut command: Command,
        given: Option<&ArgMatches>,
        path: &mut Vec<String>,
    ) -> Command {
        let at = path.join(" ");
        let mut own: Vec<(clap::Id, &DefaultValue)> = Vec::new();
        for default in self.all.iter().filter(|default| default.command == at) {
            let found = command.get_arguments().find(|arg| is_named(arg, &default.option));
            own.extend(found.map(|arg| (arg.get_id().clone(), default)));
        }
        own.sort_by_key(|(_, default)| std::cmp::Reverse(default.rank));
        let mut set: Vec<clap::Id> = Vec::new();
        for (id, default) in own {
            let others = conflicting(&command, &id);
            if others.iter().any(|it| is_given(given, it) || set.contains(it)) {
                continue;
            }
            command = command
                .mut_arg(&id, |arg| arg.required(false).default_values(default.values.clone()));
            // A flag that is off contradicts nothing.
            if default.values != ["false"] {
                set.push(id);
            }
        }
        let names: Vec<String> =
            command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
        for name in names {
            path.push(name.clone());
            let below = given.and_then(|given| given.subcommand_matches(&name));
            command = command.mut_subcommand(&name, |sub| self.apply_at(sub, below, path));
            path.pop();
        }
        command
    }
}

/// Whether the command line has an argument.
fn is_given(given: Option<&ArgMatches>, id: &clap::Id) -> bool {
    given.is_some_and(|given| {
        given.ids().any(|it| it == id)
            && given.value_source(id.as_str()) == Some(ValueSource::CommandLine)
    })
}

/// Takes the user's defaults from a process of `endstop`.
pub fn clear(command: &mut process::Command) {
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && !RESERVED.iter().any(|reserved| name == *reserved) {
            command.env_remove(name);
        }
    }
    command.env(FILE_VARIABLE, "");
}

/// The places of defaults, and how they are asked.
struct Sources<'a, F> {
    variable: &'a F,
    tables: Vec<CommandTable>,
    file: String,
}

impl<F: Fn(&str) -> Option<OsString>> Sources<'_, F> {
    /// Collects the defaults of a command and its subcommands.
    fn collect(
        &self,
        command: &Command,
        path: &mut Vec<String>,
        all: &mut Vec<DefaultValue>,
    ) -> Result<(), CliError> {
        for arg in command.get_arguments().filter(|arg| has_default(arg)) {
            let Some(option) = arg.get_long() else { continue };
            let Some((values, origin, rank)) = self.of(path, option)? else { continue };
            let values = values.into_iter().map(|value| plain(arg, value)).collect::<Vec<_>>();
            check(arg, option, &values, &origin)?;
            let default = DefaultValue {
                command: path.join(" "),
                option: option.to_owned(),
                values,
                origin,
                rank,
            };
            all.push(default);
        }
        for sub in command.get_subcommands() {
            path.push(sub.get_name().to_owned());
            self.collect(sub, path, all)?;
            path.pop();
        }
        Ok(())
    }

    /// The value that holds for an option of the command at `path`, and where it is from.
    fn of(
        &self,
        path: &[String],
        option: &str,
    ) -> Result<Option<(Vec<String>, String, Rank)>, CliError> {
        let widest = match path {
            // The keys are where the gateways with this default look for them.
            [key, ..] if key == "key" && option == "budget-store" => 0,
            [key, set] if key == "key" && set == "set" && !PLACES_OF_KEY_SET.contains(&option) => 2,
            [first, ..] => usize::from(ACTING.contains(&first.as_str())),
            [] => 0,
        };
        let prefixes = (widest..=path.len()).rev().filter_map(|length| path.get(..length));
        for prefix in prefixes.clone() {
            let name = variable_of(prefix, option);
            if RESERVED.contains(&name.as_str()) {
                continue;
            }
            let Some(value) = (self.variable)(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let value = value
                .into_string()
                .map_err(|_| CliError::new(format!("{name} is not valid UTF-8")))?;
            let rank = Rank { is_variable: true, words: prefix.len() };
            return Ok(Some((vec![value], name, rank)));
        }
        let mut of_file = prefixes.filter_map(|prefix| {
            let table = self.tables.iter().find(|table| table.path == prefix)?;
            let (_, entry) = table.entries.iter().find(|(name, _)| name == option)?;
            Some((entry, Rank { is_variable: false, words: prefix.len() }))
        });
        let found = of_file.next();
        Ok(found.map(|(entry, rank)| {
            (entry.values.clone(), format!("{}:{}", self.file, entry.line), rank)
        }))
    }
}

/// The configuration file of the user: that of `ENDSTOP_CONFIG`, or the one in the configuration directory.
pub(crate) fn file_of(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(named) = variable(FILE_VARIABLE) {
        return (!named.is_empty()).then(|| PathBuf::from(named));
    }
    // Services without a home have a device in its place, such as `/dev/null`.
    let is_elsewhere = |path: &PathBuf| path.metadata().is_ok_and(|it| !it.is_dir());
    let absolute = |name| {
        let path = variable(name).map(PathBuf::from)?;
        (path.is_absolute() && !is_elsewhere(&path)).then_some(path)
    };
    let directory =
        absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(directory.join("endstop").join("config.toml"))
}

fn variable_of(path: &[String], option: &str) -> String {
    let words = path.iter().map(String::as_str).chain([option]);
    let words: Vec<String> =
        words.map(|word| word.to_ascii_uppercase().replace('-', "_")).collect();
    format!("{PREFIX}{}", words.join("_"))
}

/// Reads a table of the file into `tables`, its subtables too.
fn read_table(
    command: &Command,
    path: &[String],
    table: &DeTable<'_>,
    text: &str,
    tables: &mut Vec<CommandTable>,
) -> Result<(), (Box<CliError>, Range<usize>)> {
    let mut entries = Vec::new();
    for (key, value) in table {
        let name = key.get_ref().replace('_', "-");
        if let DeValue::Table(inner) = value.get_ref() {
            if path.is_empty() && OTHER_TABLES.contains(&name.as_str()) {
                continue;
            }
            let is_of_a_policy = Action::ALL.iter().any(|action| action.name() == name);
            let Some(sub) = command.find_subcommand(&name) else {
                if path.is_empty() && (is_of_a_policy || name == "rule") {
                    let error = CliError::new(format!("`[{name}]` is a section of a policy file"));
                    let error = error
                        .with_hint("write it into a file, and name the file: `policy = \"FILE\"`");
                    return Err((Box::new(error), key.span()));
                }
                let known = command.get_subcommands().map(Command::get_name);
                return Err((unknown("command", &name, known), key.span()));
            };
            let path = [path, &[sub.get_name().to_owned()]].concat();
            read_table(sub, &path, inner, text, tables)?;
            continue;
        }
        let known = options_below(command);
        if !known.contains(&name.as_str()) {
            return Err((unknown("option", &name, known), key.span()));
        }
        let Some(values) = values_of(value) else {
            let problem = format!("`{name}` needs a text, a number, `true` or `false`");
            return Err((Box::new(CliError::new(problem)), value.span()));
        };
        entries.push((name, DefaultEntry { values, line: line_of(text, Some(key.span())) }));
    }
    tables.push(CommandTable { path: path.to_vec(), entries });
    Ok(())
}

fn unknown<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Box<CliError> {
    let error = CliError::new(format!("unknown {kind} `{name}`"));
    let hint = did_you_mean(name, known);
    Box::new(error.with_hint(hint.unwrap_or_else(|| "see `endstop --help`".to_owned())))
}

/// The options of a command and its subcommands that can have a default.
fn options_below(command: &Command) -> Vec<&str> {
    let own = command.get_arguments().filter(|arg| has_default(arg)).filter_map(Arg::get_long);
    own.chain(command.get_subcommands().flat_map(options_below)).collect()
}

/// Whether an option can have a default: help and version are no settings.
fn has_default(arg: &Arg) -> bool {
    let asks = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    arg.get_long().is_some() && !asks
}

fn is_named(arg: &Arg, option: &str) -> bool {
    arg.get_long() == Some(option)
}

fn values_of(value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    match value.get_ref() {
        DeValue::Array(items) => {
            let items = items.iter().map(|item| match item.get_ref() {
                DeValue::Array(_) => None,
                _ => values_of(item),
            });
            Some(items.collect::<Option<Vec<_>>>()?.concat())
        }
        DeValue::Table(_) => None,
        DeValue::String(text) => Some(vec![text.to_string()]),
        // Numbers as they are written, so that an amount of money stays exact.
        DeValue::Integer(number) => Some(vec![number.to_string()]),
        DeValue::Float(number) => Some(vec![number.to_string()]),
        DeValue::Boolean(truth) => Some(vec![truth.to_string()]),
        DeValue::Datetime(time) => Some(vec![time.to_string()]),
    }
}

/// A value as the parser takes it: a flag's may be `1` or `0` in a variable.
fn plain(arg: &Arg, value: String) -> String {
    match (arg.get_action(), value.as_str()) {
        (ArgAction::SetTrue | ArgAction::SetFalse, "1") => "true".to_owned(),
        (ArgAction::SetTrue | ArgAction::SetFalse, "0") => "false".to_owned(),
        _ => value,
    }
}

/// Checks values as the command line would, so that an error names the place where they were written.
fn check(arg: &Arg, option: &str, values: &[String], origin: &str) -> Result<(), CliError> {
    let mut alone = Arg::new("value").long(option.to_owned());
    alone = alone.value_parser(arg.get_value_parser().clone()).allow_hyphen_values(true);
    alone = match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => alone.action(ArgAction::Set),
        action => alone.action(action.clone()),
    };
    if let Some(delimiter) = arg.get_value_delimiter() {
        alone = alone.value_delimiter(delimiter);
    }
    let words = values.iter().map(|value| format!("--{option}={value}"));
    let parsed =
        Command::new("endstop").no_binary_name(true).arg(alone).try_get_matches_from(words);
    parsed.map(drop).map_err(|error| {
        let value = values.join(", ");
        let why = std::error::Error::source(&error).map(causes);
        let rendered = error.render().to_string();
        let why = why.unwrap_or_else(|| {
            let lines = rendered.lines().take_while(|line| !line.is_empty()).map(str::trim);
            lines.collect::<Vec<_>>().join(" ").replacen("error: ", "", 1)
        });
        CliError::new(format!("{origin}: `{value}` is not a value of --{option}: {why}"))
    })
}

/// The arguments that cannot be given together with one.
fn conflicting(command: &Command, id: &clap::Id) -> Vec<clap::Id> {
    let mut others = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_global_set()) {
        let conflicts = command.get_arg_conflicts_with(arg).into_iter().map(Arg::get_id);
        if arg.get_id() == id {
            others.extend(conflicts.cloned());
        } else if conflicts.into_iter().any(|it| it == id) {
            others.push(arg.get_id().clone());
        }
    }
    for group in command.get_groups().filter(|&group| !group.clone().is_multiple()) {
        if group.get_args().any(|it| it == id) {
            others.extend(group.get_args().filter(|it| *it != id).cloned());
        }
    }
    others
}

/// The line of a place in the file, from 1.
fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start);
    text.get(..start).map_or(0, |before| before.matches('\n').count()) + 1
}

#[cfg(test)]
mod tests;
