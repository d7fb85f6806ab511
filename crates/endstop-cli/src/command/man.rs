//! `endstop man`: the man pages.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;

use crate::error::CliError;

/// Arguments of `endstop man`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  endstop man | man -l -
  endstop man completions | man -l -
  endstop man --out ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The subcommand [default: `endstop` itself]
    pub command: Option<String>,
    /// Write all pages into DIR; creates it
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

/// Prints one page, or writes all of them.
///
/// # Errors
///
/// Returns an error when the subcommand is unknown, or `out` or the directory cannot be written.
pub fn run(args: &ManArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let root = built_root();
    if let Some(directory) = &args.out {
        write_all_pages(&root, directory)?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = match &args.command {
        None => root,
        Some(name) => subcommand(&root, name)?,
    };
    Man::new(page).render(out)?;
    Ok(ExitCode::SUCCESS)
}

/// The command with the global options carried into every subcommand.
fn built_root() -> clap::Command {
    let mut root = crate::command().disable_help_subcommand(true);
    root.build();
    root
}

fn subcommand(root: &clap::Command, name: &str) -> Result<clap::Command, CliError> {
    root.find_subcommand(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
        CliError::new(format!("unknown subcommand `{name}`"))
            .with_hint(format!("the subcommands are {}", known.join(", ")))
    })
}

fn write_all_pages(root: &clap::Command, directory: &Path) -> Result<(), CliError> {
    fs::create_dir_all(directory).map_err(|error| CliError::cannot_write(directory, &error))?;
    for page in std::iter::once(root).chain(root.get_subcommands()) {
        let page = Man::new(page.clone());
        let file = directory.join(page.get_filename());
        let mut text = Vec::new();
        page.render(&mut text)?;
        fs::write(&file, text).map_err(|error| CliError::cannot_write(&file, &error))?;
    }
    Ok(())
}
