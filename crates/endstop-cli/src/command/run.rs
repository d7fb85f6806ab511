//! `endstop run`: any agent program under limits, through a gateway of its own.

mod child;
mod end;
mod environment;
mod line;
mod processes;
mod signals;
mod stages;
mod supervise;
mod terminal;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use endstop::agent::driver::Surroundings;
use endstop::core::policy::{OnUnpriced, Policy};
use endstop::observe::{Report, Reporter, Shadow, TraceRecorder};
use endstop::store::RunId;
use endstop_gateway::{Counts, Runs};

use super::gateway::{GatewayArgs, Open, Setting, compiled};
use super::limits::{Limits, OF_COMMAND, in_words, span};
use crate::error::{CliError, ExitMeaning};
use crate::output;
use child::Ended;
use end::{JsonFile, Story};
use line::StatusRow;
use signals::Signals;
use stages::Stages;
use supervise::{State, Supervisor};
use terminal::Terminal;
use watch::{Stand, Watcher};

const HELP: &str = "\
Examples:
  endstop run --usd 2 --steps 25 -- my-agent \"fix the bug\"
  endstop run --usd 5 -- claude -p \"fix the failing test\"
  endstop run --policy policy.toml --json-file bill.json -- python agent.py
  endstop run --dry-run --usd 2 -- my-agent \"what would it have cost?\"
  endstop run --upstream sim --steps 3 -- my-agent \"without a key and without a network\"

The command gets the addresses of a gateway on loopback in OPENAI_BASE_URL, ANTHROPIC_BASE_URL and the
like; what they said before is where the gateway sends its calls. All its model calls, those of its
sub-agents too, count in one run. Without limits it is 100 steps and $5.00.

When a limit is reached, model calls are answered with a stop and cost nothing any more. The command has
--grace to end by itself, then it and all that it began get SIGTERM, 5 seconds later SIGKILL.

Exit codes: 124 if a limit stopped the run, whatever the command's own code was (--preserve-status
passes that on); else the command's own, 128+N if signal N ended it; 125 if endstop itself failed,
wrong arguments included; 126 if the command cannot be executed; 127 if it was not found.";

/// Arguments of `endstop run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Count and report, stop nothing: what would the limits have stopped, and when?
    #[arg(long)]
    dry_run: bool,
    /// Write what happened as JSON when the command has ended
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Write an Endstop trace of the run, for `endstop replay` and `endstop explain`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How long the command may take to end by itself once the run has stopped
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10s")]
    grace: Duration,
    /// How long the gateway stays for processes that the command left behind, since their last call
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "30s")]
    linger: Duration,
    /// End with the command's own code also where a limit stopped the run
    #[arg(long)]
    preserve_status: bool,
    /// The command and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Runs the command line.
///
/// # Errors
/// If the command cannot be begun, or what it did not be written. How it ends is an exit code.
pub fn run(args: &Args, _out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot begin: {error}")))?;
    let result = runtime.block_on(drive(args));
    runtime.shutdown_background();
    // The other codes may be those of the command.
    result.map_err(|error| match error.code {
        code if code == ExitMeaning::Usage.code() => error.with_exit(ExitMeaning::OwnFailure),
        _ => error,
    })
}

/// What is known of the run beside what the supervisor sees.
struct Books {
    report: Arc<Mutex<Option<Report>>>,
    shadow: Option<Arc<Shadow>>,
    trace: Option<Arc<TraceRecorder>>,
    stand: tokio::sync::watch::Receiver<Stand>,
}

