//! `endstop prune`: removes old stored runs of `endstop agent`, and what is old in the history.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use endstop::agent::AgentState;
use endstop::clock::{millis, system_wall_time};
use endstop::core::run::Status;
use endstop::core::units::WallTime;
use endstop::runtime::history::Pruned;
use endstop::store::{RunSummary, Store, StoreError};

use super::agent::keep;
use crate::duration::span;
use crate::error::CliError;
use crate::history::{self, history_error};
use crate::output;

const HELP: &str = "\
Examples:
  endstop prune --older-than 90d
  endstop prune --older-than 30d --dry-run

It removes stored runs of `endstop agent` that have ended and were saved before
that. Runs that are paused, or whose process died, stay: they can continue. From
the history it removes older calls and acts, and older runs without any left.
With --store it removes runs of that directory only, and leaves the history.
`[prune]` with `older-than = \"90d\"` in the configuration file is the default.
`history-for = \"400d\"` in it needs no command: the history drops older entries.
Budgets need no pruning: windows that are over and corrections are deleted after
400 days. A directory of `serve --keep` is not touched, because a run whose file
is removed has its full budget again; `serve --keep-for 90d` removes such files.";

/// Arguments of `endstop prune`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct PruneArgs {
    /// Remove what is older than this, such as `90d`
    #[arg(long, value_name = "TIME", value_parser = span)]
    older_than: Duration,
    /// Directory of stored runs
    ///
    /// The default is that of `endstop agent`. With another one the history stays as it is.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// List them, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the store cannot be used.
pub fn run(args: &PruneArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
    runtime.block_on(prune(args, out))
}

async fn prune(args: &PruneArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if let Some(directory) = args.store.as_ref().filter(|directory| !directory.is_dir()) {
        let shown = directory.display();
        return Err(CliError::new(format!("`{shown}` is no directory")).with_hint("check the path"));
    }
    let store = keep::open(args.store.as_deref())?;
    let before = system_wall_time().0.saturating_sub(millis(args.older_than));
    let runs = store.list().await.map_err(|error| keep::failed(&error))?;
    let (mut removed, mut bytes) = (0u64, 0u64);
    for run in runs.iter().filter(|run| run.saved_at < before) {
        if !has_ended(&*store, run).await {
            continue;
        }
        if args.dry_run {
            writeln!(out, "{}", run.id)?;
        } else {
            match store.remove(&run.id).await {
                Ok(true) => {}
                // Another process was first, or continues it.
                Ok(false) | Err(StoreError::Locked { .. }) => continue,
                Err(error) => return Err(keep::failed(&error)),
            }
        }
        removed = removed.saturating_add(1);
        bytes = bytes.saturating_add(run.bytes);
    }
    let what = if args.dry_run { "would remove" } else { "removed" };
    let runs = output::counted(removed, "run");
    output::note(&format!("{what} {runs} ({} of states)", size(bytes)));
    // Only the user's own runs belong to the history.
    if args.store.is_none() {
        prune_history(WallTime(before), args.dry_run, what)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes what is older in the history.
fn prune_history(before: WallTime, is_dry_run: bool, what: &str) -> Result<(), CliError> {
    let Some(mut history) = history::read()? else { return Ok(()) };
    let pruned = history.prune(before, is_dry_run).map_err(|error| history_error(&error))?;
    let Pruned { runs, calls, acts } = pruned;
    output::note(&format!(
        "{what} {}, {} and {} of the history",
        output::counted(calls, "call"),
        output::counted(acts, "act"),
        output::counted(runs, "run")
    ));
    Ok(())
}

/// Whether a run can be read, and has ended.
async fn has_ended(store: &dyn Store, run: &RunSummary) -> bool {
    let stored = store.load(&run.id).await.ok().flatten();
    let state = stored.and_then(|stored| AgentState::from_json(&stored.text).ok());
    state.is_some_and(|state| {
        matches!(state.status(), Status::Completed | Status::Stopped | Status::Failed)
    })
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        mebibytes => format!("{mebibytes} MiB"),
    }
}
