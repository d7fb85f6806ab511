//! `endstop kill`: one run, a group or all, in the processes of this machine or of all that share a store.

use std::io::Write;
use std::process::ExitCode;

use endstop::account::{KillReceipt, KillTarget, RedisBudgetStore, StoreKill};
use endstop::store::RunId;
use serde_json::{Value, json};

use super::kill_list::list_kills;
use super::live_runs::{LiveRuns, Where, in_parallel};
use super::{signed, status};
use crate::budgets::StoreArgs;
use crate::epoch::{self, EpochLock};
use crate::error::{CliError, ExitMeaning};
use crate::kills::why_by;
use crate::output;
use crate::who::who;

/// Arguments of `endstop kill`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  endstop kill nightly-17 --why \"wrong branch\"\n  endstop kill --all\n  endstop kill --budget team-a\n  endstop kill --all --budget-store redis://HOST:6379\n  endstop kill --list\n  endstop kill --list --server http://127.0.0.1:8485 --token-env ENDSTOP_TOKEN"
)]
pub struct KillArgs {
    /// The run, or the beginning of its name
    ///
    /// With --budget-store its whole name.
    #[arg(required_unless_present_any = ["all", "key", "budget", "list"], conflicts_with_all = ["all", "key", "budget"])]
    run: Option<String>,
    /// Stop every run of every live process
    ///
    /// They start no further run.
    #[arg(long)]
    all: bool,
    /// Stop every run of this key, now and later
    ///
    /// The live processes admit no further one.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "budget"])]
    key: Option<String>,
    /// The same for every run that draws on this budget
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    budget: Option<String>,
    /// The reason, for the run's trace
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// List past kills: what, when, by whom and why
    ///
    /// The last `kill --all` on this machine, and with --budget-store the last kills of that store. With --server those of the
    /// gateway's machine and store. Each concerns the processes that were running then.
    #[arg(long, conflicts_with_all = ["run", "all", "key", "budget", "why"])]
    list: bool,
    /// With --list: print JSON
    #[arg(long, requires = "list")]
    json: bool,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    store: StoreArgs,
}

/// Stops a run, or all of them, and aborts the calls in flight; with --list, prints the kills of before.
///
/// # Errors
/// Returns an error if there is no such run, or a process does not confirm.
pub fn kill(args: &KillArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if args.at.is_remote() && args.store.is_named() {
        return Err(CliError::new("--server and --budget-store name different things to kill by"));
    }
    if args.list {
        let remote = args.at.remote()?;
        let store = args.store.connect()?;
        return list_kills(remote.as_ref(), store.as_ref(), args.json, out);
    }
    let store = args.store.connect().map_err(|error| {
        error
            .with_hint("without --budget-store, `endstop kill` stops the processes of this machine")
    })?;
    match (store, &args.run) {
        (Some(store), _) => kill_by_store(args, &store, out),
        (None, Some(run)) => kill_run(args, run, out),
        (None, None) => kill_many(args, out),
    }
}

