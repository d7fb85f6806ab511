//! `endstop ps`, `show`, `cancel`, `kill`, `pause`, `resume`, `approve` and `signal`: live runs from another terminal.

mod client;
pub mod tail;

use std::io::Write;
use std::process::ExitCode;

use endstop::account::{KillReceipt, KillTarget, RedisBudgetStore, StoreKill};
use endstop::core::expr::did_you_mean;
use endstop::core::units::Money;
use serde_json::{Value, json};

use super::limits::usd;
use crate::budgets::StoreArgs;
use crate::epoch::{self, EpochLock};
use crate::error::{CliError, ExitMeaning};
use crate::limits::MIN_RUN_PREFIX;
use crate::live::{self, LiveProcess};
use crate::output;
use client::Gateway;

const PS_HELP: &str = "\
Examples:
  endstop ps
  endstop ps --json
  endstop ps --server http://127.0.0.1:8485 --token-env ENDSTOP_CONTROL_TOKEN

It lists the runs of all `endstop run` and `endstop serve` processes of this
user. A paused run shows why it waits. `endstop approve`, `resume`, `cancel` and
`kill` take a run's name or its beginning.";

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

/// Where the runs are.
#[derive(Debug, clap::Args)]
struct Where {
    /// Ask the control API at this address
    ///
    /// Instead of the processes of this machine.
    #[arg(long, value_name = "URL", requires = "token_env")]
    server: Option<String>,
    /// With --server: variable with its token
    #[arg(long, value_name = "VAR")]
    token_env: Option<String>,
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
#[command(after_help = "Examples:\n  endstop show nightly-17")]
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

/// Arguments of `endstop kill`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  endstop kill nightly-17 --why \"wrong branch\"\n  endstop kill --all\n  endstop kill --budget team-a\n  endstop kill --all --budget-store redis://HOST:6379"
)]
pub struct KillArgs {
    /// The run, or the beginning of its name
    #[arg(required_unless_present_any = ["all", "key", "budget"], conflicts_with_all = ["all", "key", "budget"])]
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
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    store: StoreArgs,
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
#[command(after_help = "Examples:\n  endstop signal nightly-17 review")]
pub struct SignalArgs {
    /// The run, or the beginning of its name
    run: String,
    /// The signal
    name: String,
    #[command(flatten)]
    at: Where,
}

/// A run, and the gateway that has it.
struct LiveRun {
    gateway: usize,
    id: String,
    value: Value,
}

/// Every gateway that was asked, and its runs.
struct Fleet {
    gateways: Vec<Gateway>,
    runs: Vec<LiveRun>,
    /// Whether every process has listed its runs: otherwise the beginning of a name may be that of another run.
    is_whole: bool,
}

impl Where {
    /// The gateways: that of --server, or those of the registry.
    fn gateways(&self) -> Result<Vec<Gateway>, CliError> {
        if let Some(url) = &self.server {
            let variable = self.token_env.as_deref().unwrap_or_default();
            let token = std::env::var(variable).ok().filter(|token| !token.trim().is_empty());
            let token = token.ok_or_else(|| {
                CliError::new(format!("environment variable `{variable}` is empty or not set"))
            })?;
            return Ok(vec![Gateway::remote(url, token.trim())?]);
        }
        let found = live::look();
        match found.dead.as_slice() {
            [] => {}
            [pid] => output::note(&format!("process {pid} has died; its entry is removed")),
            several => output::note(&format!(
                "{} processes have died; their entries are removed",
                several.len()
            )),
        }
        Ok(found.live.into_iter().map(Gateway::local).collect())
    }

