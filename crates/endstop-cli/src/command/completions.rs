//! `endstop completions`: the completion script of a shell.

use std::io::Write;
use std::process::ExitCode;

use clap_complete::{Shell, generate};

use crate::error::CliError;

/// Arguments of `endstop completions`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  endstop completions bash > ~/.local/share/bash-completion/completions/endstop
  endstop completions zsh > ~/.zfunc/_endstop
  endstop completions fish > ~/.config/fish/completions/endstop.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
///
/// Returns an error when `out` cannot be written.
pub fn run(args: &CompletionsArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    // The generator aborts on a failed write, so it writes to memory first.
    let mut script = Vec::new();
    generate(args.shell, &mut crate::command(), "endstop", &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
