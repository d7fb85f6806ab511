//! How a subcommand fails, and what the exit codes mean.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use endstop::observe::clean_lines;
use endstop_gateway::control_source::{SourceError, SourceErrorKind};

use crate::output::{HELP_COLUMNS, is_quiet, wrapped};

/// How a process of `endstop` ends. The one table of exit codes: `--help` and the man page print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitMeaning {
    /// The work is done, or the check passed.
    Ok,
    /// The command ran, and its check failed.
    AnswerIsNo,
    /// Invalid arguments or unusable input; the argument parser uses the same code.
    Usage,
    /// A limit stopped or paused a run; `timeout` ends with the same code.
    Stopped,
    /// Endstop itself failed while it ran a command, or could not limit it; `timeout` ends with the same code.
    OwnFailure,
    /// The command cannot be executed.
    CannotExecute,
    /// There is no such command.
    NotFound,
    /// Ended by Ctrl-C. Shells report 128 + the number of the signal, so this process ends by that signal.
    Interrupted,
}

impl ExitMeaning {
    /// Every meaning, in the order of the codes.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::AnswerIsNo,
        Self::Usage,
        Self::Stopped,
        Self::OwnFailure,
        Self::CannotExecute,
        Self::NotFound,
        Self::Interrupted,
    ];

    /// Returns the code of the process.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::AnswerIsNo => 1,
            Self::Usage => 2,
            Self::Stopped => 124,
            Self::OwnFailure => 125,
            Self::CannotExecute => 126,
            Self::NotFound => 127,
            Self::Interrupted => 130,
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "success",
            Self::AnswerIsNo => {
                "the check failed: unbounded policy (check), not limited (doctor), unknown model (price), drift (replay --drift), \
                 no key (key list), not confirmed (kill); or the work failed: the run (agent), the budget store (budget)"
            }
            Self::Usage => "invalid arguments or unusable input",
            Self::Stopped => {
                "a limit stopped the run, or a rule paused it without an approval (run, agent)"
            }
            Self::OwnFailure => {
                "endstop failed, invalid arguments included, or model calls bypassed the gateway (run)"
            }
            Self::CannotExecute => "the command cannot be executed (run)",
            Self::NotFound => "the command was not found (run, doctor)",
            Self::Interrupted => "interrupted (Ctrl-C), unless the command handled it",
        }
    }

    /// Returns the table as plain text in lines of at most 80 columns.
    #[must_use]
    pub fn table() -> String {
        let mut table = String::from("Exit codes:");
        for meaning in Self::ALL {
            let row = format!("  {:<4} {}", meaning.code(), meaning.text());
            table.push('\n');
            table.push_str(wrapped(&row, HELP_COLUMNS, "       ").trim_end());
        }
        table
    }
}

/// Why a subcommand failed, as people read it on standard error.
///
/// ```
/// use endstop_cli::error::CliError;
///
/// let error = CliError::new("missing prompt").with_hint("pass it in quotes");
/// assert_eq!(error.message, "missing prompt");
/// assert_eq!(error.exit_code(), 2.into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliError {
    /// The error: lower case, no final stop, input in backticks.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The code of the process, from [`ExitMeaning`].
    pub code: u8,
    /// Text printed as it is between message and hint, such as a snippet of the input with carets.
    pub details: Option<String>,
}

impl CliError {
    /// Unusable input or arguments: exit code 2.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: ExitMeaning::Usage.code(), details: None }
    }

    /// A file or directory that cannot be written.
    #[must_use]
    pub fn cannot_write(path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot write `{}`: {error}", path.display()))
    }

    /// Unusable input, from the text of an error that ends with what to do: `x is not a time: write 10m`.
    #[must_use]
    pub fn with_advice(text: &str) -> Self {
        for (between, begin) in
            [(": ", "write "), ("; ", "did you mean "), (": ", "add "), ("; ", "add ")]
        {
            let end = format!("{between}{begin}");
            if let Some((message, advice)) = text.split_once(end.as_str()) {
                return Self::new(message).with_hint(format!("{begin}{advice}"));
            }
        }
        Self::new(text)
    }

    /// The same error, with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error, with text that is printed as it is.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = Some(details.into());
        self
    }

    /// The same error, ending the process with the code of `meaning`.
    #[must_use]
    pub fn with_exit(mut self, meaning: ExitMeaning) -> Self {
        self.code = meaning.code();
        self
    }

    /// The same error for a caller that answers by its kind, such as the control API.
    #[must_use]
    pub fn into_source(self, kind: SourceErrorKind) -> SourceError {
        SourceError { kind, message: self.message, details: self.details, hint: self.hint }
    }

    /// Code of the process.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// Prints `error: …`, the details and `hint: …` on standard error.
    pub fn print(&self) {
        self.print_with("error", AnsiColor::Red, &self.message);
    }

    /// Prints `warning: CONTEXT: …`, the details and `hint: …` on standard error, unless `--quiet`: for an error that ends
    /// nothing.
    pub fn print_as_warning(&self, context: &str) {
        if !is_quiet() {
            let message = format!("{context}: {}", self.message);
            self.print_with("warning", AnsiColor::Yellow, &message);
        }
    }

    fn print_with(&self, word: &str, color: AnsiColor, message: &str) {
        let bold = Style::new().bold().fg_color(Some(color.into()));
        let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        let mut text = format!("{bold}{word}:{bold:#} {}\n", clean_lines(message));
        if let Some(details) = &self.details {
            // Excerpts of the user's policies and expressions, with colors of this program.
            text.push_str(details.trim_end_matches('\n'));
            text.push('\n');
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{cyan}hint:{cyan:#} {}", clean_lines(hint));
        }
        // There is nowhere left to report a standard error that cannot be written.
        let _ = anstream::stderr().write_all(text.as_bytes());
    }
}

/// Returns the text of an error, with each of its causes that it does not name itself: `cannot open x: no such file`.
#[must_use]
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

impl From<io::Error> for CliError {
    /// For writes to standard output, which have no path. Errors of files are created by code that knows the path.
    fn from(error: io::Error) -> Self {
        Self::new(format!("cannot write the output: {error}"))
    }
}

impl From<SourceError> for CliError {
    /// For answers that a command shares with the control API of `endstop serve`.
    fn from(error: SourceError) -> Self {
        let code = match error.kind {
            SourceErrorKind::Failed | SourceErrorKind::Away => ExitMeaning::AnswerIsNo,
            _ => ExitMeaning::Usage,
        };
        Self { details: error.details, hint: error.hint, ..Self::new(error.message) }
            .with_exit(code)
    }
}
