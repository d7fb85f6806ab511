//! The user's history: which processes write it, and where it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use endstop::observe::Observer;
use endstop::runtime::history::{History, HistoryError, HistoryOrigin, HistoryRecorder};

use crate::budgets::state_directory;
use crate::duration::span;
use crate::error::CliError;
use crate::output;

/// The file of the history in the state directory.
const FILE: &str = "history.sqlite";

/// The variable by which a command of `endstop run` finds its gateway.
const GATEWAY_VARIABLE: &str = "ENDSTOP_BASE_URL";

/// Whether a process records its calls, and how long the history has them.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct HistoryArgs {
    /// Do not record calls in the history
    ///
    /// `endstop spend` and `endstop show` read the history of this user, history.sqlite in the state directory. It has the
    /// tokens and the cost of each call, and acts such as a pause, but no prompts and no responses.
    #[arg(long)]
    no_history: bool,
    /// Remove older calls from the history: `400d`
    ///
    /// Older calls and acts are removed when this process first writes the history, and then once a day. Without it they
    /// stay until `endstop prune`. `history-for` in the configuration file is for all commands.
    #[arg(long, value_name = "TIME", value_parser = span)]
    history_for: Option<Duration>,
}

/// The history as this process writes it, if it does.
#[derive(Debug, Default)]
pub(crate) struct RunHistory(Option<Arc<HistoryRecorder>>);

impl HistoryArgs {
    /// The history for the runs of a process of this kind. Nothing is opened before the first call.
    ///
    /// Calls of a scripted model are not recorded, because they cost nothing. `is_nested` says whether the calls go through the
    /// Endstop that runs this process, if one does: that one records them.
    pub(crate) fn open(
        self,
        kind: &str,
        program: &str,
        is_scripted: bool,
        is_nested: bool,
    ) -> RunHistory {
        let has_gateway = || std::env::var_os(GATEWAY_VARIABLE).is_some_and(|it| !it.is_empty());
        if self.no_history || is_scripted || (is_nested && has_gateway()) {
            return RunHistory(None);
        }
        let Some(file) = path() else {
            output::warn(
                "no directory for the history: neither XDG_STATE_HOME nor HOME is set; --no-history does without",
            );
            return RunHistory(None);
        };
        let directory = std::env::current_dir().unwrap_or_default();
        let origin = HistoryOrigin {
            kind: kind.to_owned(),
            program: program.to_owned(),
            directory: directory.to_string_lossy().into_owned(),
        };
        let mut recorder = HistoryRecorder::new(file, origin).on_failure(|error| {
            output::warn(&format!("a call is not yet in the history: {error}"))
        });
        // Their gateways settle many calls.
        if matches!(kind, "serve" | "run") {
            recorder = recorder.through_journal();
        }
        if let Some(length) = self.history_for {
            recorder = recorder.keep_for(length);
        }
        RunHistory(Some(Arc::new(recorder)))
    }
}

impl RunHistory {
    /// The observer of the runs of this process.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        let recorder = self.0.as_ref()?;
        Some(Arc::clone(recorder) as Arc<dyn Observer>)
    }

    /// Tries again to write calls that wait, and warns if some are lost.
    pub(crate) fn end(&self) {
        let missing = self.0.as_ref().map_or(0, |recorder| recorder.finish());
        if missing > 0 {
            let entries = output::count(missing);
            output::warn(&format!("calls and acts that are missing in the history: {entries}"));
        }
    }
}

fn path() -> Option<PathBuf> {
    state_directory().map(|directory| directory.join(FILE))
}

/// The history of this user. `None` if nothing was ever recorded.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read() -> Result<Option<History>, CliError> {
    path().map_or(Ok(None), |file| History::open(file).map_err(|error| history_error(&error)))
}

/// An error of the history, with what to do about it.
pub(crate) fn history_error(error: &HistoryError) -> CliError {
    let shown = CliError::with_advice(&error.to_string());
    match error {
        HistoryError::Damaged { path, .. } => shown.with_hint(format!(
            "move `{}` away: a new history begins with the next call",
            path.display()
        )),
        HistoryError::Newer { .. } => {
            CliError::new(error.to_string()).with_hint("install the latest version of Endstop")
        }
        _ => shown,
    }
}
