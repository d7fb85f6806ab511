//! `endstop agent`: one agent under limits, from the command line.

mod approve;
mod end;
pub(super) mod keep;
mod model;
mod record;
mod setup;
mod watch;

use std::io::{IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, ExecuteError};
use endstop::cancel::CancelToken;
use endstop::cancel::interrupt::cancel_on_interrupt;
use endstop::core::signal::StopSignal;
use endstop::message::Message;
use endstop::model::Model;
use endstop::observe::{ConsoleObserver, Screen, StatusLine, TraceRecorder};
use endstop::tool::builtin::{Builtin, Workspace, tools};
use endstop_gateway::RunKiller;

use super::control_files::{ControlFiles, OutsideAct};
use super::limits::{self, in_words, usd};
use crate::budgets::Budgets;
use crate::epoch::{self, KillEpoch};
use crate::error::{CliError, ExitMeaning, causes};
use crate::history::HistoryArgs;
use crate::limits::MAX_PROMPT_BYTES;
use crate::output;
use crate::webhook::Hook;
use approve::AskTerminal;
use record::Record;
use setup::Setup;
use watch::{Overshoot, Warnings};

const HELP: &str = "\
Examples:
  endstop agent --model scripted \"hello\"
  endstop agent --model anthropic/claude-sonnet-4-5 --tools read,search --usd 0.50 \"What is here?\"
  git diff | endstop agent --model openai/gpt-5.2 --system 'Review this change.' -
  endstop agent --model scripted:loop@claude-sonnet-4-5 --sub-agents --usd 0.05 \"try a limit\"
  endstop agent --model replay:run.jsonl --policy policy.toml --record new.jsonl \"the same again\"
  endstop agent --runs
  endstop agent --resume last --approve=5.00

The answer goes to standard output, everything else to standard error. All
limits apply together: those of --policy or --stop, and those of --steps, --usd
and --timeout. With --resume the stored limits apply too, unless --policy or
--stop replaces them. The first Ctrl-C stops the run after the calls in flight,
the second aborts them, the third ends the process. --resume continues a run
that was stopped so, or whose limit was raised, with its counters.

A cost limit needs a price. Under the default limits a model without one
continues, with a warning; under others its call stops the run, unless
--unpriced says otherwise.

Offline models: `scripted` says one sentence, `scripted:slow` takes its time,
`scripted:loop` calls tools forever, `scripted:fail` refuses. `@MODEL` after one
of them sets its price to that of MODEL. `replay:FILE` repeats the responses of
a recorded run.

Exit codes: 0 completed, 124 stopped or paused by a rule, 130 interrupted or
killed, 1 failed, 2 invalid arguments or unusable input.";

/// Arguments of `endstop agent`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct AgentArgs {
    /// The task; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// The model, such as `anthropic/claude-sonnet-4-5`
    ///
    /// `provider/model`, `scripted`, or `replay:FILE`. docs/models.md lists them.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    limits: limits::Limits,
    /// Tools: read, list, search, write, bash
    ///
    /// With commas between them. `bash` is not confined, and has the environment of this command, API keys included.
    #[arg(long, value_name = "TOOLS", value_parser = builtins)]
    tools: Option<Builtins>,
    /// Directory of the tools [default: .]
    ///
    /// The file tools do not leave it, and `bash` begins in it.
    #[arg(long = "folder", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Let the agent start sub-agents
    ///
    /// They are agents like itself, within the same limits.
    #[arg(long)]
    sub_agents: bool,
    /// With --sub-agents: nesting depth [default: 2]
    #[arg(long, value_name = "N", requires = "sub_agents", value_parser = clap::value_parser!(u8).range(1..=8))]
    depth: Option<u8>,
    /// Make parallel sub-agents wait, not smaller
    ///
    /// Parallel sub-agents whose output caps do not fit together wait for each other. By default Endstop lowers the
    /// caps.
    #[arg(long)]
    no_fair_shares: bool,
    /// System instructions
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Resume a stored run; `last` is the newest
    ///
    /// Without a value, list them.
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    resume: Option<String>,
    /// List the stored runs
    #[arg(long, conflicts_with = "resume")]
    runs: bool,
    /// With --resume: approve the pause, or up to USD
    ///
    /// Without a value the rule no longer pauses this run.
    #[arg(long, value_name = "USD", num_args = 0..=1, require_equals = true, default_missing_value = "", requires = "resume")]
    approve: Option<String>,
    /// Store runs in this directory
    ///
    /// [default: endstop/runs in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", conflicts_with = "no_store")]
    store: Option<PathBuf>,
    /// Store nothing; the run cannot be resumed
    #[arg(long, conflicts_with = "resume")]
    no_store: bool,
    /// Read prices from this file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Write a trace for `endstop replay`
    ///
    /// `endstop explain` reads it too.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Stop and abort everything while FILE exists
    ///
    /// A kill switch: while this file exists nothing begins, and calls in flight are aborted.
    #[arg(long, value_name = "FILE")]
    kill_file: Option<PathBuf>,
    #[command(flatten)]
    control: ControlFiles,
    #[command(flatten)]
    history: HistoryArgs,
    /// Print events; twice: with the model's text
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print one JSON object instead of the answer
    #[arg(long)]
    json: bool,
}

