//! Errors of the command line itself: the parser's, in the form of all others, with what to do about each.

use std::error::Error as _;
use std::ffi::OsString;
use std::net::AddrParseError;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use endstop::core::expr::did_you_mean;

use crate::error::CliError;

/// Options of other programs, and their names and example values here.
const GUESSES: &[(&[&str], &str, &str)] = &[
    (
        &[
            "--max-usd",
            "--max-cost",
            "--cost",
            "--max-budget",
            "--max-budget-usd",
            "--dollars",
            "--max-dollars",
            "--max-spend",
            "--limit",
        ],
        "--usd",
        "2",
    ),
    (
        &[
            "--max-steps",
            "--max-turns",
            "--max-iterations",
            "--max-iter",
            "--recursion-limit",
            "--turns",
        ],
        "--steps",
        "50",
    ),
    (&["--max-tokens", "--token-limit", "--token-budget"], "--tokens", "200k"),
    (&["--time", "--max-time", "--time-limit", "--deadline", "--duration"], "--timeout", "10m"),
    (&["--summary", "--report", "--output", "--json-output"], "--json-file", "summary.json"),
];

/// Words that people write for a subcommand, and what to do instead.
const GUESSED_SUBCOMMANDS: &[(&[&str], &str)] = &[
    (
        &["stop", "end", "abort", "terminate"],
        "`endstop cancel RUN` stops a live run, `endstop kill RUN` also aborts its calls",
    ),
    (&["list", "ls", "status", "runs", "top"], "`endstop ps` lists the live runs"),
    (&["logs", "log", "watch", "follow", "attach"], "`endstop tail RUN` follows a live run"),
    (&["start", "exec", "wrap", "limit"], "write `endstop run --usd 2 -- my-agent`"),
    (&["proxy", "gateway", "server", "listen"], "write `endstop serve --usd 2`"),
    (&["cost", "costs", "usage", "stats", "report"], "`endstop spend` prints what runs cost"),
    (&["validate", "lint", "verify", "policy"], "write `endstop check policy.toml`"),
    (&["suggest", "recommend"], "write `endstop replay --suggest`"),
    (&["version"], "write `endstop --version`"),
];

/// The parser's error in the form of all others; `None` if it prints help instead.
pub(crate) fn usage_error(
    answer: &clap::Error,
    root: &clap::Command,
    args: &[OsString],
) -> Option<CliError> {
    if answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    let place = NamedCommand::of(root, args);
    Some(match answer.kind() {
        ErrorKind::UnknownArgument => unknown_argument(answer, root, &place, args),
        ErrorKind::InvalidSubcommand => unknown_subcommand(answer, &place),
        ErrorKind::MissingRequiredArgument => missing(answer, &place),
        ErrorKind::ArgumentConflict if answer.get(ContextKind::InvalidSubcommand).is_some() => {
            extra_word(answer, &place, args)
        }
        _ => other(answer, &place),
    })
}

/// The subcommand that a command line is for.
struct NamedCommand<'c> {
    /// As it is written: `endstop key new`.
    words: String,
    command: &'c clap::Command,
}

impl<'c> NamedCommand<'c> {
    fn of(root: &'c clap::Command, args: &[OsString]) -> Self {
        let mut place = Self { words: "endstop".to_owned(), command: root };
        let words = args.iter().skip(1).map_while(|word| word.to_str());
        for word in words.take_while(|word| *word != "--").filter(|word| !word.starts_with('-')) {
            match place.command.find_subcommand(word) {
                Some(found) => {
                    place.words.push_str(&format!(" {word}"));
                    place.command = found;
                }
                // At the root it may be the value of `--color`.
                None if place.command.get_name() == root.get_name() => {}
                None => break,
            }
        }
        place
    }

    fn help(&self) -> String {
        format!("`{} --help` lists the options", self.words)
    }

    /// Its examples, as its help has them.
    fn examples(&self) -> Vec<String> {
        let help = self.command.get_after_help().or_else(|| self.command.get_after_long_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        let examples = lines.take_while(|line| line.starts_with(' '));
        examples.map(|line| line.trim().to_owned()).collect()
    }

    fn has_option(&self, option: &str) -> bool {
        let name = option.trim_start_matches('-');
        self.command.get_arguments().any(|arg| arg.get_long() == Some(name))
    }
}

fn context(answer: &clap::Error, kind: ContextKind) -> Option<String> {
    match answer.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

fn unknown_argument(
    answer: &clap::Error,
    root: &clap::Command,
    place: &NamedCommand<'_>,
    args: &[OsString],
) -> CliError {
    let option = context(answer, ContextKind::InvalidArg).unwrap_or_default();
    let error = CliError::new(format!("unexpected argument `{option}`"));
    if place.command.get_name() == root.get_name() && option.starts_with("--") {
        return error.with_hint(
            "options of limits follow the subcommand: `endstop run --usd 2 -- my-agent`",
        );
    }
    if option == "--port" && place.has_option("--listen") {
        return error.with_hint(format!(
            "write `--listen 127.0.0.1:{}`",
            value_of(&option, args).unwrap_or("8484")
        ));
    }
    if let Some(hint) = guessed(&option, place, args) {
        return error.with_hint(hint);
    }
    if let Some(long) = spelled_with_one_dash(&option, place, args) {
        return error.with_hint(format!("write `{long}`"));
    }
    if let Some(suggested) = context(answer, ContextKind::SuggestedArg) {
        return error.with_hint(format!("did you mean `{suggested}`?"));
    }
    match place.command.get_arguments().any(clap::Arg::is_trailing_var_arg_set) {
        true => error.with_hint(format!("options of your command go after `--`; {}", place.help())),
        false => error.with_hint(place.help()),
    }
}

/// The replacement for an option of another program, with the value that the user gave it, or an example.
fn guessed(option: &str, place: &NamedCommand<'_>, args: &[OsString]) -> Option<String> {
    let (_, right, example) = GUESSES.iter().find(|(names, _, _)| names.contains(&option))?;
    place.has_option(right).then_some(())?;
    let value = value_of(option, args);
    let value = value.filter(|value| value.starts_with(|first: char| first.is_ascii_digit()));
    Some(format!("write `{right} {}`", value.unwrap_or(example)))
}

/// The value after an option, or after its `=`.
fn value_of<'a>(option: &str, args: &'a [OsString]) -> Option<&'a str> {
    let mut words = args.iter().map_while(|word| word.to_str());
    let word = words.find(|word| word.split('=').next() == Some(option))?;
    let joined = word.split_once('=').map(|(_, value)| value);
    joined.or_else(|| words.next()).filter(|value| !value.starts_with('-'))
}

