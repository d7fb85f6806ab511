//! `endstop ps`, `show`, `cancel`, `kill`, `pause`, `resume`, `approve` and `signal`: live runs from another terminal.

mod client;
mod kill;
mod kill_list;
mod live_runs;
mod past;
mod remote;
pub mod tail;

use std::io::Write;
use std::process::ExitCode;

use endstop::core::units::Money;
use serde_json::{Value, json};

use super::limits::usd;
use crate::error::CliError;
use crate::limits::MIN_RUN_PREFIX;
use crate::live::LiveProcess;
use crate::output;
use crate::who::who;
pub(super) use client::{AskError, Gateway, escaped};
pub use kill::{KillArgs, kill};
use live_runs::{LiveRun, LiveRuns, Where};
pub(super) use remote::ServerArgs;

const PS_HELP: &str = "\
Examples:
  endstop ps
  endstop ps --json
  endstop ps --server http://127.0.0.1:8485 --token-env ENDSTOP_CONTROL_TOKEN

It lists the runs of all `endstop run` and `endstop serve` processes of this
user. A paused run shows why it waits. `endstop approve`, `resume`, `cancel` and
`kill` take a run's name or its beginning.";

const SHOW_HELP: &str = "\
Examples:
  endstop show nightly-17
  endstop show nightly-17 | jq '.acts'

A live run is printed with its report. One that is over is printed as the
history has it: how it ended, the totals of its calls, and who paused, approved
or stopped it, when and why.";

const RESUME_HELP: &str = "\
Examples:
  endstop resume nightly-17
  endstop resume nightly-17 --steps +10 --why \"nearly done\"
  endstop resume nightly-17 --usd +1

It ends the pause of `endstop pause`. With --usd or --steps it raises limits of
the run first, whether it is paused or not; a run that such a limit stopped
continues. A stop rule can be raised by what its overrides grant (`overrides`
and `grant` in the policy; `endstop check` prints the sum). A cost limit is hard
unless the policy says `hard = false`.";

fn more_usd(text: &str) -> Result<Money, String> {
    usd(text.strip_prefix('+').unwrap_or(text))
}

fn more_steps(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix('+').unwrap_or(text);
    number.parse().map_err(|_| "write a number of steps such as `+10`".to_owned())
}

/// Arguments of `endstop ps`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = PS_HELP)]
pub struct PsArgs {
    #[command(flatten)]
    at: Where,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `endstop show`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = SHOW_HELP)]
pub struct ShowArgs {
    /// The run, or the beginning of its name
    run: String,
    #[command(flatten)]
    at: Where,
}

/// Arguments of `endstop cancel` and `endstop pause`.
#[derive(Debug, clap::Args)]
pub struct ActArgs {
    /// The run, or the beginning of its name
    run: String,
    /// The reason, for the run's trace
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    at: Where,
}

/// Arguments of `endstop resume`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = RESUME_HELP)]
pub struct ResumeArgs {
    /// The run, or the beginning of its name
    run: String,
    /// Raise the cost limit by this many US dollars
    #[arg(long, value_name = "+USD", value_parser = more_usd)]
    usd: Option<Money>,
    /// Raise the step limit by this many steps
    #[arg(long, value_name = "+STEPS", value_parser = more_steps)]
    steps: Option<u64>,
    /// The reason, for the run's trace
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    at: Where,
}

/// Arguments of `endstop approve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  endstop approve nightly-17\n  endstop approve nightly-17 ask --usd 5"
)]
pub struct ApproveArgs {
    /// The run, or the beginning of its name
    run: String,
    /// The pause rule; without it, every rule that is met
    rule: Option<String>,
    /// Pause again at this many US dollars
    ///
    /// If the rule compares money.
    #[arg(long, value_name = "USD", value_parser = usd)]
    usd: Option<Money>,
    /// The reason, for the run's trace
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    at: Where,
}

/// Arguments of `endstop signal`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  endstop signal nightly-17 review --why \"read it\"")]
pub struct SignalArgs {
    /// The run, or the beginning of its name
    run: String,
    /// The signal
    name: String,
    /// The reason, for the run's trace
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    at: Where,
}

/// A text of a JSON value; empty if it is missing.
fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The body of an act: who, and why.
fn signed(why: Option<&str>) -> Value {
    json!({ "by": who(), "message": why.filter(|why| !why.is_empty()) })
}