/// Tools of `--tools`.
#[derive(Clone, Debug)]
struct Builtins(Vec<Builtin>);

fn builtins(text: &str) -> Result<Builtins, String> {
    match Builtin::parse(text) {
        Ok(tools) if tools.is_empty() => Err("name at least one, or leave --tools out".to_owned()),
        Ok(tools) => Ok(Builtins(tools)),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the arguments do not fit, or the run cannot begin. How a run ends is an exit code.
pub fn run(args: &AgentArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        if args.runs || args.resume.as_deref() == Some("") {
            return keep::list(args.store.as_deref(), args.json, out).await;
        }
        drive(args, out).await
    });
    // A person may still be asked something on another thread.
    runtime.shutdown_background();
    result
}

async fn drive(args: &AgentArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let epoch = KillEpoch::at_start()?;
    let store = if args.no_store { None } else { Some(keep::open(args.store.as_deref())?) };
    let stored = match (&args.resume, &store) {
        (Some(run), Some(store)) => Some(keep::find(&**store, run).await?),
        _ => None,
    };
    let prompt = prompt(args.prompt.as_deref(), stored.is_some())?;
    let mut setup = Setup::of(args, stored.as_ref())?;
    let done = stored.as_ref().map_or(0, answered);
    let model = model::open(&setup.model, done)?;
    setup.look_up(&*model);
    let screen = Arc::new(Screen::stderr());
    let token = CancelToken::new();
    let overshoot = Overshoot::default();
    let budgets = Arc::clone(&setup.budgets);
    let switch = epoch::switch(epoch.as_ref(), args.kill_file.as_deref(), budgets.kill_switch());
    let mut builder = build(args, &setup, &model, &screen)?.cancel_token(token.clone());
    if let Some(switch) = switch {
        builder = builder.kill_switch(switch);
    }
    builder = builder.observer(overshoot.clone());
    let record = record(args, &setup)?;
    if let Some(record) = &record {
        builder = builder.shared_observer(Arc::<TraceRecorder>::clone(&record.recorder));
    }
    let is_nested = !model::is_offline(&setup.model);
    let hook = Hook::open()?;
    let history = args.history.open("agent", "endstop", !is_nested, is_nested);
    let watching = hook.observer().into_iter().chain(history.observer());
    builder = watching.fold(builder, AgentBuilder::shared_observer);
    builder = builder.accounts(budgets.open(is_nested, hook.budget_warnings())?.accounts);
    budgets.warn_of_forgetting();
    if let Some(store) = &store {
        builder = builder.store(Arc::clone(store));
    }
    let agent = builder.build().map_err(|error| CliError::new(causes(&error)))?;
    let state = match &stored {
        Some(stored) => resumed(args, &agent, &setup, stored, prompt).await?,
        None => AgentState::with_prompt(prompt.unwrap_or_default()),
    };
    let state = setup.keep_in(state);
    if let Some(record) = &record {
        record.begin(&state, &*model, store.as_deref()).await?;
    }
    if let Some(store) = &store {
        keep::begin(&**store, &state).await?;
    }
    setup.warn();
    output::note(setup.announcement().trim_end());
    args.control.tell_of_signals(&setup.policy);
    tokio::spawn(cancel_on_interrupt(token.clone()));
    tokio::spawn(tell_of_interrupt(token));
    let before = stored.as_ref().map_or(0, |stored| stored.messages.len());
    let live = (format!("agent ({})", setup.model), in_words(setup.policy.rules.iter()));
    let state = execute(&agent, state, &args.control, live, (epoch.as_deref(), &*budgets)).await?;
    budgets.leave();
    hook.end().await;
    history.end();
    if let Some(record) = &record {
        record.tell_of_problems();
    }
    let how = end::How { as_json: args.json, is_kept: !args.no_store, before };
    end::tell(&state, &setup, &how, &overshoot.get(), out)
}