/// `--usd`, if `-usd` was written.
fn spelled_with_one_dash(
    option: &str,
    place: &NamedCommand<'_>,
    args: &[OsString],
) -> Option<String> {
    let is_short = option.len() == 2 && option.starts_with('-');
    let mut words = args.iter().filter_map(|word| word.to_str());
    let word = words.find(|word| is_short && word.len() > 2 && word.starts_with(option))?;
    let long = format!("-{}", word.split('=').next().unwrap_or_default());
    place.has_option(&long).then_some(long)
}

fn unknown_subcommand(answer: &clap::Error, place: &NamedCommand<'_>) -> CliError {
    let word = context(answer, ContextKind::InvalidSubcommand).unwrap_or_default();
    let error = CliError::new(format!("unknown subcommand `{word}`"));
    let names = place.command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let names = names.map(clap::Command::get_name);
    let is_root = place.words == "endstop";
    let guess = GUESSED_SUBCOMMANDS.iter().find(|(words, _)| words.contains(&word.as_str()));
    match guess.filter(|_| is_root) {
        Some((_, hint)) => error.with_hint(*hint),
        None => match did_you_mean(&word, names) {
            Some(hint) => error.with_hint(hint),
            None if is_root => error.with_hint(
                "`endstop --help` lists the subcommands; `endstop run -- COMMAND` runs a program",
            ),
            None => error.with_hint(place.help()),
        },
    }
}

/// A further word behind the argument of a command that has subcommands as well: the first word may be a misspelled one.
fn extra_word(answer: &clap::Error, place: &NamedCommand<'_>, args: &[OsString]) -> CliError {
    let word = context(answer, ContextKind::InvalidSubcommand).unwrap_or_default();
    let error = CliError::new(format!("unexpected `{word}`"));
    if place.command.find_subcommand(&word).is_some() {
        return error.with_hint(format!("`{word}` comes first: `{} {word}`", place.words));
    }
    let words = args.iter().filter_map(|word| word.to_str());
    let first = words.filter(|word| !word.starts_with('-')).nth(place.words.split(' ').count());
    let names = place.command.get_subcommands().map(clap::Command::get_name);
    let guess = first.and_then(|first| did_you_mean(first, names));
    error.with_hint(guess.unwrap_or_else(|| place.help()))
}

fn missing(answer: &clap::Error, place: &NamedCommand<'_>) -> CliError {
    if place.words == "endstop run" {
        let error = CliError::new("missing command");
        return error.with_hint("put it last: `endstop run --usd 2 -- my-agent`");
    }
    let names = match answer.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.join("`, `"),
        Some(ContextValue::String(name)) => name.clone(),
        _ => String::new(),
    };
    let error = CliError::new(format!("missing argument `{names}`"));
    // The first example need not have an option that another one requires.
    let option = names.split(' ').next().filter(|word| word.starts_with("--")).unwrap_or_default();
    let mut examples = place.examples().into_iter();
    match examples.find(|example| example.contains(option)) {
        Some(example) => error.with_hint(format!("for example `{example}`")),
        None => error.with_hint(place.help()),
    }
}

/// The first paragraph of any other error, with its last clause as the hint if it says what to do.
fn other(answer: &clap::Error, place: &NamedCommand<'_>) -> CliError {
    let rendered = answer.render().to_string();
    let lines = rendered.lines().take_while(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.trim_start().starts_with("[possible values"));
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let text = in_backticks(text.strip_prefix("error: ").unwrap_or(&text));
    if answer.source().is_some_and(|source| source.is::<AddrParseError>()) {
        let text = text.replace(": invalid socket address syntax", "");
        return CliError::new(text).with_hint("write an address such as `127.0.0.1:8484`");
    }
    if let Some(suggested) = context(answer, ContextKind::SuggestedValue) {
        return CliError::new(text).with_hint(format!("did you mean `{suggested}`?"));
    }
    if let Some(ContextValue::Strings(values)) = answer.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        return CliError::new(text).with_hint(format!("write one of {}", values.join(", ")));
    }
    let error = CliError::with_advice(&text);
    match error.hint {
        Some(_) => error,
        None => error.with_hint(place.help()),
    }
}

/// Quotes input in backticks, as all other messages do. Apostrophes within words stay.
fn in_backticks(text: &str) -> String {
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    let mut quoted = String::with_capacity(text.len());
    while let Some(character) = rest.next() {
        let is_within =
            before.is_alphabetic() && rest.peek().is_some_and(|next| next.is_alphabetic());
        quoted.push(if character == '\'' && !is_within { '`' } else { character });
        before = character;
    }
    quoted
}

#[cfg(test)]
mod tests;