/// Lists the live runs.
///
/// # Errors
/// Returns an error if the gateway of --server cannot be asked, or no process answers.
pub fn ps(args: &PsArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let live_runs = args.at.live_runs()?;
    let rows = live_runs.reports();
    if args.json {
        let runs: Vec<Value> =
            rows.iter().map(|row| as_json(row.0.process(), row.1, &row.2)).collect();
        let all = json!({ "version": 1, "runs": runs, "no_answer": live_runs.no_answer });
        writeln!(out, "{all:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        if let Some(silent) = live_runs.silent() {
            return Err(CliError::new(silent));
        }
        writeln!(out, "no run is live")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table =
        output::table(&["run", "pid", "status", "steps", "cost", "command"], &[1, 3, 4])
            .unbroken(0);
    for (gateway, run, detail) in &rows {
        let process = gateway.process();
        let steps = detail.pointer("/report/totals/steps").and_then(Value::as_u64);
        let cost = text(detail, "/report/spend/usd").parse::<Money>();
        let status = status(process, detail);
        let status = match waits_for(detail) {
            Some(why) => format!("{status}: {why}"),
            None => status.to_owned(),
        };
        table.add_row([
            run.id.clone(),
            process.map(|process| process.pid.to_string()).unwrap_or_default(),
            status,
            steps.map(output::count).unwrap_or_default(),
            cost.map(output::money).unwrap_or_default(),
            process.map(|process| process.command.clone()).unwrap_or_default(),
        ]);
    }
    writeln!(out, "{}", output::shown(&table.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(process: Option<&LiveProcess>, run: &LiveRun, detail: &Value) -> Value {
    json!({
        "run": run.id,
        "status": status(process, detail),
        "waits_for": waits_for(detail),
        "steps": detail.pointer("/report/totals/steps"),
        "tokens": detail.pointer("/report/totals/tokens"),
        "cost_usd": detail.pointer("/report/spend/usd"),
        "pid": process.map(|process| process.pid),
        "kind": process.map(|process| process.kind.as_str()),
        "command": process.map(|process| process.command.as_str()),
        "limits": process.map(|process| process.limits.as_str()),
        "started": process.map(|process| process.started.as_str()),
    })
}

/// The status of a run. Its final answer does not end a command, which may ask again: until it exits, it runs. A pause from
/// outside counts before the next call meets it.
fn status<'v>(process: Option<&LiveProcess>, detail: &'v Value) -> &'v str {
    match text(detail, "/status") {
        _ if is_pause_requested(detail) => "paused",
        "completed" if process.is_some_and(|process| process.kind == "run") => "in_progress",
        status => status,
    }
}

/// Whether someone outside has paused a run that has not ended.
fn is_pause_requested(detail: &Value) -> bool {
    let is_over = matches!(text(detail, "/status"), "stopped" | "failed");
    !is_over && detail.get("pause").is_some_and(|pause| !pause.is_null())
}

/// The reason why a run waits: a pause from outside, or rules that pause it.
fn waits_for(detail: &Value) -> Option<String> {
    if is_pause_requested(detail) {
        let by = text(detail, "/pause/by");
        return Some(match text(detail, "/pause/why") {
            "" => format!("by {by}"),
            why => format!("by {by}: {why}"),
        });
    }
    if let Some(budget) = detail.get("waits_for").and_then(Value::as_str) {
        return Some(budget.to_owned());
    }
    if text(detail, "/status") != "paused" {
        return None;
    }
    let rules = detail.pointer("/report/verdict/rules").and_then(Value::as_array)?;
    let trips = rules.iter().filter(|rule| {
        text(rule, "/action") == "pause" && rule.get("trips").and_then(Value::as_bool) == Some(true)
    });
    let words = trips.map(|rule| format!("{} ({})", text(rule, "/id"), text(rule, "/tree/text")));
    Some(words.collect::<Vec<_>>().join(", ")).filter(|words| !words.is_empty())
}

/// Prints one run as JSON, with its report; one that is over, as the history has it.
///
/// # Errors
/// Returns an error if there is no such run.
pub fn show(args: &ShowArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let live_runs = args.at.live_runs()?;
    if !args.at.is_remote()
        && let Some(mut past) = past_run(&live_runs, &args.run)?
    {
        if let (Some(silent), Some(fields)) = (live_runs.silent(), past.as_object_mut()) {
            fields.insert("is_uncertain".to_owned(), json!(true));
            output::warn(&format!("{silent}: a run `{}` may be live there", args.run));
        }
        writeln!(out, "{past:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.at.is_remote() && !live_runs.knows(&args.run) {
        return Err(unknown_everywhere(&live_runs, &args.run)?);
    }
    let (gateway, run) = live_runs.find(&args.run)?;
    let detail = gateway.one(&run.id)?;
    writeln!(out, "{detail:#}")?;
    Ok(ExitCode::SUCCESS)
}

/// The error for a name that neither a live run nor one of the history has.
fn unknown_everywhere(live_runs: &LiveRuns, name: &str) -> Result<CliError, CliError> {
    let mut error = live_runs.unknown(name);
    let Some(begins) = past::begins()? else {
        error.message.push_str(", and nothing is in the history");
        return Ok(error);
    };
    let begins = begins.strftime("%Y-%m-%d %H:%M UTC").to_string();
    // Beginnings of names are not looked for then.
    let is_whole = live_runs.silent().is_some() || name.len() < MIN_RUN_PREFIX;
    let none = if is_whole { "none of exactly this name" } else { "none" };
    let message = format!("{}, and {none} in the history, which begins {begins}", error.message);
    let is_guess = error.hint.as_deref().is_some_and(|hint| hint.starts_with("did you mean"));
    let hint = match is_guess || live_runs.silent().is_some() {
        true => error.hint,
        false => Some("`endstop spend --by run` lists runs of the history".to_owned()),
    };
    Ok(CliError { message, hint, ..error })
}

/// The run of the history that a name means, if it means no live run. Whole names count before beginnings, there and here.
fn past_run(live_runs: &LiveRuns, name: &str) -> Result<Option<Value>, CliError> {
    if live_runs.has(name) {
        return Ok(None);
    }
    match past::find(name)? {
        Some(past) => Ok(Some(past)),
        // A process that does not answer may have another run whose name begins so.
        None if live_runs.has_beginning(name) || live_runs.silent().is_some() => Ok(None),
        None => past::find_beginning(name),
    }
}

/// Sends a command to one run, and prints its new status.
fn act(
    at: &Where,
    name: &str,
    command: &str,
    body: &Value,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let live_runs = at.live_runs()?;
    let (gateway, run) = live_runs.find(name)?;
    let detail = gateway.post(&format!("/endstop/v1/runs/{}/{command}", run.id), body)?;
    writeln!(out, "{}: {}", run.id, status(gateway.process(), &detail))?;
    Ok(ExitCode::SUCCESS)
}

/// Stops a run; its calls in flight finish.
///
/// # Errors
/// Returns an error if there is no such run.
pub fn cancel(args: &ActArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    act(&args.at, &args.run, "cancel", &signed(args.why.as_deref()), out)
}

/// Holds the calls of a run.
///
/// # Errors
/// Returns an error if there is no such run, or it is paused or stopped.
pub fn pause(args: &ActArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    act(&args.at, &args.run, "pause", &signed(args.why.as_deref()), out)
}

/// Lets the calls of a run continue.
///
/// # Errors
/// Returns an error if there is no such run, it is not paused from outside, or a limit cannot be raised.
pub fn resume(args: &ResumeArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let body = json!({
        "by": who(),
        "message": args.why,
        "usd": args.usd.map(Money::to_decimal),
        "steps": args.steps,
    });
    act(&args.at, &args.run, "resume", &body, out)
}

/// Approves a paused run.
///
/// # Errors
/// Returns an error if there is no such run, or no rule pauses it.
pub fn approve(args: &ApproveArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let body = json!({
        "by": who(),
        "message": args.why,
        "rule": args.rule,
        "limit": args.usd.map(Money::to_decimal),
    });
    act(&args.at, &args.run, "approve", &body, out)
}

/// Sets an external signal of a run.
///
/// # Errors
/// Returns an error if there is no such run.
pub fn signal(args: &SignalArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let body = json!({ "by": who(), "message": args.why, "name": args.name });
    act(&args.at, &args.run, "signal", &body, out)
}
