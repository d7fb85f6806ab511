//! `endstop run`: any agent program under limits, through a private gateway.

mod adapted;
pub(super) mod bundle;
mod child;
mod deferred_printer;
pub(super) mod environment;
mod guard;
mod line;
mod outcome;
mod processes;
mod shutdown;
mod signals;
mod supervise;
mod terminal;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use endstop::account::RunAccounts;
use endstop::core::policy::{OnUnpriced, Policy};
use endstop::observe::{DryRunObserver, Report, Reporter, TraceRecorder};
use endstop::runtime::RunEnvironment;
use endstop::store::RunId;
use endstop_gateway::{Control, Counts, Runs};

use nix::sys::signal::Signal;

use super::control_files::{ControlFiles, OutsideAct};
use super::gateway::{GatewayArgs, GatewaySetup, Open, compiled};
use super::limits::{Limits, OF_COMMAND, SET_OTHERS, in_words};
use super::redact;
use super::replay::input::with_prices;
use crate::budgets::Budgets;
use crate::duration::span;
use crate::epoch::KillEpoch;
use crate::error::{CliError, ExitMeaning};
use crate::history::{HistoryArgs, RunHistory};
use crate::webhook::Hook;
use crate::{live, output};
use adapted::{AdaptedCommand, AdapterUse};
use child::Ended;
use deferred_printer::DeferredPrinter;
use guard::{Guard, GuardArgs};
use line::StatusRow;
use outcome::{JsonFile, RunOutcome};
use shutdown::{SentSignals, ShutdownPhase};
use signals::Signals;
use supervise::{State, Supervisor};
use terminal::Terminal;
use watch::{RunSnapshot, Watcher};

const HELP: &str = "\
Examples:
  endstop run --usd 2 --steps 25 -- my-agent \"fix the bug\"
  endstop run --usd 5 -- claude -p \"fix the failing test\"
  endstop run --policy policy.toml --json-file summary.json -- python agent.py
  endstop run --dry-run --usd 2 -- my-agent \"what would it have cost?\"
  endstop run --upstream sim --steps 3 -- my-agent \"without a key and without a network\"

Endstop starts a gateway on loopback and sets OPENAI_BASE_URL,
ANTHROPIC_BASE_URL and similar variables to its address. The gateway forwards
calls to the addresses that these variables had before. All model calls, those
of sub-agents too, count in one run. The default limits are 100 steps and $5.00.

The gateway is also the command's HTTPS_PROXY. It refuses and reports
connections that bypass it to a model provider, and Endstop ends a command that
makes no other calls (--allow-direct, --no-guard). It tunnels connections to all
other hosts. With --intercept the gateway answers connections to model providers
itself, with a certificate made for this run, and limits the calls in them.

At a limit, model calls get a stop response, which costs nothing. The command
has --grace to exit. Then the command and its descendants get SIGTERM, and
SIGKILL 5 seconds later. A pause rule keeps calls waiting until `endstop
approve`, at most for --pause-limit.

Exit codes: 124 if a limit stopped the run, or a pause was not approved, for any
exit code of the command (--preserve-status keeps that code). 125 if endstop
failed, invalid arguments included, or if the command was ended because its
calls bypassed the gateway, or made no call under --require-calls. 126 if the
command cannot be executed, 127 if it was not found. Otherwise the command's own
code, or 128+N if signal N ended it (after SIGINT and SIGQUIT endstop ends
itself in the same way).";

/// Arguments of `endstop run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct RunArgs {
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Count everything, stop nothing
    ///
    /// It reports where the limits would have stopped the run.
    #[arg(long)]
    dry_run: bool,
    /// Write a JSON summary to FILE at the end
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Write a trace for `endstop replay`
    ///
    /// `endstop explain` reads it too. An older file is overwritten, and missing directories are created.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    control: ControlFiles,
    #[command(flatten)]
    history: HistoryArgs,
    /// Time to exit after a stop
    ///
    /// A command that has not exited by then gets SIGTERM, and SIGKILL 5 seconds later.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    grace: Duration,
    /// Time for leftover processes
    ///
    /// How long the gateway stays for processes that the command left behind, since their last call.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "30s")]
    linger: Duration,
    /// Keep the command's exit code after a stop
    #[arg(long)]
    preserve_status: bool,
    /// Do not adapt Endstop to the program
    ///
    /// Start the command as it is: add no flags, settings or variables that its program is known to need.
    #[arg(long)]
    no_adapter: bool,
    /// Print what is added for the program
    #[arg(long)]
    verbose: bool,
    /// The command to run, with its arguments
    ///
    /// Words that begin with `-` before it are options of `endstop run`.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl RunArgs {
    /// The part of an adapter that applies to the command.
    const fn adapter_use(&self) -> AdapterUse {
        match (self.no_adapter, self.guard.intercepts()) {
            (true, _) => AdapterUse::Keys,
            (false, true) => AdapterUse::Facts,
            (false, false) => AdapterUse::Additions,
        }
    }

    /// The history, for the name of the program. Its arguments can be a prompt.
    fn history(&self) -> RunHistory {
        let program = self.command.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        self.history.open("run", &program, self.gateway.is_sim(), !self.gateway.has_upstream())
    }

    /// Refuses another upstream together with `--intercept`: calls go to the host that the command names.
    fn check_intercept(&self) -> Result<(), CliError> {
        if self.guard.intercepts() && self.gateway.has_upstream() && !self.gateway.is_sim() {
            let why = "--intercept sends calls to the hosts that the command names, and takes no --upstream but `sim`";
            return Err(CliError::new(why).with_hint("leave out one of the two"));
        }
        if self.guard.intercepts() && self.guard.allows_all() {
            let why = "--intercept and --allow-direct for all hosts exclude each other";
            return Err(CliError::new(why).with_hint("name the hosts: --allow-direct=HOST"));
        }
        Ok(())
    }
}

