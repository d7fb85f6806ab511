//! What a command says when it fails.

use std::fmt;

/// A failure of a command: printed on standard error as `error: ..` and `hint: ..`.
#[derive(Debug)]
pub(crate) struct CliError {
    /// Lower case, without a final stop.
    pub(crate) message: String,
    /// What may help.
    pub(crate) hint: Option<String>,
    /// The exit code.
    pub(crate) code: u8,
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| writeln!(f, "hint: {hint}"))
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self { message: format!("cannot write: {error}"), hint: None, code: 2 }
    }
}