/// How many responses of a recorded run the conversation of a stored run has used.
fn answered(state: &AgentState) -> usize {
    if state.previous.is_none() {
        // Requests that failed were answered as well.
        return state.steps().len();
    }
    let is_response = |message: &&Message| matches!(message, Message::Assistant { .. });
    state.messages.iter().filter(is_response).count()
}

/// Drives the run until it ends, or to a pause that is not resolved now.
async fn execute(
    agent: &AgentLoop,
    state: AgentState,
    control: &ControlFiles,
    (command, limits): (String, String),
    (epoch, budgets): (Option<&KillEpoch>, &Budgets),
) -> Result<AgentState, CliError> {
    let mut run = agent.iterate(state).await.map_err(cannot_run)?;
    let handle = run.handle();
    #[cfg(unix)]
    let live = crate::live::LiveAgent::enter(&command, limits, &handle).await;
    #[cfg(not(unix))]
    drop((command, limits));
    budgets.obey_kills(RunKiller::of_run(handle.clone()));
    epoch.map_or(Ok(()), KillEpoch::check)?;
    let outside = control.watch(|act| match act {
        OutsideAct::Pause { by, why } => drop(handle.pause(by, why)),
        OutsideAct::Resume { by } => drop(handle.resume(by, "")),
        OutsideAct::Signal { name, by } => drop(handle.signal_by(name, by, "")),
    });
    let driven = async { while run.advance().await {} };
    tokio::select! {
        // A file that is there already is seen before the first step.
        biased;
        never = outside => match never {},
        () = driven => {}
    }
    #[cfg(unix)]
    if let Some(live) = live {
        live.end().await;
    }
    Ok(run.into_state())
}

fn record(args: &AgentArgs, setup: &Setup) -> Result<Option<Record>, CliError> {
    let Some(path) = &args.record else { return Ok(None) };
    let mut sources: Vec<&Path> = record::replayed(&setup.model).into_iter().collect();
    sources.extend(args.limits.file());
    sources.extend(setup.prices.as_deref());
    Record::new(path, &sources, setup.table).map(Some)
}

/// Reports that a first Ctrl-C was received: the end may take as long as a model call.
async fn tell_of_interrupt(token: CancelToken) {
    token.cancelled().await;
    let is_ours = |source: Option<&str>| source == Some("interrupt");
    if token.signal().is_some_and(|signal| is_ours(signal.source.as_deref())) {
        output::note("stopping after the calls in flight; Ctrl-C again aborts them");
    }
}

/// The prompt, which only a resumed run may lack.
fn prompt(given: Option<&str>, is_resumed: bool) -> Result<Option<String>, CliError> {
    let text = match given {
        Some("-") => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes);
            read.map_err(|error| CliError::new(format!("cannot read the prompt: {error}")))?;
            if bytes.len() as u64 > MAX_PROMPT_BYTES {
                let problem = format!("the prompt has more than {MAX_PROMPT_BYTES} bytes");
                return Err(CliError::new(problem));
            }
            String::from_utf8(bytes).map_err(|_| CliError::new("the prompt is not UTF-8"))?
        }
        Some(text) => text.to_owned(),
        None if is_resumed => return Ok(None),
        None => String::new(),
    };
    if text.trim().is_empty() {
        return Err(CliError::new("missing prompt")
            .with_hint("pass it in quotes, or `-` for standard input"));
    }
    Ok(Some(text))
}

