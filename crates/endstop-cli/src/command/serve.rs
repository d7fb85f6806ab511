//! `endstop serve`: one gateway for many runs.

mod control;
mod log;
mod source;
mod waiting;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use endstop::core::policy::Policy;
use endstop::core::signal::StopReason;
use endstop::core::units::{Millis, Money};
use endstop::ledger::{Budget, Limits as Ceilings};
use endstop::observe::{Report, Reporter, TraceRecorder, clean};
use endstop::runtime::RunEnvironment;
use endstop::runtime::trace::DirectoryRunLog;
use endstop::store::{create_private_directory, private_file};
use endstop_gateway::{
    Gateway, IssuedKeys, KeyDesk, RefusalObserver, Runs, StoredRuns, Tunnels, Unnamed,
};
use serde_json::json;

use super::gateway::{GatewayArgs, GatewaySetup, hear_the_end};
use super::key::LocalKeys;
use super::limits::{Limits, OF_COMMAND, as_conditions, in_words, tell_of_signals, usd};
use crate::budgets::{Budgets, OpenBudgets};
use crate::duration::span;
use crate::epoch::KillEpoch;
use crate::error::CliError;
use crate::history::HistoryArgs;
use crate::keys::{GatewayKeys, KeyPlace};
use crate::output::{self, counted, duration, tokens};
use crate::webhook::Hook;
use control::ControlArgs;
use log::{LogFormat, RefusalLog, UpstreamLog};
use source::ServeSource;
use waiting::Waiting;

const HELP: &str = "\
Examples:
  endstop serve --usd 2 --steps 50
  endstop serve --policy policy.toml --total-usd 100 --trace traces/
  endstop serve --keys keys.txt
  endstop serve --usd 2 --control 127.0.0.1:8485 --control-token-env ENDSTOP_TOKEN
  endstop serve --usd 2 --total-usd 100 --keep runs/

The limits apply to each run, and --total-usd to all runs together. A client
names its run in its base URL, http://HOST:PORT/r/RUN/v1 (a sub-agent:
/r/RUN/NAME/v1), in the header x-endstop-run, or by a key of --keys. The address
goes to standard output; warnings, pauses and the end of each run go to standard
error. With --json all of it goes to standard output, as JSON lines.

The control API has a unix socket that only you can open; its path is printed at
the start:
  curl --unix-socket PATH http://endstop/endstop/v1/runs
--control ADDR serves it at an address too, which requires the token of
--control-token-env as Authorization: Bearer. The address of clients does not
serve it.
  GET  /endstop/v1/runs              every run
  GET  /endstop/v1/runs/RUN          one, with its report
  POST /endstop/v1/runs/RUN/approve  continue after a pause (JSON: rule, limit)
  POST /endstop/v1/runs/RUN/pause    pause its calls (JSON: by, message)
  POST /endstop/v1/runs/RUN/resume   let them continue (JSON: by, message)
  POST /endstop/v1/runs/RUN/signal   set a signal (JSON: name, by, message)
  POST /endstop/v1/runs/RUN/cancel   stop it (JSON: message)
  POST /endstop/v1/runs/RUN/kill     stop it, and abort calls in flight
  POST /endstop/v1/kill              stop all, refuse what follows (JSON: message)
  GET  /endstop/v1/kills             past kills, with who, when and why
  GET  /endstop/v1/keys              the keys of --keys
  POST /endstop/v1/keys              issue one (JSON: name, budgets, models, ..)
  POST /endstop/v1/keys/NAME/revoke  refuse one; `set` and `rotate` change it
  GET  /endstop/v1/budgets           budgets over time; one: /budgets/NAME
  POST /endstop/v1/budgets/NAME/adjust
                                     correct its spend (JSON: amount, message)
  GET  /endstop/v1/spend             spend by day, or ?by=model&since=7d

With --keep, a run that is named again after this process has ended, even by
kill -9, continues with its counters, and --total-usd counts the spend of all
stored runs. A call that was aborted is charged its worst case. `endstop replay
DIR` reads the directory. With --budget-store and no --keep, runs are stored in
Redis, and any gateway with the same address serves any call of them. Without
both, every run starts over with the process.