/// Runs the command line.
///
/// # Errors
/// Returns an error if the command cannot be started, or a file about it cannot be written. The way it ends is an exit
/// code.
pub fn run(args: &RunArgs, _out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
    let result = runtime.block_on(drive(args));
    runtime.shutdown_background();
    if let Ok((_, Some(signal))) = &result {
        // A shell, and its loop, check how this ended: a key that ended the command ended this.
        outcome::by_signal(*signal);
    }
    let result = result.map(|(code, _)| code);
    // The other codes may be those of the command.
    result.map_err(|error| match error.code {
        code if code == ExitMeaning::Usage.code() => error.with_exit(ExitMeaning::OwnFailure),
        _ => error,
    })
}

/// The known facts of the run that the supervisor does not see.
struct RunObservers {
    report: Arc<Mutex<Option<Report>>>,
    dry_run: Option<Arc<DryRunObserver>>,
    trace: Option<Arc<TraceRecorder>>,
    history: RunHistory,
    snapshot: tokio::sync::watch::Receiver<RunSnapshot>,
}

/// The policy of a dry run: nothing stops it, and the dry run reports calls without a price.
fn unbounded(policy: &Policy) -> Policy {
    Policy {
        unbounded: true,
        on_unpriced: Some(OnUnpriced::Ignore),
        accounting: policy.accounting.clone(),
        ..Policy::default()
    }
}

/// How it ends: the code, and the signal that it ends by instead.
async fn drive(args: &RunArgs) -> Result<(ExitCode, Option<Signal>), CliError> {
    let epoch = KillEpoch::at_start()?;
    let mut chosen = args.limits.choose(None, OF_COMMAND)?;
    check_files(args)?;
    args.check_intercept()?;
    let budgets = args.limits.budgets(&mut chosen)?;
    let json_file = args.json_file.as_deref().map(JsonFile::prepare).transpose()?;
    let (mut environment, observers) = run_environment(args, &chosen.policy)?;
    let hook = Hook::open()?;
    environment.observers.extend(hook.observer());
    environment.accounts = accounts(args, &budgets, &hook)?;
    let id = RunId::new();
    let adapted = AdaptedCommand::of(&args.command, args.adapter_use(), args.gateway.is_sim(), &id);
    let mut adapted = adapted.drawing_on(budgets.drawn_by(environment.accounts.as_ref()));
    adapted.check(&chosen.policy, args.dry_run)?;
    let setup = gateway_setup(args, &chosen.policy, &id, environment, &adapted);
    let open = open_gateway(args, setup, epoch.clone(), &budgets).await?;
    let _live = register(args, &chosen.policy, &open, epoch.as_deref())?;
    announce(args, &chosen.policy, chosen.is_default, budgets.in_words());
    args.control.tell_of_signals(&chosen.policy);
    let begun = Instant::now();
    let (ended, sent, guard) = supervised(args, &mut adapted, &open, &id, &observers).await?;
    if let Some(run) = open.gateway.run(&id).filter(|run| !run.is_over()) {
        // Time limits, and the printed time, are those of the end, not of the last call.
        run.tick();
    }
    let elapsed = begun.elapsed();
    let (stopped, paused_by, reset) = {
        let snapshot = observers.snapshot.borrow();
        (snapshot.stopped.clone(), snapshot.paused_by(), snapshot.reset.clone())
    };
    let refused = open.gateway.run(&id).and_then(|run| run.refused_call());
    let full_budget = open.gateway.refusing_budget(&id);
    let unknown_fields = open.gateway.unknown_fields(&id);
    let quotas = open.gateway.quotas(&id);
    let quota_resets = open.gateway.quota_resets(&id);
    let counts = close(open, &id).await;
    budgets.leave();
    hook.end().await;
    // The last connection of the command may have been read after its end.
    let guard = guard.outcome(&args.guard);
    end_records(&observers);
    let outcome = RunOutcome {
        run: id.to_string(),
        command: &args.command,
        ended,
        sent,
        elapsed,
        stopped,
        paused_by,
        reset,
        pause_limit: args.gateway.pause_limit,
        preserves_status: args.preserve_status,
        counts,
        unknown_fields,
        quotas,
        quota_resets,
        report: observers.report.lock().unwrap_or_else(PoisonError::into_inner).take(),
        refused,
        full_budget,
        options: args.limits.options(),
        dry_run: observers.dry_run.as_deref(),
        guard,
    };
    outcome.tell();
    if let Some(file) = json_file {
        file.write(&outcome.to_json())?;
    }
    Ok((ExitCode::from(outcome.exit_code()), outcome.signal()))
}