async fn drive(args: &Args) -> Result<ExitCode, CliError> {
    let chosen = args.limits.choose(None, OF_COMMAND)?;
    let json_file = args.json_file.as_deref().map(JsonFile::prepare).transpose()?;
    let (around, books) = surroundings(args, &chosen.policy)?;
    let id = RunId::new();
    // Under --dry-run nothing stops it; calls without a price are then told by the shadow.
    let unbounded =
        Policy { unbounded: true, on_unpriced: Some(OnUnpriced::Ignore), ..Policy::default() };
    let setting = Setting {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        policy: if args.dry_run { unbounded } else { chosen.policy.clone() },
        runs: Runs::One(id.clone()),
        around,
        control_token: None,
        keep: None,
    };
    let open = args.gateway.open(setting).await?;
    announce(args, &chosen.policy, chosen.is_default);
    let ended = supervised(args, &open, &id, books.stand.clone()).await?;
    let stopped = books.stand.borrow().stopped.clone();
    let counts = close(open, &id).await;
    if let Some((run, error)) = books.trace.as_ref().and_then(|trace| trace.problems().first) {
        output::warn(&format!("the trace of run `{run}` is cut short: {error}"));
    }
    let report = books.report.lock().unwrap_or_else(PoisonError::into_inner).take();
    let story = Story {
        run: id.to_string(),
        command: &args.command,
        ended,
        stopped,
        preserves_status: args.preserve_status,
        counts,
        report,
        shadow: books.shadow.as_deref(),
    };
    story.tell();
    if let Some(file) = json_file {
        file.write(&story.to_json())?;
    }
    Ok(ExitCode::from(story.exit_code()))
}

/// Who watches the run.
fn surroundings(args: &Args, policy: &Policy) -> Result<(Surroundings, Books), CliError> {
    let (watcher, stand) = Watcher::new();
    let report = Arc::new(Mutex::new(None));
    let reporter = {
        let last = Arc::clone(&report);
        Reporter::new(move |report: &Report| {
            if report.parent.is_none() {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.clone());
            }
        })
    };
    let mut around = Surroundings::default();
    around.observers.push(Arc::new(watcher));
    around.observers.push(Arc::new(reporter));
    let shadow = match args.dry_run {
        true => Some(Arc::new(Shadow::new(compiled(policy)?))),
        false => None,
    };
    if let Some(shadow) = &shadow {
        around.observers.push(Arc::<Shadow>::clone(shadow));
    }
    let trace = args.trace.as_ref().map(|path| {
        let file = File::create(path).map_err(|error: io::Error| {
            CliError::new(format!("cannot write `{}`: {error}", path.display()))
        })?;
        let recorder = TraceRecorder::one_file(file).prices(args.gateway.table()?.version());
        Ok::<_, CliError>(Arc::new(recorder.continues(true)))
    });
    let trace = trace.transpose()?;
    if let Some(trace) = &trace {
        around.observers.push(Arc::<TraceRecorder>::clone(trace));
    }
    Ok((around, Books { report, shadow, trace, stand }))
}

/// Begins the command and waits until it has ended.
async fn supervised(
    args: &Args,
    open: &Open,
    id: &RunId,
    stand: tokio::sync::watch::Receiver<Stand>,
) -> Result<Ended, CliError> {
    let variables =
        environment::variables(open.gateway.addr(), id, args.gateway.is_sim(), |name| {
            std::env::var(name).ok()
        });
    let begun = Instant::now();
    processes::adopt_orphans();
    let signals =
        Signals::new().map_err(|error| CliError::new(format!("cannot hear signals: {error}")))?;
    let main = child::begin(&args.command, &variables)?;
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
        stand,
        signals,
        terminal,
        line: StatusRow::new(),
        stages: Stages::Going,
        begun,
        grace: args.grace,
        linger: args.linger,
        pause_limit: args.gateway.pause_limit,
        state: State::new(wants_terminal),
    };
    Ok(supervisor.watch().await)
}

/// Ends the gateway, so that every call is settled.
async fn close(open: Open, id: &RunId) -> Counts {
    let counts = open.gateway.counts(id).unwrap_or_default();
    open.gateway.shut_down().await;
    counts
}

/// Says which limits hold.
fn announce(args: &Args, policy: &Policy, is_default: bool) {
    let mut text = format!("endstop: limits {}", in_words(policy.rules.iter()));
    if is_default {
        text.push_str(
            " (the default; --steps, --usd, --tokens, --timeout, --stop and --policy set others)",
        );
    }
    if args.dry_run {
        text.push_str("; dry run: nothing is stopped");
    }
    output::note(output::wrapped(&text, output::error_width(), "  ").trim_end());
}
