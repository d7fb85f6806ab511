//! `endstop demo`: an hour of a runaway agent in a second, without and with a budget that binds its
//! sub-agents.

mod pace;
mod scene;
mod text;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use endstop::core::units::Money;
use endstop::observe::{Observer, Screen, StatusLine};

use crate::error::CliError;
use crate::output;
use pace::Pace;
use scene::{Act, ITERATIONS, play};
use text::Page;

const HELP: &str = "\
Examples:
  endstop demo
  endstop demo --usd 20
  endstop demo --json --fast

The loop, its tools, prices and ledger are the real ones. The model is a script that asks no network,
and time is simulated: every run counts the same.";

/// Arguments of `endstop demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The limit of the second act, in dollars
    #[arg(long, value_name = "USD", default_value = "2.00", value_parser = super::limits::usd, allow_negative_numbers = true)]
    usd: Money,
    /// Do not slow down for people to watch; nor is it where standard error is no terminal
    #[arg(long)]
    fast: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How long people watch an act, at the most.
const WATCHED: Duration = Duration::from_secs(3);

/// Runs the command.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let is_watched = !args.fast && !args.json && !output::is_quiet() && io::stderr().is_terminal();
    let capped = format!("own.steps >= {ITERATIONS}");
    let limited = format!("cost >= {} or {capped}", args.usd);
    if args.json {
        let acts = [play(&capped, Vec::new())?, play(&limited, Vec::new())?];
        writeln!(out, "{}", text::json(&acts, args.usd))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut show = |text: String| -> io::Result<()> {
        out.write_all(text.as_bytes())?;
        out.flush()
    };
    let page = Page { columns: output::page_width() };
    show(page.opening(&capped))?;
    let first = watched(&capped, is_watched, Duration::from_millis(2))?;
    show(page.first_act(&first))?;
    show(page.between(&limited))?;
    let second = watched(&limited, is_watched, Duration::from_millis(150))?;
    show(page.second_act(&first, &second, args.usd))?;
    Ok(ExitCode::SUCCESS)
}

/// Plays an act with a status line, slowed down to `each` a reply, if anyone watches.
fn watched(stop: &str, is_watched: bool, each: Duration) -> Result<Act, CliError> {
    let mut observers: Vec<Arc<dyn Observer>> = Vec::new();
    if is_watched {
        let screen = Arc::new(Screen::stderr());
        observers.push(Arc::new(StatusLine::on(screen).width(output::error_width)));
        observers.push(Arc::new(Pace::new(each, WATCHED)));
    }
    play(stop, observers)
}
