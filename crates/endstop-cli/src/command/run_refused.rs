//! `endstop run` and `endstop demo` on systems where they do not work yet: both say why.
//!
//! They need process groups, signals and the terminal as Unix has them: without these, what the command
//! began could not be ended when a limit is reached.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::error::{CliError, ExitMeaning};

/// Any arguments, so that the reason is printed whatever they are.
#[derive(Debug, clap::Args)]
pub struct RefusedArgs {
    /// Not used on this system
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

/// Refuses the command `name`.
///
/// # Errors
/// Always.
pub(super) fn refuse(name: &str) -> Result<ExitCode, CliError> {
    let error = CliError::new(format!(
        "`endstop {name}` works on Linux and macOS only: it cannot end the processes of a command here"
    ));
    Err(error
        .with_hint("start `endstop serve` and point the agent at its address")
        .with_exit(ExitMeaning::OwnFailure))
}

#[cfg(test)]
mod tests;