/// Kills a run in every process that has one of its name.
fn kill_run(args: &KillArgs, name: &str, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let (live_runs, body) = (args.at.live_runs()?, signed(args.why.as_deref()));
    let path = |id: &str| format!("/endstop/v1/runs/{id}/kill");
    let is_silent = RunId::parse(name).is_ok() && leave_kill(&live_runs, &path(name), &body);
    let found = match live_runs.find_all(name) {
        Err(error) if is_silent => {
            let hint = format!(
                "{}; a suspended process that has the run kills it when it continues",
                error.hint.as_deref().unwrap_or("`endstop ps` lists the live runs")
            );
            return Err(CliError::new(error.message)
                .with_hint(hint)
                .with_exit(ExitMeaning::AnswerIsNo));
        }
        found => found?,
    };
    let answers = in_parallel(&found, |(gateway, run)| gateway.kill(&path(&run.id), &body));
    let is_one = found.len() == 1;
    let mut failed = None;
    for ((gateway, run), answer) in found.iter().zip(answers) {
        match answer {
            Ok(detail) => {
                let status = status(gateway.process(), &detail);
                let place = if is_one { String::new() } else { format!(" ({})", gateway.name()) };
                writeln!(out, "{}: {status}{place}", run.id)?;
            }
            Err(error) if is_one => failed = Some(error.into()),
            Err(error) => failed = Some(CliError::new(error.of(&gateway.name()))),
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Leaves the kill of a run for the processes that have not listed their runs, because one of them may have it. Returns
/// whether there is such a process.
fn leave_kill(live_runs: &LiveRuns, path: &str, body: &Value) -> bool {
    let silent = live_runs.silent_gateways();
    // An answer now, also that there is no such run, is of a process that is listed the next time.
    let _ = in_parallel(&silent, |gateway| gateway.leave_kill(path, body));
    !silent.is_empty()
}

/// Kills all runs, or those of a key or a budget.
fn kill_many(args: &KillArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let mut body = signed(args.why.as_deref());
    if let Value::Object(body) = &mut body {
        body.insert("key".to_owned(), json!(args.key));
        body.insert("budget".to_owned(), json!(args.budget));
    }
    // The lock keeps new processes from starting. The epoch comes last: processes that see it before they are asked would not be counted.
    let lock = if args.all && !args.at.is_remote() { lock_starts() } else { None };
    let gateways = args.at.gateways()?;
    if gateways.is_empty() {
        return Err(nothing_found(lock, args));
    }
    let answers = in_parallel(&gateways, |gateway| gateway.kill("/endstop/v1/kill", &body));
    let stopped: u64 = answers.iter().map(|answer| u64::from(answer.is_ok())).sum();
    let of = |answer: &Value| answer.get("killed").and_then(Value::as_u64).unwrap_or_default();
    let runs: u64 = answers.iter().flatten().map(of).sum();
    let failed: u64 = answers.iter().map(|answer| u64::from(answer.is_err())).sum();
    let begun = begin_epoch(lock, args.why.as_deref());
    let errors = gateways.iter().zip(answers).filter_map(|(it, answer)| Some((it, answer.err()?)));
    for (gateway, error) in errors {
        if gateway.process().is_none() {
            return Err(error.into());
        }
        output::warn(&error.of(&gateway.name()));
    }
    if runs > 0 || args.all && stopped > 0 {
        writeln!(
            out,
            "killed {} in {}; no call {}is admitted there",
            output::counted(runs, "run"),
            processes(stopped),
            if args.all { "" } else { "of them " }
        )?;
    }
    begun?;
    if failed > 0 {
        let text = format!("{} did not confirm", processes(failed));
        return Err(CliError::new(text)
            .with_hint("`endstop ps` shows whether they live")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    if runs == 0 && !args.all {
        return Err(CliError::new(no_live_run(args))
            .with_hint(format!("from now on none is admitted by {}", processes(stopped))));
    }
    Ok(ExitCode::SUCCESS)
}

/// No process of the registry: what the kill reaches nevertheless.
fn nothing_found(lock: Option<EpochLock>, args: &KillArgs) -> CliError {
    let reaches_others = lock.is_some();
    if let Err(error) = begin_epoch(lock, args.why.as_deref()) {
        return error;
    }
    let hint = match reaches_others {
        true => {
            "a process that `endstop ps` does not list stops before its next call; --server names a gateway elsewhere"
        }
        false => "--server names a gateway elsewhere",
    };
    CliError::new("no live process found").with_hint(hint).with_exit(ExitMeaning::AnswerIsNo)
}

/// A key or a budget without a run that could be killed.
fn no_live_run(args: &KillArgs) -> String {
    match (&args.key, &args.budget) {
        (Some(key), _) => format!("no live run of key `{key}`"),
        (None, Some(budget)) => format!("no live run draws on budget `{budget}`"),
        (None, None) => "no live run".to_owned(),
    }
}

/// Kills in the processes of all machines that share a store.
fn kill_by_store(
    args: &KillArgs,
    store: &RedisBudgetStore,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let (target, what) = match (&args.run, &args.key, &args.budget) {
        (Some(run), ..) => (KillTarget::Run(run.clone()), format!(" of run `{run}`")),
        (_, Some(key), _) => (KillTarget::Key(key.clone()), format!(" of key `{key}`")),
        (.., Some(budget)) => {
            (KillTarget::Budget(budget.clone()), format!(" that draws on budget `{budget}`"))
        }
        _ => (KillTarget::All, String::new()),
    };
    let kill = StoreKill { target, why: why_by(args.why.as_deref(), &who()) };
    let receipt = store.kill(&kill).map_err(|error| CliError::new(error.to_string()))?;
    let KillReceipt { confirmed, silent } = receipt;
    if confirmed == 0 && silent == 0 {
        return Err(CliError::new(format!("no live process uses {}", store.server()))
            .with_hint("processes that start later are not concerned")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    if confirmed > 0 {
        writeln!(out, "no call{what} is admitted by {}", processes(confirmed))?;
    }
    if silent > 0 {
        let verb = if silent == 1 { "has" } else { "have" };
        output::note(&format!(
            "{} {verb} not confirmed: dead, or cut off from the store, and without it no call begins",
            processes(silent)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets no process start. A disk that is full is no reason to kill nothing.
fn lock_starts() -> Option<EpochLock> {
    epoch::lock().unwrap_or_else(|error| {
        output::warn(&format!(
            "{}; processes that `endstop ps` does not list continue",
            error.message
        ));
        None
    })
}

/// Stops processes that the registry does not show, before their next call.
fn begin_epoch(lock: Option<EpochLock>, why: Option<&str>) -> Result<(), CliError> {
    let Some(lock) = lock else { return Ok(()) };
    lock.begin_next(&why_by(why, &who()))
}

fn processes(number: u64) -> String {
    let noun = if number == 1 { "process" } else { "processes" };
    format!("{number} {noun}")
}