Ctrl-C lets calls in flight finish for at most 5 seconds; a second one ends the
process.";

/// Arguments of `endstop serve`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct ServeArgs {
    /// Address for clients [default: 127.0.0.1:8484]
    ///
    /// Port 0 takes a free one.
    #[arg(hide_default_value = true, long, value_name = "ADDR", default_value = "127.0.0.1:8484")]
    listen: SocketAddr,
    #[command(flatten)]
    limits: Limits,
    /// Stop all runs at this many US dollars
    ///
    /// The cost of all runs together counts.
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    total_usd: Option<Money>,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Unnamed calls: refuse (default) or shared
    ///
    /// A call that names no run gets an error, or belongs to one run that all such calls share.
    #[arg(hide_possible_values = true, hide_default_value = true, long, value_name = "WHAT", value_enum, default_value_t = UnnamedCalls::Refuse)]
    unnamed: UnnamedCalls,
    /// Accept the client keys in this file
    ///
    /// Clients send them in place of the upstream's: keys of `endstop key`, and lines of `KEY RUN`, or `KEY PREFIX*` for all
    /// runs whose names begin with PREFIX. Without FILE they are those in the store of --budget-store, which all its gateways share,
    /// or in keys.jsonl in the state directory.
    #[arg(long, value_name = "FILE")]
    keys: Option<Option<PathBuf>>,
    #[command(flatten)]
    control: ControlArgs,
    /// Write traces of all runs into DIR
    ///
    /// One Endstop trace for each run, and for each sub-agent.
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Store runs in DIR, so that they survive
    ///
    /// Their spend then outlives this process. One process per directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// With --keep: remove runs older than this
    ///
    /// At the start, stored runs are removed whose last event is older than this, such as `90d`. A run that is named again
    /// after that has its full budget, and --total-usd no longer counts what it spent.
    #[arg(long, value_name = "TIME", value_parser = span, requires = "keep")]
    keep_for: Option<Duration>,
    #[command(flatten)]
    history: HistoryArgs,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    /// Log refused calls on standard error: json
    #[arg(hide_possible_values = true, long, value_name = "FORMAT", value_enum)]
    log: Option<LogFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum UnnamedCalls {
    Refuse,
    Shared,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if something that is named cannot be read, or the address not be listened on.
pub fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
    runtime.block_on(serve(args, out))
}

