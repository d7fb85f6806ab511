//! The command `endstop`: it stops LLM agents at their limits, prices model calls, and replays policies over
//! transcripts.
//!
//! An agent that loops spends money until a person notices. `endstop run --usd 2 -- my-agent` puts a limit on a program
//! without a change to it; the other subcommands help to choose the limit. All of the command is in this library, so
//! that reference pages, completions and man pages are generated from it.
//!
//! ```
//! use std::process::ExitCode;
//!
//! // The same as `endstop price claude-sonnet-4-5 --input 12000 --output 800` in a shell.
//! let line = "endstop price claude-sonnet-4-5 --input 12000 --output 800";
//! let args = line.split(' ').map(Into::into).collect();
//! assert_eq!(endstop_cli::main(args), ExitCode::SUCCESS);
//!
//! let subcommands = endstop_cli::command();
//! assert!(subcommands.find_subcommand("replay").is_some());
//! ```
//!
//! Data goes to standard output; warnings, progress, `error:` and `hint:` go to standard error. Color alone never
//! carries information. To add a subcommand: one file in `command/` and its rows in `command.rs`.
//!
//! # Features
//!
//! - `models`: model providers over HTTP, for `endstop agent --model ..`.
//! - `otel`: OpenTelemetry GenAI spans and metrics.
//!
//! # Where next
//!
//! Install it with `cargo install endstop-cli`. The repository has guides (`docs/guide/coding-agent.md`, `docs/guide/find-limits.md`) and
//! the reference of all options (`docs/cli.md`). Your own program can use the parts: see the crates `endstop` (an agent
//! loop) and `endstop-gateway`. The minimum Rust version is 1.95.

#[cfg(unix)]
mod adapter;
mod budgets;
pub mod command;
pub mod defaults;
mod duration;
mod epoch;
pub mod error;
mod history;
mod input;
mod keys;
mod kills;
mod limits;
#[cfg(unix)]
mod live;
pub mod output;
pub mod policy_source;
mod usage;
mod webhook;
mod who;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser};

use crate::command::Command;
use crate::defaults::Defaults;
use crate::error::{CliError, ExitMeaning};
use crate::output::Settings;
use crate::usage::usage_error;

const EXAMPLES: &str = "\
Examples:
  endstop run --usd 2 --steps 25 -- my-agent \"fix the bug\"
  endstop demo
  endstop serve --usd 2 --total-usd 100
  endstop agent --model scripted:loop --steps 5 \"try a limit offline\"
  endstop replay --stop 'steps >= 50 or cost >= $1.00'
  endstop check policy.toml
  endstop ps
  endstop explain session.jsonl --policy policy.toml
  endstop convert session.jsonl --to atif
  endstop price claude-sonnet-4-5 --input 12000 --output 800
  endstop completions bash > ~/.local/share/bash-completion/completions/endstop
  endstop man --out ~/.local/share/man/man1";

/// Where the command works.
const SYSTEMS: &str = "\
Systems: Linux and macOS. On Windows `run` and `demo` are refused, and the rest is untested.";

/// The root of the command line.
#[derive(Debug, Parser)]
#[command(
    name = "endstop",
    version,
    about = "Stop LLM agents before they overspend or loop",
    after_help = "See `endstop --help` for examples and exit codes.",
    arg_required_else_help = true,
    disable_help_subcommand = false
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// The options that every subcommand takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Color: auto, always or never
    ///
    /// NO_COLOR in the environment counts as `never` under `auto`.
    #[arg(hide_possible_values = true, long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    /// Print only errors on standard error
    #[arg(short, long, global = true)]
    quiet: bool,
}

/// Returns the whole command with its help texts, for completions, man pages and the reference page.
#[must_use]
pub fn command() -> clap::Command {
    let after = format!("{EXAMPLES}\n\n{}\n\n{SYSTEMS}", ExitMeaning::table());
    Cli::command().max_term_width(output::HELP_COLUMNS).after_long_help(after)
}

/// Runs the command line `args` (the program's name first) and says how the process ends.
///
/// A reader of standard output that disconnects ends the command quietly with code 0.
#[must_use]
pub fn main(args: Vec<OsString>) -> ExitCode {
    // Errors about the arguments themselves are colored too, so the choice is needed before parsing.
    output::set_color(color_asked_for(&args));
    // A command that is run may exit with any code, so invalid arguments have a separate one there.
    let misused = match first_word(&args) {
        Some("run") => ExitMeaning::OwnFailure,
        _ => ExitMeaning::Usage,
    };
    let with_defaults = match Defaults::load(&command(), |name| std::env::var_os(name)) {
        Ok(defaults) => defaults.apply(command(), &args),
        // To stop a run needs no settings.
        Err(error) if first_word(&args).is_none_or(|word| WITHOUT_DEFAULTS.contains(&word)) => {
            output::warn(&error.message);
            command()
        }
        Err(error) => {
            error.with_exit(misused).print();
            return ExitCode::from(misused.code());
        }
    };
    let parsed = with_defaults.try_get_matches_from(args.clone()).and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage_answer(&error, misused, &args),
    };
    output::set_color(cli.global.color);
    output::init(Settings { quiet: cli.global.quiet });
    let mut out = output::Stdout::new();
    let result = cli.command.run(&mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    if out.reader_is_gone() {
        return ExitCode::SUCCESS;
    }
    result.unwrap_or_else(|error| {
        error.print();
        error.exit_code()
    })
}

/// Commands that work with a configuration file that cannot be read.
const WITHOUT_DEFAULTS: [&str; 6] = ["ps", "show", "cancel", "kill", "pause", "help"];

/// Prints what the argument parser answers: help and version on standard output, errors on standard error.
fn usage_answer(answer: &clap::Error, misused: ExitMeaning, args: &[OsString]) -> ExitCode {
    let text = answer.render().ansi().to_string();
    if answer.use_stderr() {
        match usage_error(answer, &command(), args) {
            Some(error) => error.print(),
            // There is nowhere left to report a standard error that cannot be written.
            None => {
                let _ = anstream::stderr().write_all(text.as_bytes());
            }
        }
        return ExitCode::from(misused.code());
    }
    let mut out = output::Stdout::new();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if !out.reader_is_gone() => {
            let error = CliError::from(error);
            error.print();
            error.exit_code()
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The subcommand before the arguments have been parsed.
fn first_word(args: &[OsString]) -> Option<&str> {
    let mut words = args.iter().skip(1).map_while(|word| word.to_str());
    while let Some(word) = words.next() {
        match word {
            "--color" => drop(words.next()),
            option if option.starts_with('-') => {}
            word => return Some(word),
        }
    }
    None
}

/// The value of `--color` before the arguments have been parsed; `auto` if it is absent or wrong.
fn color_asked_for(args: &[OsString]) -> ColorChoice {
    let mut words =
        args.iter().skip(1).map_while(|word| word.to_str()).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => continue,
        };
        return match value {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            _ => ColorChoice::Auto,
        };
    }
    ColorChoice::Auto
}

#[cfg(test)]
#[path = "../../../tests/support/golden.rs"]
mod golden_file;
#[cfg(test)]
mod tests;
