//! `endstop explain`: the trip record of recorded runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use endstop::core::Policy;
use endstop::core::Status;
use endstop_price::PriceTable;
use endstop_replay::{Explained, Options, explain};
use serde_json::json;

use super::replay::input::{
    Recordings, nothing_read, prices, recordings, warn_folded, with_prices,
};
use crate::error::{CliError, causes};
use crate::output;
use crate::policy_source::{load_expression, load_file};

const EXAMPLES: &str = "\
Examples:
  endstop explain session.jsonl --stop 'steps >= 25 or cost >= $2.00'
  endstop explain run.traj.json --policy policy.toml --json
  endstop explain results.json --policy policy.toml --run 3/0

Each rule is shown as a tree: `[x]` is met, `[ ]` is not, `[?]` is unknown, with
the observed value and the remaining margin.";

/// Arguments of `endstop explain`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The transcript; `-` is standard input
    #[arg(value_name = "TRANSCRIPT")]
    path: PathBuf,
    /// Use this policy file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    policy: Option<PathBuf>,
    /// Use a stop condition, in single quotes
    #[arg(long, value_name = "EXPR")]
    stop: Option<String>,
    /// Explain only this run of the file
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Count recorded reservations of Endstop traces
    ///
    /// Calls are refused by their worst case, as they were live.
    #[arg(long)]
    as_live: bool,
    /// Print JSON, one line per run
    #[arg(long)]
    json: bool,
    /// Read prices from this file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the transcript, the policy or the prices cannot be read, or there is no such run.
pub fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let has_policy = args.policy.is_some() || args.stop.is_some();
    let policy = match (&args.policy, &args.stop) {
        (Some(file), _) => load_file(file)?,
        (None, Some(expression)) => load_expression(expression)?,
        (None, None) => Policy::default(),
    };
    let table = prices(args.prices.as_deref())?;
    let prices = table.as_ref().unwrap_or_else(|| PriceTable::embedded());
    let policy = with_prices(policy, prices)?;
    let outcomes = BTreeMap::new();
    let options =
        Options { policy: &policy, outcomes: &outcomes, prices, jobs: 1, as_live: args.as_live };
    let paths = std::slice::from_ref(&args.path);
    let Recordings { transcripts, mut warnings, .. } = recordings(paths);
    let mut shown = 0u64;
    for transcript in &transcripts {
        let (runs, said) =
            explain(transcript, &options).map_err(|error| CliError::new(causes(&error)))?;
        warnings.extend(said);
        for explained in runs.iter().filter(|e| args.run.as_ref().is_none_or(|id| *id == e.run.id))
        {
            if args.json {
                let Explained { run, trip_record, .. } = explained;
                writeln!(out, "{}", json!({ "version": 1, "run": run, "verdict": trip_record }))?;
            } else {
                if shown > 0 {
                    writeln!(out)?;
                }
                show(explained, has_policy, transcripts.len() > 1, out)?;
            }
            shown += 1;
        }
    }
    out.flush()?;
    warn_folded(&warnings);
    if !has_policy && !args.json && shown > 0 {
        output::note(
            "\nno policy given: `--stop 'cost >= $2'` or `--policy FILE` shows the margin to each limit",
        );
    }
    match (&args.run, shown) {
        (Some(id), 0) => Err(CliError::new(format!("no run `{id}` in `{}`", args.path.display()))
            .with_hint("`endstop replay --per-run PATH` lists the runs")),
        (None, 0) => Err(nothing_read(paths)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a run: what the policy would have done, or without one what the transcript says of its end.
fn show(
    explained: &Explained,
    has_policy: bool,
    with_file: bool,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let run = &explained.run;
    let model = run.model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
    writeln!(out, "{}", output::shown(&format!("run {} ({}{model})", run.id, run.format)))?;
    if with_file {
        writeln!(out, "in {}", output::shown(&run.file))?;
    }
    let record = explained.trip_record.to_string();
    match run.stopped_at_step {
        Some(step) => writeln!(out, "would have been stopped at step {step} of {}", run.steps)?,
        None if has_policy => {
            writeln!(out, "would not have been stopped; this is the record at its end")?;
        }
        None => {}
    }
    // Without a policy the record's first line says only that none stopped the run.
    match recorded_end(explained).filter(|_| !has_policy).zip(record.split_once('\n')) {
        Some((end, (_, rest))) => {
            writeln!(out, "{}\n{}", output::shown(&end), output::shown(rest))?;
        }
        None => writeln!(out, "{}", output::shown(&record))?,
    }
    if !run.not_testable.is_empty() {
        writeln!(out, "\nnot testable on this format: {}", run.not_testable.join(", "))?;
    }
    Ok(())
}

/// How the run ended when it was recorded, if the trip record of no policy does not say it.
fn recorded_end(explained: &Explained) -> Option<String> {
    match (&explained.refused, explained.trip_record.status) {
        (Some(refused), Status::InProgress | Status::Completed) => {
            Some(format!("Endstop stopped it: its limits refused {refused}"))
        }
        (None, Status::InProgress) => Some("the transcript does not say what ended it".to_owned()),
        _ => None,
    }
}