async fn serve(args: &ServeArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let epoch = KillEpoch::at_start()?;
    let mut chosen = args.limits.choose(None, OF_COMMAND)?;
    if args.total_usd.is_some() || args.keys.is_some() {
        // A key may have, or get, a budget in dollars.
        chosen.refuse_unpriced();
    }
    let refusals = args.log.map(|LogFormat::Json| Arc::new(RefusalLog) as Arc<dyn RefusalObserver>);
    let unnamed = match args.unnamed {
        UnnamedCalls::Refuse => Unnamed::Refuse,
        UnnamedCalls::Shared => Unnamed::Shared,
    };
    let mut environment = run_environment(args)?;
    let (is_sim, is_nested) = (args.gateway.is_sim(), !args.gateway.has_upstream());
    let history = args.history.open("serve", "endstop", is_sim, is_nested);
    environment.observers.extend(history.observer());
    let hook = Hook::open()?;
    environment.observers.extend(hook.observer());
    let budgets = args.limits.budgets(&mut chosen)?;
    let drawn = budgets.open(is_nested, hook.budget_warnings())?;
    environment.accounts = Some(drawn.accounts.clone());
    let place =
        args.keys.clone().map(|named| KeyPlace::of(named, budgets.shared_store())).transpose()?;
    budgets.warn_of_persistence(matches!(place, Some(KeyPlace::Store(_))));
    let source = ServeSource::new(drawn.clone(), budgets.shared_store());
    let control = args.control.open(args.listen, source)?;
    let keys = issued_keys(place.as_ref(), drawn.clone())?;
    prepare_directories(args).await?;
    let setup = GatewaySetup {
        upstreams: BTreeMap::new(),
        listen: args.listen,
        policy: chosen.policy.clone(),
        runs: Runs::Many { unnamed, keys },
        environment,
        epoch: epoch.clone(),
        shared_kill: budgets.kill_switch(),
        control,
        stored_runs: stored_runs(args, &budgets),
        key_desk: place.map(|it| Arc::new(LocalKeys::of_gateway(it, drawn)) as Arc<dyn KeyDesk>),
        refusals,
        upstream_observer: Some(Arc::new(UpstreamLog { as_json: args.json, log: args.log })),
        tunnels: Tunnels::Off,
        direct_hosts: Vec::new(),
    };
    let open = args.gateway.open(setup).await?;
    budgets.obey_kills(open.gateway.killer());
    #[cfg(unix)]
    let _live = {
        let command = format!("serve on {}", open.gateway.addr());
        let limits = in_words(chosen.policy.rules.iter());
        crate::live::enter("serve", &command, limits, open.gateway.control_socket())
    };
    epoch.as_deref().map_or(Ok(()), KillEpoch::check)?;
    let addr = open.gateway.addr();
    if !addr.ip().is_loopback() {
        output::warn(&format!(
            "{addr} can be reached from other machines, and asks for no password"
        ));
    }
    // Before anyone knows the address: a signal without a handler ends the process.
    answer_approvals();
    tell_addresses(args, &chosen.policy, &open.gateway, budgets.in_words(), out)?;
    tell_of_signals(&chosen.policy, args.control.is_there());
    let code = hear_the_end(open.gateway.shut_down()).await;
    budgets.leave();
    hook.end().await;
    history.end();
    drop(open.sim);
    Ok(code)
}

/// Prints where it listens.
fn tell_addresses(
    args: &ServeArgs,
    policy: &Policy,
    gateway: &Gateway,
    budgets: Option<String>,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let (addr, limits) = (gateway.addr(), in_words(policy.rules.iter()));
    if args.json {
        let line = json!({
            "version": 1,
            "event": "listening",
            "address": format!("http://{addr}"),
            "limits": as_conditions(policy.rules.iter()),
            "total_usd": args.total_usd.map(Money::to_decimal),
            "control_socket": gateway.control_socket(),
            "control_address": gateway.control_addr().map(|addr| format!("http://{addr}")),
        });
        writeln!(out, "{line}")?;
    } else {
        let total = args
            .total_usd
            .map(|total| format!("; all runs together stop at {}", output::money(total)));
        let total = total.unwrap_or_default();
        let budgets = budgets.map(|budgets| format!("; budget {budgets}")).unwrap_or_default();
        writeln!(out, "listening on http://{addr}; each run {limits}{total}{budgets}")?;
        writeln!(out, "  OPENAI_BASE_URL=http://{addr}/r/RUN/v1")?;
        writeln!(out, "  ANTHROPIC_BASE_URL=http://{addr}/r/RUN")?;
        writeln!(out, "  GOOGLE_GEMINI_BASE_URL=http://{addr}/r/RUN")?;
        for control in control::in_words(gateway) {
            writeln!(out, "  control: {control}")?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Where runs are stored: in a directory, or in the store that gateways share.
fn stored_runs(args: &ServeArgs, budgets: &Budgets) -> Option<StoredRuns> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.is_empty() { "" } else { &format!(" of {}", clean(host.trim())) };
    let name = format!("process {}{host} (--listen {})", std::process::id(), args.listen);
    let shared = || budgets.run_log(&name).map(|log| StoredRuns::Log(Arc::new(log)));
    args.keep.clone().map(StoredRuns::Directory).or_else(shared)
}

/// The keys of `--keys`; they are read again when they change.
fn issued_keys(place: Option<&KeyPlace>, budgets: OpenBudgets) -> Result<IssuedKeys, CliError> {
    let Some(place) = place else { return Ok(IssuedKeys::default()) };
    let opened = GatewayKeys::open(place, budgets).map_err(|error| match place {
        KeyPlace::File(path) if !path.exists() => {
            error.with_hint("`endstop key new NAME` issues the first key")
        }
        KeyPlace::File(_) | KeyPlace::Store(_) => error,
    });
    opened.map(IssuedKeys::from_source)
}

/// Refuses one directory for two kinds of files with the same names, and removes runs that are older than --keep-for.
async fn prepare_directories(args: &ServeArgs) -> Result<(), CliError> {
    let both = args.keep.as_deref().zip(args.trace.as_deref());
    if both.is_some_and(|(keep, trace)| is_same(keep, trace)) {
        return Err(CliError::new(
            "--keep and --trace cannot write in one directory: each has a file for every run",
        ));
    }
    let (Some(keep), Some(length)) = (&args.keep, args.keep_for) else { return Ok(()) };
    // The gateway opens it next, and says why that fails.
    let Ok(log) = DirectoryRunLog::open(keep).await else { return Ok(()) };
    let before = SystemTime::now().checked_sub(length).unwrap_or(UNIX_EPOCH);
    let removed = log.forget(before).map_err(|error| {
        CliError::new(format!("cannot remove old runs in `{}`: {error}", keep.display()))
    })?;
    if removed > 0 {
        output::note(&format!("removed {}, older than --keep-for", counted(removed, "stored run")));
    }
    Ok(())
}

/// The signal that approves in `endstop run` does not say which run, and is not to end all of them.
fn answer_approvals() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut approvals) = signal(SignalKind::user_defined1()) else { return };
        tokio::spawn(async move {
            while approvals.recv().await.is_some() {
                output::note(
                    "endstop: SIGUSR1 does not say which run: approve one with POST \
                     /endstop/v1/runs/RUN/approve",
                );
            }
        });
    }
}