    /// The gateways with their runs. A process that ends meanwhile has none.
    fn fleet(&self) -> Result<Fleet, CliError> {
        let gateways = self.gateways()?;
        let (mut runs, mut is_whole) = (Vec::new(), true);
        for (index, gateway) in gateways.iter().enumerate() {
            let listed = match gateway.get("/endstop/v1/runs") {
                Ok(listed) => listed,
                Err(error) if gateway.process().is_none() => return Err(error),
                Err(error) => {
                    output::warn(&error.message);
                    is_whole = false;
                    continue;
                }
            };
            let all = listed.get("runs").and_then(Value::as_array).cloned().unwrap_or_default();
            for value in all {
                let id = text(&value, "/run").to_owned();
                runs.push(LiveRun { gateway: index, id, value });
            }
        }
        Ok(Fleet { gateways, runs, is_whole })
    }
}

impl Fleet {
    /// The run of a name or of the beginning of one.
    fn find(&self, name: &str) -> Result<(&Gateway, &LiveRun), CliError> {
        let exact: Vec<&LiveRun> = self.runs.iter().filter(|run| run.id == name).collect();
        let found = match exact.is_empty() {
            true if name.len() < MIN_RUN_PREFIX || !self.is_whole => Vec::new(),
            true => self.runs.iter().filter(|run| run.id.starts_with(name)).collect(),
            false => exact,
        };
        match found.as_slice() {
            [run] => match self.gateways.get(run.gateway) {
                Some(gateway) => Ok((gateway, run)),
                None => Err(CliError::new(format!("no run `{name}`"))),
            },
            [] => {
                let hint = did_you_mean(name, self.runs.iter().map(|run| run.id.as_str()));
                let hint = hint.unwrap_or_else(|| match self.runs.is_empty() {
                    true => "no run is live now".to_owned(),
                    false => "`endstop ps` lists the live runs".to_owned(),
                });
                Err(CliError::new(format!("no live run `{name}`")).with_hint(hint))
            }
            several => {
                let names: Vec<&str> = several.iter().take(5).map(|run| run.id.as_str()).collect();
                Err(CliError::new(format!("`{name}` matches {} runs", several.len()))
                    .with_hint(format!("write more of it: {}", names.join(", "))))
            }
        }
    }
}

/// A text of a JSON value; empty if it is missing.
fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Who acts: the user's name, this machine and this process.
pub(crate) fn who() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).ok().flatten();
    let name = user.map_or_else(|| nix::unistd::Uid::current().to_string(), |user| user.name);
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    format!("{name}@{host} (endstop, process {})", std::process::id())
}

/// The body of an act: who, and why.
fn signed(why: Option<&str>) -> Value {
    json!({ "by": who(), "message": why.filter(|why| !why.is_empty()) })
}

