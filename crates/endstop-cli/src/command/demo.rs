//! `endstop demo`: a runaway agent, as a separate program, first without limits and then under them.
//!
//! Both acts are `endstop run` over the scripted model that is built in: real processes, real HTTP, real prices.

mod act;
mod text;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use endstop::core::units::Money;

use super::limits::usd;
use crate::error::{CliError, ExitMeaning};
use crate::output;
use act::{Stage, play};
use text::Page;

const HELP: &str = "\
Examples:
  endstop demo
  endstop demo --usd 20
  endstop demo --json

Both acts run the same program under `endstop run`, without a key or a network.
The model is a script that asks for another search forever, at the prices of a
real model.";

/// Arguments of `endstop demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct DemoArgs {
    /// Stop at this many US dollars
    #[arg(long, value_name = "USD", default_value = "2.00", value_parser = usd, allow_negative_numbers = true)]
    usd: Money,
    /// Stop at this many steps
    #[arg(long, value_name = "N", default_value_t = 50)]
    steps: u64,
    /// Do not slow down for people to watch
    #[arg(long)]
    fast: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The limit of the planner
    #[arg(long, value_name = "N", default_value_t = 50, hide = true)]
    iterations: u64,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the output cannot be written, or an act not be played.
pub fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let is_watched = !args.fast && !args.json && !output::is_quiet() && io::stderr().is_terminal();
    let stage = Stage {
        usd: args.usd,
        steps: args.steps,
        iterations: args.iterations,
        is_watched,
        is_silent: args.json || output::is_quiet(),
    };
    if args.json {
        let (Some(first), Some(second)) = (play(&stage, true)?, play(&stage, false)?) else {
            return Ok(ExitCode::from(ExitMeaning::Interrupted.code()));
        };
        writeln!(out, "{}", text::json(&stage, &first, &second))?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = Page { columns: output::page_width() };
    show(out, &page.opening(&stage))?;
    let Some(first) = play(&stage, true)? else { return interrupted() };
    show(out, &page.first_act(&stage, &first))?;
    show(out, &page.between(&stage))?;
    let Some(second) = play(&stage, false)? else { return interrupted() };
    show(out, &page.second_act(&stage, &first, &second))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the text before the next program writes.
fn show(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn interrupted() -> Result<ExitCode, CliError> {
    Ok(ExitCode::from(ExitMeaning::Interrupted.code()))
}
