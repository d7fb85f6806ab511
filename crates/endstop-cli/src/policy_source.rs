//! Where a subcommand takes its policy from: a file, or an expression on the command line.

use std::path::{Path, PathBuf};

use endstop::core::expr::{Diagnostic, parse};
use endstop::core::limits::MAX_FILE;
use endstop::core::limits::MAX_TEXT;
use endstop::core::policy::Policy;

use crate::error::CliError;
use crate::input::read_text;

/// A policy file, or a stop expression: exactly one of them.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct PolicySource {
    /// The policy file (TOML)
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// A stop condition, in single quotes
    #[arg(long, value_name = "EXPR")]
    stop: Option<String>,
}

impl PolicySource {
    /// Reads the policy.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or what it says is not a policy.
    pub fn load(&self) -> Result<Policy, CliError> {
        match (&self.file, &self.stop) {
            (Some(file), _) => load_file(file),
            (None, Some(expression)) => load_expression(expression),
            (None, None) => Ok(Policy::default()),
        }
    }
}

/// Reads a policy file; each rule remembers it as its origin.
///
/// # Errors
/// Returns an error if the file cannot be read, or what it says is not a policy.
pub fn load_file(path: &Path) -> Result<Policy, CliError> {
    load_text(&read_file(path)?, &path.display().to_string())
}

/// Returns the text of a policy file, of which no more is read than one may have.
///
/// # Errors
/// Returns an error if the file cannot be read or is too large.
pub fn read_file(path: &Path) -> Result<String, CliError> {
    read_text(path, "policy file", MAX_FILE)
}

/// Reads a policy file's text; each rule remembers `origin`.
///
/// # Errors
/// Returns an error if what it says is not a policy.
pub fn load_text(text: &str, origin: &str) -> Result<Policy, CliError> {
    let mut policy = Policy::from_toml(text).map_err(|error| rendered(&error, text, origin))?;
    for rule in &mut policy.rules {
        rule.origin = Some(origin.to_owned());
    }
    for table in policy.budgets.values_mut() {
        table.origin = Some(origin.to_owned());
    }
    Ok(policy)
}

/// Reads a stop expression as a policy of one rule, `stop`.
///
/// # Errors
/// Returns an error if it is not an expression.
pub fn load_expression(text: &str) -> Result<Policy, CliError> {
    let condition = parse(text).map_err(|error| {
        let shown = if text.len() > MAX_TEXT { "" } else { text };
        rendered(&error, shown, "--stop")
    })?;
    Ok(Policy::stop(condition))
}

/// The error as the command prints its own: the cause first, then the place, then what to do.
pub(crate) fn rendered(error: &Diagnostic, text: &str, origin: &str) -> CliError {
    let place = Diagnostic { help: None, ..error.clone() }.render(text, origin, true);
    let snippet = place.split_once('\n').map_or("", |(_title, snippet)| snippet);
    let failed = CliError::new(error.message.as_str()).with_details(snippet);
    match &error.help {
        Some(help) => failed.with_hint(help.as_str()),
        None => failed,
    }
}
