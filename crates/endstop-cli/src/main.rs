//! The `endstop` command.

mod command;
mod error;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Stop conditions for agent loops: replay, check and explain policies; price model calls.
#[derive(Debug, Parser)]
#[command(name = "endstop", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Price(command::price::Args),
}

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let result = match Cli::parse().command {
        Command::Price(args) => command::price::run(&args, &mut out),
    };
    result.and_then(|code| Ok(out.flush().map(|()| code)?)).unwrap_or_else(|error| {
        // Nobody is left to tell where standard error is closed too.
        let _ = write!(std::io::stderr(), "{error}");
        ExitCode::from(error.code)
    })
}