/// The agent with what watches it; without its store.
fn build(
    args: &AgentArgs,
    setup: &Setup,
    model: &Arc<dyn Model>,
    screen: &Arc<Screen>,
) -> Result<AgentBuilder, CliError> {
    let workspace = match setup.tools.is_empty() {
        true => None,
        false => Some(Workspace::new(&setup.directory).map_err(|e| CliError::new(causes(&e)))?),
    };
    let mut below: Option<AgentLoop> = None;
    for _ in 0..setup.depth {
        let builder = setup.equip(AgentLoop::builder("delegate"), model, workspace.as_ref());
        let builder = builder.policy(setup.policy_below()).unbounded();
        let builder = builder.tools(below.as_ref().map(delegate));
        below = Some(builder.build().map_err(|error| CliError::new(causes(&error)))?);
    }
    let mut builder = setup
        .equip(AgentLoop::builder("agent"), model, workspace.as_ref())
        .tools(below.as_ref().map(delegate))
        .policy(setup.policy.clone());
    if !output::is_quiet() {
        let console = ConsoleObserver::on(Arc::clone(screen)).show_text(args.verbose > 1);
        if args.verbose > 0 {
            builder = builder.observer(console);
        } else {
            builder = builder.observer(Warnings(Arc::clone(screen)));
        }
        builder = builder.observer(StatusLine::on(Arc::clone(screen)).width(output::error_width));
    }
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        builder = builder.approver(AskTerminal::new(Arc::clone(screen), setup.policy.clone()));
    }
    Ok(builder)
}

fn delegate(agent: &AgentLoop) -> Arc<dyn endstop::tool::Tool> {
    agent.as_tool(
        "Give a task to another agent with the same tools. It knows nothing of this conversation, and what \
         it spends counts in the limits of this run.",
    )
}

impl Setup {
    fn equip(
        &self,
        builder: AgentBuilder,
        model: &Arc<dyn Model>,
        workspace: Option<&Workspace>,
    ) -> AgentBuilder {
        let given = workspace.map(|workspace| tools(workspace, &self.tools)).unwrap_or_default();
        builder
            .shared_model(Arc::clone(model))
            .prices(self.table)
            .instructions(self.system.as_str())
            .tools(given)
            .tell_model_of_warnings()
            .fair_shares(self.fair_shares)
    }
}

/// A stored run as it resumes.
async fn resumed(
    args: &AgentArgs,
    agent: &AgentLoop,
    setup: &Setup,
    stored: &AgentState,
    prompt: Option<String>,
) -> Result<AgentState, CliError> {
    let mut state = agent.load(&stored.id).await.map_err(cannot_run)?;
    if state.last_stop_signal().is_some_and(StopSignal::is_cancellation) {
        output::note("that run was cancelled: it continues with its counters");
        state = state.reopened();
    } else if agent.has_raised_limits_of(&state).map_err(cannot_run)? {
        output::note("that run was stopped by another limit: it continues with its counters");
    } else if keep::has_ended(&state, prompt.is_some())? {
        output::note("that run has ended: this is a new one, with its conversation");
        state = state.next_execution();
    }
    if let Some(approval) = &args.approve {
        state = approved(approval, setup, state)?;
    }
    Ok(match prompt {
        Some(prompt) => state.with_message(Message::user(prompt)),
        None => state,
    })
}

/// The state with what `--approve` says.
fn approved(approval: &str, setup: &Setup, state: AgentState) -> Result<AgentState, CliError> {
    let held = end::held(&state);
    if held.is_empty() {
        output::warn("no pause rule pauses this run, so --approve has no effect");
        return Ok(state);
    }
    if approval.is_empty() {
        return Ok(state.approved(None));
    }
    let limit = usd(approval)
        .map_err(|problem| CliError::new(format!("`{approval}` cannot be approved: {problem}")))?;
    let mut rules = held.iter().map(|rule| rule.id.as_str());
    if limits::take_an_amount(&setup.policy, rules.clone()) {
        return Ok(state.approved(Some(limit)));
    }
    let rule = rules.find(|id| !limits::take_an_amount(&setup.policy, std::iter::once(*id)));
    let rule = rule.unwrap_or_default();
    let problem = format!("rule `{rule}` does not ask about money, so no amount can be approved");
    Err(CliError::new(problem)
        .with_hint("pass --approve without an amount to let the run continue"))
}

fn cannot_run(error: ExecuteError) -> CliError {
    let failed = CliError::new(causes(&error));
    match error {
        ExecuteError::NoRun(_) => failed.with_hint("`endstop agent --runs` lists the runs"),
        _ => failed.with_exit(ExitMeaning::AnswerIsNo),
    }
}