/// Lists the live runs.
///
/// # Errors
/// Returns an error if the gateway of --server cannot be asked.
pub fn ps(args: &PsArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let fleet = args.at.fleet()?;
    let mut rows = Vec::new();
    for run in &fleet.runs {
        let Some(gateway) = fleet.gateways.get(run.gateway) else { continue };
        // A stored run is not read back for this.
        let is_stored = text(&run.value, "/status") == "stored";
        let detail = if is_stored { run.value.clone() } else { gateway.one(&run.id)? };
        rows.push((gateway.process(), run, detail));
    }
    if args.json {
        let runs: Vec<Value> = rows.iter().map(|row| as_json(row.0, row.1, &row.2)).collect();
        writeln!(out, "{:#}", json!({ "version": 1, "runs": runs }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        writeln!(out, "no run is live")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table =
        output::table(&["run", "pid", "status", "steps", "cost", "command"], &[1, 3, 4])
            .unbroken(0);
    for (process, run, detail) in &rows {
        let steps = detail.pointer("/report/totals/steps").and_then(Value::as_u64);
        let cost = text(detail, "/report/spend/usd").parse::<Money>();
        let status = status(*process, detail);
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

/// The status of a run. Its final answer does not end a command, which may ask again: until it exits, it runs.
fn status<'v>(process: Option<&LiveProcess>, detail: &'v Value) -> &'v str {
    match text(detail, "/status") {
        "completed" if process.is_some_and(|process| process.kind == "run") => "in_progress",
        status => status,
    }
}

/// The reason why a run waits: a pause from outside, or rules that pause it.
fn waits_for(detail: &Value) -> Option<String> {
    if detail.get("pause").is_some_and(|pause| !pause.is_null()) {
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

/// Prints one run as JSON, with its report.
///
/// # Errors
/// Returns an error if there is no such run.
pub fn show(args: &ShowArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let fleet = args.at.fleet()?;
    let (gateway, run) = fleet.find(&args.run)?;
    let detail = gateway.one(&run.id)?;
    writeln!(out, "{detail:#}")?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a command to one run, and prints its new status.
fn act(
    at: &Where,
    name: &str,
    command: &str,
    body: &Value,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let fleet = at.fleet()?;
    let (gateway, run) = fleet.find(name)?;
    let detail = gateway.post(&format!("/endstop/v1/runs/{}/{command}", run.id), body)?;
    writeln!(out, "{}: {}", run.id, text(&detail, "/status"))?;
    Ok(ExitCode::SUCCESS)
}

/// Stops a run; its calls in flight finish.
///
/// # Errors
/// Returns an error if there is no such run.
pub fn cancel(args: &ActArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    act(&args.at, &args.run, "cancel", &signed(args.why.as_deref()), out)
}

/// Stops a run, or all of them, and aborts the calls in flight.
///
/// # Errors
/// Returns an error if there is no such run, or a process does not confirm.
pub fn kill(args: &KillArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if args.at.server.is_some() && args.store.is_named() {
        return Err(CliError::new("--server and --budget-store name different things to kill by"));
    }
    let store = args.store.open().map_err(|error| {
        error
            .with_hint("without --budget-store, `endstop kill` stops the processes of this machine")
    })?;
    if let Some(store) = store {
        return kill_by_store(args, &store, out);
    }
    let mut body = signed(args.why.as_deref());
    if let Some(run) = &args.run {
        return act(&args.at, run, "kill", &body, out);
    }
    // The lock keeps new processes from starting. The epoch comes last: processes that see it before they are asked would not be counted.
    let lock = if args.all && args.at.server.is_none() { lock_starts() } else { None };
    if let Value::Object(body) = &mut body {
        body.insert("key".to_owned(), json!(args.key));
        body.insert("budget".to_owned(), json!(args.budget));
    }
    let gateways = args.at.gateways()?;
    if gateways.is_empty() {
        begin_epoch(lock, args.why.as_deref())?;
        return Err(CliError::new("no live process found")
            .with_hint("a process that `endstop ps` does not list stops before its next call; --server names a gateway elsewhere")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    // In parallel: one that does not answer blocks no other.
    let answers: Vec<Result<Value, CliError>> = std::thread::scope(|scope| {
        let body = &body;
        let ask = |gateway| scope.spawn(move || Gateway::post(gateway, "/endstop/v1/kill", body));
        let asked: Vec<_> = gateways.iter().map(ask).collect();
        let answer = |it: std::thread::ScopedJoinHandle<'_, _>| {
            it.join().unwrap_or_else(|_| Err(CliError::new("cannot ask a gateway")))
        };
        asked.into_iter().map(answer).collect()
    });
    let stopped: u64 = answers.iter().map(|answer| u64::from(answer.is_ok())).sum();
    let of = |answer: &Value| answer.get("killed").and_then(Value::as_u64).unwrap_or_default();
    let runs: u64 = answers.iter().flatten().map(of).sum();
    let failed: u64 = answers.iter().map(|answer| u64::from(answer.is_err())).sum();
    for error in answers.into_iter().filter_map(Result::err) {
        output::warn(&error.message);
    }
    let begun = begin_epoch(lock, args.why.as_deref());
    writeln!(
        out,
        "killed {} in {}; no call {}is admitted there",
        output::counted(runs, "run"),
        processes(stopped),
        if args.all { "" } else { "of them " }
    )?;
    begun?;
    if failed > 0 {
        let text = format!("{} did not confirm", processes(failed));
        return Err(CliError::new(text)
            .with_hint("`endstop ps` shows whether they live")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    Ok(ExitCode::SUCCESS)
}

/// Kills in the processes of all machines that share a store.
fn kill_by_store(
    args: &KillArgs,
    store: &RedisBudgetStore,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let (target, what) = match (&args.run, &args.key, &args.budget) {
        (Some(run), ..) => (KillTarget::Run(run.clone()), format!("run {run}")),
        (_, Some(key), _) => (KillTarget::Key(key.clone()), format!("the runs of key {key}")),
        (.., Some(budget)) => {
            (KillTarget::Budget(budget.clone()), format!("the runs that draw on budget {budget}"))
        }
        _ => (KillTarget::All, "all runs".to_owned()),
    };
    let kill = StoreKill { target, why: why_by(args.why.as_deref()) };
    let receipt = store.kill(&kill).map_err(|error| CliError::new(error.to_string()))?;
    let KillReceipt { confirmed, silent } = receipt;
    if confirmed == 0 && silent == 0 {
        return Err(CliError::new(format!("no live process uses {}", store.server()))
            .with_hint("processes that start later are not concerned")
            .with_exit(ExitMeaning::AnswerIsNo));
    }
    writeln!(out, "killed {what} in {}; no call of them is admitted", processes(confirmed))?;
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
        output::warn(&error.message);
        None
    })
}

/// Stops processes that the registry does not show, before their next call.
fn begin_epoch(lock: Option<EpochLock>, why: Option<&str>) -> Result<(), CliError> {
    let Some(lock) = lock else { return Ok(()) };
    lock.begin_next(&why_by(why))
}

/// The reason of a kill, and who it is by.
fn why_by(why: Option<&str>) -> String {
    let by = format!("killed by {}", who());
    let why = why.filter(|why| !why.is_empty());
    why.map_or_else(|| by.clone(), |why| format!("{why} ({by})"))
}

fn processes(number: u64) -> String {
    let noun = if number == 1 { "process" } else { "processes" };
    format!("{number} {noun}")
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
    act(&args.at, &args.run, "signal", &json!({ "name": args.name }), out)
}
