//! The store of runs: its place, its contents, and the run to continue.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use endstop::agent::AgentState;
use endstop::core::run::Status;
use endstop::message::Message;
use endstop::observe::clean;
use endstop::store::{FileStore, RunId, Store, StoreError, Version};
use serde_json::{Value, json};

use super::setup;
use crate::budgets::state_directory;
use crate::error::{CliError, ExitMeaning, causes};
use crate::limits::MAX_LISTED_RUNS;
use crate::output::{self, count, money};

/// The store in a directory, or in the one for state of the user's programs.
pub(in crate::command) fn open(directory: Option<&Path>) -> Result<Arc<dyn Store>, CliError> {
    let directory = match directory {
        Some(directory) => directory.to_owned(),
        None => default_directory().ok_or_else(|| {
            CliError::new("no directory for stored runs: neither XDG_STATE_HOME nor HOME is set")
                .with_hint("name one with --store, or keep nothing with --no-store")
        })?,
    };
    let store = FileStore::open(directory).map_err(|error| {
        failed(&error)
            .with_hint("name another directory with --store, or store nothing with --no-store")
    })?;
    Ok(Arc::new(store))
}

fn default_directory() -> Option<PathBuf> {
    state_directory().map(|directory| directory.join("runs"))
}

pub(in crate::command) fn failed(error: &StoreError) -> CliError {
    let shown = CliError::new(causes(error)).with_exit(ExitMeaning::AnswerIsNo);
    match error {
        StoreError::Newer { .. } => shown.with_hint("install the latest version of Endstop"),
        _ => shown,
    }
}

/// The stored state of a run, by its name, or the newest as `last`.
pub(super) async fn find(store: &dyn Store, run: &str) -> Result<AgentState, CliError> {
    let hint = "`endstop agent --runs` lists the runs";
    let id = if run == "last" {
        let newest = store.list().await.map_err(|error| failed(&error))?.into_iter().next();
        newest.ok_or_else(|| CliError::new("no stored run"))?.id
    } else {
        RunId::parse(run).map_err(|error| CliError::new(causes(&error)).with_hint(hint))?
    };
    let stored = store.load(&id).await.map_err(|error| failed(&error))?;
    let stored =
        stored.ok_or_else(|| CliError::new(format!("no stored run `{id}`")).with_hint(hint))?;
    AgentState::from_json(&stored.text).map_err(|error| CliError::new(causes(&error)))
}

/// Whether a run has ended permanently, so that only its conversation can continue, in a new run.
///
/// # Errors
/// Returns an error if it has nothing to continue with.
pub(super) fn has_ended(state: &AgentState, has_prompt: bool) -> Result<bool, CliError> {
    let is_final = matches!(state.status(), Status::Stopped | Status::Failed);
    let has_ended = is_final || state.status() == Status::Completed;
    if has_prompt || !has_ended {
        return Ok(has_ended);
    }
    let reason = state.stop_reason().map_or("", |reason| reason.value());
    let problem = format!("run `{}` has ended ({reason})", state.id);
    let hint = if is_final {
        "raise the limit with --stop or --policy to continue it, or give a prompt to begin a new run with its \
         conversation"
    } else {
        "give a prompt to begin a new run with its conversation"
    };
    Err(CliError::new(problem).with_hint(hint))
}

/// Stores a run that is about to begin, so that it can continue even if the process dies in its first step.
///
/// # Errors
/// Returns an error if the store does not take it.
pub(super) async fn begin(store: &dyn Store, state: &AgentState) -> Result<(), CliError> {
    if state.status() != Status::Pending {
        return Ok(());
    }
    let saved = store.save(&state.id, &state.to_json(), Some(Version(0))).await;
    saved.map(drop).map_err(|error| failed(&error))
}

/// Lists the stored runs, the last saved first.
pub(super) async fn list(
    directory: Option<&Path>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let store = open(directory)?;
    let runs = store.list().await.map_err(|error| failed(&error))?;
    let shown = if as_json { runs.len() } else { MAX_LISTED_RUNS };
    let mut rows = Vec::new();
    let mut grid =
        output::table(&["run", "saved", "status", "steps", "cost", "prompt"], &[3, 4]).unbroken(0);
    for run in runs.iter().take(shown) {
        let stored = store.load(&run.id).await.ok().flatten();
        let state = stored.and_then(|stored| AgentState::from_json(&stored.text).ok());
        let row = StoredRunRow::of(&run.id, run.saved_at, state.as_ref());
        if as_json {
            rows.push(row.to_json());
        } else {
            grid.add_row(row.cells());
        }
    }
    if as_json {
        writeln!(out, "{}", json!({ "version": 1, "runs": rows }))?;
    } else if runs.is_empty() {
        output::note("no runs are stored");
    } else {
        writeln!(out, "{grid}")?;
        out.flush()?;
        if runs.len() > shown {
            output::note(&format!("{} more; --json lists all", count((runs.len() - shown) as u64)));
        }
        output::note(
            "endstop agent --resume RUN continues a run that is paused or whose process died; with a prompt, with \
             the conversation of any",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A run in the list.
struct StoredRunRow<'s> {
    id: &'s RunId,
    saved: String,
    state: Option<&'s AgentState>,
}

impl<'s> StoredRunRow<'s> {
    fn of(id: &'s RunId, saved_at: u64, state: Option<&'s AgentState>) -> Self {
        let at = i64::try_from(saved_at).ok();
        let at = at.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let saved = at.map(|at| at.to_string()).unwrap_or_default();
        Self { id, saved, state }
    }

    fn prompt(&self) -> &str {
        let messages = self.state.map_or(&[][..], |state| &state.messages);
        let asked = messages.iter().find(|message| matches!(message, Message::User { .. }));
        asked.map_or("", Message::text)
    }

    fn cells(&self) -> [String; 6] {
        const PROMPT_COLUMNS: usize = 40;
        let minute = self.saved.get(..16).unwrap_or(&self.saved).replace('T', " ");
        let prompt = endstop::observe::truncate(&clean(self.prompt()), PROMPT_COLUMNS);
        let (status, steps, cost) = match self.state {
            Some(state) => (
                state.status().name().to_owned(),
                count(state.step_count()),
                setup::cost(state).map_or_else(|| "?".to_owned(), money),
            ),
            None => ("unreadable".to_owned(), String::new(), String::new()),
        };
        [self.id.to_string(), minute, status, steps, cost, prompt]
    }

    fn to_json(&self) -> Value {
        let state = self.state;
        json!({
            "run": self.id,
            "saved": self.saved,
            "status": state.map(|state| state.status().name()),
            "steps": state.map(AgentState::step_count),
            "cost_usd": state.and_then(setup::cost).map(|cost| cost.to_decimal()),
            "prompt": self.prompt(),
        })
    }
}
