//! The subcommands: a file each, a row in each of the two lists below.

pub mod agent;
pub mod budget;
pub mod check;
pub mod completions;
pub mod config;
#[cfg(unix)]
pub mod control;
mod control_files;
pub mod convert;
#[cfg(unix)]
pub mod demo;
pub mod demo_agent;
#[cfg(unix)]
pub mod doctor;
pub mod explain;
mod gateway;
pub mod key;
mod limits;
pub mod man;
pub mod price;
pub mod prune;
mod redact;
pub mod replay;
#[cfg(unix)]
pub mod run;
#[cfg(any(not(unix), test))]
pub mod run_refused;
pub mod serve;
pub mod sim;
pub mod spend;
mod trip;

use std::io::Write;
use std::process::ExitCode;

use clap::Subcommand;

use crate::error::CliError;

/// A subcommand with its arguments, in the order in which help lists them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run any agent program under limits; exit 124 if one stopped it
    #[cfg(unix)]
    Run(Box<run::RunArgs>),
    /// Run any agent program under limits (refused on this system)
    #[cfg(not(unix))]
    Run(run_refused::RefusedArgs),
    /// Show whether `run` can limit a command here; exit 1 if it cannot
    #[cfg(unix)]
    Doctor(doctor::DoctorArgs),
    /// Show whether `run` can limit a command here (refused on this system)
    #[cfg(not(unix))]
    Doctor(run_refused::RefusedArgs),
    /// See a runaway agent with and without limits, offline
    #[cfg(unix)]
    Demo(demo::DemoArgs),
    /// See a runaway agent with and without limits (refused on this system)
    #[cfg(not(unix))]
    Demo(run_refused::RefusedArgs),
    /// The agent of the demo
    #[command(hide = true)]
    DemoAgent(demo_agent::DemoAgentArgs),
    /// Serve many runs through one gateway, each under the same limits
    Serve(Box<serve::ServeArgs>),
    /// Serve a scripted model, without a key or a network
    Sim(sim::SimArgs),
    /// Run the built-in agent under limits; exit 124 if one stopped it
    Agent(Box<agent::AgentArgs>),
    /// List the live runs of this user, and why each waits
    #[cfg(unix)]
    Ps(control::PsArgs),
    /// Print a run that is live or in the history, as JSON
    #[cfg(unix)]
    Show(control::ShowArgs),
    /// Follow a live run: steps, cost, warnings, pauses and its end
    #[cfg(unix)]
    Tail(control::tail::TailArgs),
    /// Stop a live run; its calls in flight finish
    #[cfg(unix)]
    #[command(after_help = "Examples:\n  endstop cancel nightly-17 --why \"done early\"")]
    Cancel(control::ActArgs),
    /// Stop a live run, or all of them, and abort their calls in flight
    #[cfg(unix)]
    Kill(control::KillArgs),
    /// Pause the calls of a live run
    #[cfg(unix)]
    #[command(after_help = "Examples:\n  endstop pause nightly-17\n  endstop resume nightly-17")]
    Pause(control::ActArgs),
    /// Resume a run that `endstop pause` paused
    #[cfg(unix)]
    Resume(control::ResumeArgs),
    /// Approve a pause rule, so that the run continues
    #[cfg(unix)]
    Approve(control::ApproveArgs),
    /// Set an external signal of a live run
    #[cfg(unix)]
    Signal(control::SignalArgs),
    /// Show budgets over time: limit, spent, held, left, reset
    Budget(budget::BudgetArgs),
    /// Issue, list, change and revoke keys of clients
    Key(key::KeyArgs),
    /// Replay a policy over recorded runs: savings and losses
    Replay(replay::ReplayArgs),
    /// Print what runs cost by day, model, project or budget
    Spend(spend::SpendArgs),
    /// Show a policy and its bounds; exit 1 if it is unbounded
    Check(check::CheckArgs),
    /// Show the trip record of a recorded run
    Explain(explain::ExplainArgs),
    /// Write recorded runs as ATIF or as Endstop traces
    Convert(convert::ConvertArgs),
    /// Print the cost of a model call: tokens, rates, exact total
    Price(price::PriceArgs),
    /// Remove old stored runs, and the old part of the history
    Prune(prune::PruneArgs),
    /// Print the defaults from the configuration and the environment
    Config(config::ConfigArgs),
    /// Print the completion script of a shell
    Completions(completions::CompletionsArgs),
    /// Print a man page, or write all of them
    Man(man::ManArgs),
}

impl Command {
    /// Runs the subcommand; data goes to `out`.
    ///
    /// # Errors
    ///
    /// Returns the errors of the subcommand, ready to be printed.
    pub fn run(&self, out: &mut dyn Write) -> Result<ExitCode, CliError> {
        match self {
            #[cfg(unix)]
            Self::Demo(args) => demo::run(args, out),
            #[cfg(unix)]
            Self::Run(args) => run::run(args, out),
            #[cfg(unix)]
            Self::Doctor(args) => doctor::run(args, out),
            #[cfg(not(unix))]
            Self::Demo(_) => run_refused::refuse("demo"),
            #[cfg(not(unix))]
            Self::Run(_) => run_refused::refuse("run"),
            #[cfg(not(unix))]
            Self::Doctor(_) => run_refused::refuse("doctor"),
            Self::DemoAgent(args) => demo_agent::run(args, out),
            Self::Serve(args) => serve::run(args, out),
            Self::Sim(args) => sim::run(args, out),
            Self::Agent(args) => agent::run(args, out),
            #[cfg(unix)]
            Self::Ps(args) => control::ps(args, out),
            #[cfg(unix)]
            Self::Show(args) => control::show(args, out),
            #[cfg(unix)]
            Self::Tail(args) => control::tail::run(args, out),
            #[cfg(unix)]
            Self::Cancel(args) => control::cancel(args, out),
            #[cfg(unix)]
            Self::Kill(args) => control::kill(args, out),
            #[cfg(unix)]
            Self::Pause(args) => control::pause(args, out),
            #[cfg(unix)]
            Self::Resume(args) => control::resume(args, out),
            #[cfg(unix)]
            Self::Approve(args) => control::approve(args, out),
            #[cfg(unix)]
            Self::Signal(args) => control::signal(args, out),
            Self::Budget(args) => budget::run(args, out),
            Self::Key(args) => key::run(args, out),
            Self::Replay(args) => replay::run(args, out),
            Self::Spend(args) => spend::run(args, out),
            Self::Explain(args) => explain::run(args, out),
            Self::Check(args) => check::run(args, out),
            Self::Convert(args) => convert::run(args, out),
            Self::Price(args) => price::run(args, out),
            Self::Prune(args) => prune::run(args, out),
            Self::Config(args) => config::run(args, out),
            Self::Completions(args) => completions::run(args, out),
            Self::Man(args) => man::run(args, out),
        }
    }
}