/// The budgets over time that the run draws on. A dry run draws on none.
fn accounts(
    args: &RunArgs,
    budgets: &Budgets,
    hook: &Hook,
) -> Result<Option<RunAccounts>, CliError> {
    match args.dry_run {
        true => Ok(None),
        false => {
            let open = budgets.open(!args.gateway.has_upstream(), hook.budget_warnings())?;
            budgets.warn_of_forgetting();
            Ok(Some(open.accounts))
        }
    }
}

/// Starts the gateway, which obeys kills of this machine and of those that share its budgets.
async fn open_gateway(
    args: &RunArgs,
    setup: GatewaySetup,
    epoch: Option<Arc<KillEpoch>>,
    budgets: &Budgets,
) -> Result<Open, CliError> {
    let shared_kill = budgets.kill_switch();
    let open = args.gateway.open(GatewaySetup { epoch, shared_kill, ..setup }).await?;
    budgets.obey_kills(open.gateway.killer());
    Ok(open)
}

/// Ends the records of the run, and warns of gaps in them.
fn end_records(observers: &RunObservers) {
    observers.history.end();
    if let Some((run, error)) = observers.trace.as_ref().and_then(|trace| trace.problems().first) {
        output::warn(&format!("the trace of run `{run}` is cut short: {error}"));
    }
}

/// Enters this process in the registry of live ones.
///
/// # Errors
/// Returns an error if everything was killed since its start.
fn register(
    args: &RunArgs,
    policy: &Policy,
    open: &Open,
    epoch: Option<&KillEpoch>,
) -> Result<Option<live::Registration>, CliError> {
    let command = redact::command(&args.command).join(" ");
    let limits = in_words(policy.rules.iter());
    let live = live::enter("run", &command, limits, open.gateway.control_socket());
    epoch.map_or(Ok(()), KillEpoch::check)?;
    Ok(live)
}

/// The gateway of one command.
fn gateway_setup(
    args: &RunArgs,
    policy: &Policy,
    id: &RunId,
    environment: RunEnvironment,
    adapted: &AdaptedCommand,
) -> GatewaySetup {
    GatewaySetup {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        policy: if args.dry_run { unbounded(policy) } else { policy.clone() },
        runs: Runs::One(id.clone()),
        environment,
        epoch: None,
        shared_kill: None,
        control: Control { socket: live::socket_path(), ..Control::default() },
        stored_runs: None,
        key_desk: None,
        refusals: None,
        upstream_observer: None,
        direct_hosts: args.guard.direct_hosts(),
        tunnels: args.guard.tunnels(args.dry_run || adapted.goes_elsewhere()),
        upstreams: adapted.upstreams(),
    }
}

/// Refuses standard output as a file of Endstop's.
fn check_files(args: &RunArgs) -> Result<(), CliError> {
    for (flag, file) in [("--json-file", &args.json_file), ("--trace", &args.trace)] {
        if file.as_deref() == Some(Path::new("-")) {
            return Err(CliError::new(format!("{flag} does not write to standard output"))
                .with_hint("standard output is the command's own; name a file, or `./-` for one of this name"));
        }
    }
    Ok(())
}