fn run_environment(args: &ServeArgs) -> Result<RunEnvironment, CliError> {
    let mut environment = RunEnvironment::default();
    let as_json = args.json;
    environment.observers.push(Arc::new(Reporter::new(move |report: &Report| {
        if report.parent.is_none() {
            tell(report, as_json);
        }
    })));
    let is_controlled = args.control.is_there();
    environment.observers.push(Arc::new(Waiting { as_json, is_controlled }));
    if let Some(total) = args.total_usd {
        let ceilings = Ceilings { cost: Some(total), ..Ceilings::unlimited() };
        environment.budget = Some(Budget::root(ceilings));
    }
    if let Some(directory) = &args.trace {
        create_private_directory(directory).map_err(|error| {
            CliError::new(format!("cannot make the directory `{}`: {error}", directory.display()))
        })?;
        let directory = directory.clone();
        let recorder = TraceRecorder::file_per_run(move |info| {
            let file = directory.join(format!("{}.jsonl", info.id));
            let file = private_file().create(true).append(true).open(file)?;
            Ok(Box::new(file))
        });
        let version = args.gateway.table()?.version();
        environment.observers.push(Arc::new(recorder.prices(version)));
    }
    Ok(environment)
}

/// Whether two paths lead to one directory. A path that does not exist is compared as written.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// One line about how a run ended, or why it is paused.
fn tell(report: &Report, as_json: bool) {
    if as_json {
        let line = json!({ "version": 1, "event": "run", "report": report });
        // A reader that has disconnected must not end the gateway of other runs.
        let _ = writeln!(io::stdout(), "{line}");
        return;
    }
    let totals = &report.totals;
    let why = match report.reason.filter(|reason| *reason != StopReason::Completed) {
        Some(reason) => format!("{} ({reason})", report.status.name()),
        None => report.status.name().to_owned(),
    };
    output::note(&format!(
        "run {}: {why} \u{b7} {} \u{b7} {} \u{b7} {} \u{b7} {}",
        clean(report.run.as_str()),
        counted(totals.steps, "step"),
        tokens(totals.tokens),
        report.spend,
        duration(Millis(totals.elapsed_ms)),
    ));
}