/// Who watches the run.
fn run_environment(
    args: &RunArgs,
    policy: &Policy,
) -> Result<(RunEnvironment, RunObservers), CliError> {
    let (watcher, snapshot) = Watcher::new();
    let report = Arc::new(Mutex::new(None));
    let reporter = {
        let last = Arc::clone(&report);
        Reporter::new(move |report: &Report| {
            if report.parent.is_none() {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.clone());
            }
        })
    };
    let mut environment = RunEnvironment::default();
    environment.observers.push(Arc::new(watcher));
    environment.observers.push(Arc::new(reporter));
    let dry_run = match args.dry_run {
        true => {
            let policy = with_prices(policy.clone(), args.gateway.table()?)?;
            Some(Arc::new(DryRunObserver::new(compiled(&policy)?)))
        }
        false => None,
    };
    if let Some(dry_run) = &dry_run {
        environment.observers.push(Arc::<DryRunObserver>::clone(dry_run));
    }
    let trace = args.trace.as_ref().map(|path| {
        let file = output::create_private(path)
            .map_err(|error: io::Error| CliError::cannot_write(path, &error))?;
        let recorder = TraceRecorder::one_file(file).prices(args.gateway.table()?.version());
        Ok::<_, CliError>(Arc::new(recorder.continues(true)))
    });
    let trace = trace.transpose()?;
    if let Some(trace) = &trace {
        environment.observers.push(Arc::<TraceRecorder>::clone(trace));
    }
    let history = args.history();
    environment.observers.extend(history.observer());
    Ok((environment, RunObservers { report, dry_run, trace, history, snapshot }))
}

/// Begins the command and waits until it has ended.
async fn supervised(
    args: &RunArgs,
    adapted: &mut AdaptedCommand<'_>,
    open: &Open,
    id: &RunId,
    observers: &RunObservers,
) -> Result<(Ended, SentSignals, Guard), CliError> {
    let has_guard = args.guard.is_on();
    let start = adapted.prepare(&open.gateway, id, args.verbose)?;
    warn_of_exemptions(has_guard, &start.variables);
    let begun = Instant::now();
    processes::adopt_orphans();
    let signals = Signals::new()
        .map_err(|error| CliError::new(format!("cannot receive signals: {error}")))?;
    let main = child::begin(&start.command, &start.variables)?;
    let mut terminal = Terminal::of_process();
    terminal::write_from_the_background();
    let wants_terminal = Terminal::is_all_ours();
    if let Some(terminal) = terminal.as_mut().filter(|_| wants_terminal) {
        terminal.give(main);
    }
    let mut supervisor = Supervisor {
        main,
        gateway: &open.gateway,
        id,
        driven: open.gateway.run(id),
        dry_run: observers.dry_run.as_deref(),
        snapshot: observers.snapshot.clone(),
        signals,
        terminal,
        line: StatusRow::new(),
        printer: DeferredPrinter::new(),
        guard: Guard::new(&open.gateway, &args.guard),
        shutdown: ShutdownPhase::Going,
        begun,
        grace: args.grace,
        linger: args.linger,
        pause_limit: args.gateway.pause_limit,
        state: State::new(wants_terminal),
    };
    let outside = args.control.watch(|act| match act {
        OutsideAct::Pause { by, why } => drop(open.gateway.pause(id, by, why)),
        OutsideAct::Resume { by } => drop(open.gateway.resume(id, by, "")),
        OutsideAct::Signal { name, by } => drop(open.gateway.signal(id, name, by, "")),
    });
    tokio::select! {
        never = outside => match never {},
        ended = supervisor.watch() => Ok((ended, supervisor.sent(), supervisor.guard)),
    }
}

/// Warns of entries of `NO_PROXY` that hide connections from the guard.
fn warn_of_exemptions(has_guard: bool, variables: &BTreeMap<&'static str, String>) {
    let hosts = ["NO_PROXY", "no_proxy"].into_iter().filter_map(|name| variables.get(name));
    if let Some(entry) = hosts.filter_map(|hosts| guard::exempting_entry(hosts)).next()
        && has_guard
    {
        output::warn(&format!(
            "`{entry}` of NO_PROXY takes hosts of model providers out of the guard: calls there bypass the gateway unseen"
        ));
    }
}

/// Ends the gateway, so that every call is settled.
async fn close(open: Open, id: &RunId) -> Counts {
    let counts = open.gateway.counts(id).unwrap_or_default();
    open.gateway.shut_down().await;
    counts
}

/// Prints the limits that apply.
fn announce(args: &RunArgs, policy: &Policy, is_default: bool, budgets: Option<String>) {
    let mut text = format!("endstop: {}", in_words(policy.rules.iter()));
    if is_default {
        text.push_str(SET_OTHERS);
    }
    if args.guard.intercepts() {
        text.push_str("; calls to model providers are intercepted");
    }
    if let Some(budgets) = budgets {
        text.push_str(&format!("; budget {budgets}"));
    }
    if !args.guard.is_on() {
        text.push_str("; no guard: calls that bypass the gateway are not seen");
    }
    if args.dry_run {
        text.push_str("; dry run: nothing is stopped");
        if args.gateway.kill_file.is_some() {
            text.push_str(", but by the kill file");
        }
    }
    output::note(output::wrapped(&text, output::error_width(), "  ").trim_end());
}
