//! The common parts of `endstop run` and `endstop serve`: the flags of a gateway, and starting one.

pub(super) mod unseen;
mod upstream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use endstop::cancel::MemoryKillSwitch;
use endstop::core::Program;
use endstop::core::policy::{Accounting, OnClientGone, OnServerError, OnUnknownUsage, Policy};
use endstop::core::probe::Probes;
use endstop::runtime::RunEnvironment;
use endstop_gateway::{
    Config, Control, ControlError, Gateway, KeyDesk, PauseLimit, RefusalObserver, Runs, StartError,
    StopWith, StoredRuns, Tunnels, UpstreamKeys, UpstreamObserver, Upstreams,
};
use endstop_price::PriceTable;
use endstop_sim::{Script, Sim};

use self::upstream::Upstream;
pub(super) use self::upstream::is_sim;
use super::replay::input::{prices, with_prices};
use crate::duration::span;
use crate::epoch::{self, KillEpoch};
use crate::error::{CliError, ExitMeaning, causes};
use crate::output;

/// Flags of a gateway.
#[derive(Debug, clap::Args)]
pub(super) struct GatewayArgs {
    /// Send model calls to this URL, or `sim`
    ///
    /// One address for all APIs, `openai=URL,anthropic=URL,gemini=URL`, or `sim`, `sim:SCRIPT` for the built-in
    /// scripted model. [default: OPENAI_BASE_URL, ANTHROPIC_BASE_URL and GOOGLE_GEMINI_BASE_URL if they are set, and
    /// the providers otherwise]
    #[arg(long, value_name = "WHERE")]
    upstream: Option<String>,
    /// Stop with answer or error [default: answer]
    ///
    /// `answer`: a stopped client receives a normal response that ends its loop. `error`: it receives HTTP 402.
    #[arg(hide_possible_values = true, hide_default_value = true, long, value_name = "HOW", value_enum, default_value_t = HowToStop::Answer)]
    stop_with: HowToStop,
    /// Send calls whose cost cannot be bounded
    ///
    /// Send requests with these things, or with all of them, although money or tokens are limited.
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 0..=1, require_equals = true,
        default_missing_value = Accounting::ALL)]
    allow_unmetered: Vec<String>,
    /// If a client disconnects: auto, drain or close
    ///
    /// `auto` closes a stream and receives any other response in full, `drain` receives both, `close` closes both.
    /// [default: the policy's value, or auto]
    #[arg(hide_possible_values = true, long, value_name = "HOW", value_parser = client_gone())]
    on_client_gone: Option<OnClientGone>,
    /// Charge without usage data: hold or estimate
    ///
    /// The charge for a complete response without a usage report: the worst case (`hold`), or an `estimate`.
    /// [default: the policy's value, or hold]
    #[arg(hide_possible_values = true, long, value_name = "HOW", value_parser = unknown_usage())]
    unknown_usage: Option<OnUnknownUsage>,
    /// Charge error responses: auto or free
    ///
    /// The charge for an error response (500, 503, 529) in the shape of the API. `auto`: nothing from a provider's
    /// own API, and the worst case from others. `free`: nothing. [default: the policy's value, or auto]
    #[arg(hide_possible_values = true, long, value_name = "HOW", value_parser = server_errors())]
    server_errors: Option<OnServerError>,
    /// Time that a paused call waits
    ///
    /// A call that waits longer gets the stop response.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "10m")]
    pub(super) pause_limit: Duration,
    /// Time for an upstream to answer
    ///
    /// A call without the beginning of a response by then fails with 504.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "1h")]
    answer_within: Duration,
    /// Default output cap of a call
    ///
    /// It applies if money or tokens are limited.
    #[arg(long, value_name = "TOKENS", default_value_t = 32_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_output: u64,
    /// Do not send calls with a lower output cap
    ///
    /// A limit lowers the output cap of a call that does not fit. [default: the policy's value, or 16]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    min_output: Option<u64>,
    /// Make parallel calls wait, not smaller
    ///
    /// Parallel calls whose output caps do not fit together wait for each other. By default Endstop lowers the caps.
    #[arg(long)]
    no_fair_shares: bool,
    /// Tell the model its budget: at 80%,95%
    ///
    /// Once so much of the budget is used, the next request tells the model how much is left, in one line. Each
    /// percentage counts once.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = percent)]
    tell_model: Vec<u64>,
    /// Stop and abort everything while FILE exists
    ///
    /// A kill switch: while this file exists no call begins, and calls in flight are aborted.
    #[arg(long, value_name = "FILE")]
    pub(super) kill_file: Option<PathBuf>,
    /// Read prices from this file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HowToStop {
    Answer,
    Error,
}

fn client_gone() -> impl TypedValueParser<Value = OnClientGone> {
    let names = PossibleValuesParser::new(OnClientGone::ALL.map(OnClientGone::name));
    names.map(|name| named(&OnClientGone::ALL, OnClientGone::name, &name))
}

fn unknown_usage() -> impl TypedValueParser<Value = OnUnknownUsage> {
    let names = PossibleValuesParser::new(OnUnknownUsage::ALL.map(OnUnknownUsage::name));
    names.map(|name| named(&OnUnknownUsage::ALL, OnUnknownUsage::name, &name))
}

fn server_errors() -> impl TypedValueParser<Value = OnServerError> {
    let names = PossibleValuesParser::new(OnServerError::ALL.map(OnServerError::name));
    names.map(|name| named(&OnServerError::ALL, OnServerError::name, &name))
}

/// The value of a name, which the parser has checked.
#[expect(clippy::unreachable, reason = "the parser takes no other names")]
fn named<T: Copy>(all: &[T], name_of: fn(T) -> &'static str, name: &str) -> T {
    let found = all.iter().copied().find(|it| name_of(*it) == name);
    found.unwrap_or_else(|| unreachable!("`{name}` was checked"))
}

/// Reads a part of a budget: `80%`, `80`.
fn percent(text: &str) -> Result<u64, String> {
    let number = text.trim().trim_end_matches('%').parse().ok();
    number
        .filter(|percent| (1..=99).contains(percent))
        .ok_or_else(|| "write a percentage from 1% to 99%, such as `80%`".to_owned())
}

/// The script of a name; none is the usual one.
pub(super) fn script(name: &str) -> Result<Script, String> {
    if name.is_empty() {
        return Ok(Script::default());
    }
    name.parse::<Script>().map_err(|error| error.to_string())
}

/// A gateway that listens, with the scripted model if calls go there.
pub(super) struct Open {
    pub(super) gateway: Gateway,
    pub(super) sim: Option<Sim>,
}

/// The settings without a flag.
pub(super) struct GatewaySetup {
    pub(super) listen: SocketAddr,
    pub(super) policy: Policy,
    pub(super) runs: Runs,
    pub(super) environment: RunEnvironment,
    /// The kill epoch at the start of this process.
    pub(super) epoch: Option<Arc<KillEpoch>>,
    /// Turned on by `kill --all` of another machine.
    pub(super) shared_kill: Option<MemoryKillSwitch>,
    pub(super) control: Control,
    pub(super) stored_runs: Option<StoredRuns>,
    /// The keys of clients for the control API, if there are some.
    pub(super) key_desk: Option<Arc<dyn KeyDesk>>,
    pub(super) refusals: Option<Arc<dyn RefusalObserver>>,
    pub(super) upstream_observer: Option<Arc<dyn UpstreamObserver>>,
    pub(super) tunnels: Tunnels,
    /// Hosts of model providers that are tunneled in any case.
    pub(super) direct_hosts: Vec<String>,
    /// Upstreams by their variables, for programs that call others than the environment names. `--upstream` takes
    /// precedence.
    pub(super) upstreams: BTreeMap<&'static str, String>,
}

/// The policy as it is evaluated.
///
/// # Errors
/// Returns an error if it cannot be compiled.
pub(super) fn compiled(policy: &Policy) -> Result<Arc<Program>, CliError> {
    let program = Program::new(policy, &Probes::new());
    program.map(Arc::new).map_err(|error| CliError::new(causes(&error)))
}

impl GatewayArgs {
    /// Whether the scripted model is the upstream.
    pub(super) fn is_sim(&self) -> bool {
        self.upstream.as_deref().is_some_and(is_sim)
    }

    /// Whether an upstream is given.
    pub(super) const fn has_upstream(&self) -> bool {
        self.upstream.is_some()
    }

    /// The price table.
    ///
    /// # Errors
    /// Returns an error if its file cannot be read.
    pub(super) fn table(&self) -> Result<&'static PriceTable, CliError> {
        Ok(match prices(self.prices.as_deref())? {
            // Once a process, and its runs ask it until the end.
            Some(table) => Box::leak(Box::new(table)),
            None => PriceTable::embedded(),
        })
    }

    /// Starts the gateway, and the scripted model before it.
    ///
    /// # Errors
    /// Returns an error if an address cannot be used, or something cannot be read.
    pub(super) async fn open(&self, setup: GatewaySetup) -> Result<Open, CliError> {
        let prices = self.table()?;
        let mut policy = setup.policy;
        self.account(&mut policy.accounting);
        let policy = with_prices(policy, prices)?;
        let program = compiled(&policy)?;
        unseen::unseen(&policy).iter().for_each(|warning| output::warn(warning));
        let (upstreams, sim) = self.upstreams(&setup.upstreams).await?;
        let mut config = Config::new(upstreams, program, setup.runs);
        config.listen = setup.listen;
        config.upstream_keys = UpstreamKeys::from_environment(environment);
        config.environment = setup.environment;
        let (epoch, file) = (setup.epoch.as_ref(), self.kill_file.as_deref());
        if let Some(switch) = epoch::switch(epoch, file, setup.shared_kill) {
            config.environment.kill = Some(Arc::new(switch));
        }
        config.stop_with = match self.stop_with {
            HowToStop::Answer => StopWith::Answer,
            HowToStop::Error => StopWith::Error,
        };
        config.pause = PauseLimit(self.pause_limit);
        config.default_output = self.max_output;
        config.fair_shares = !self.no_fair_shares;
        config.tell_model.clone_from(&self.tell_model);
        config.prices = prices;
        config.bounds.answer_within = self.answer_within;
        config.control = setup.control;
        config.stored_runs = setup.stored_runs;
        config.key_desk = setup.key_desk;
        config.refusals = setup.refusals;
        config.upstream_observer = setup.upstream_observer;
        config.tunnels = setup.tunnels;
        config.direct_hosts = setup.direct_hosts;
        let gateway = Gateway::start(config).await.map_err(|error| not_started(&error))?;
        Ok(Open { gateway, sim })
    }

    /// Flags take precedence over the policy.
    fn account(&self, accounting: &mut Accounting) {
        accounting.allow_unmetered.extend(self.allow_unmetered.iter().cloned());
        accounting.on_client_gone = self.on_client_gone.or(accounting.on_client_gone);
        accounting.on_unknown_usage = self.unknown_usage.or(accounting.on_unknown_usage);
        accounting.on_server_error = self.server_errors.or(accounting.on_server_error);
        accounting.min_output_tokens = self.min_output.or(accounting.min_output_tokens);
    }

    async fn upstreams(
        &self,
        of_program: &BTreeMap<&'static str, String>,
    ) -> Result<(Upstreams, Option<Sim>), CliError> {
        let environment = |name: &str| {
            let own = of_program.get(name).filter(|_| !is_behind_endstop(name));
            own.cloned().or_else(|| environment(name))
        };
        let given = self.upstream.as_deref().map(Upstream::parse).transpose();
        let given = given.map_err(|error| {
            CliError::new(format!("--upstream: {error}")).with_hint(upstream::HINT)
        })?;
        let upstreams = match &given {
            None => Upstreams::from_environment(environment),
            Some(Upstream::All(base)) => {
                Upstreams::all(base).map(|all| all.with_endstop(environment))
            }
            Some(Upstream::Each(each)) => Upstreams::from_environment(|name| {
                let given = each.iter().find(|(variable, _)| *variable == name);
                given.map(|(_, address)| address.clone()).or_else(|| environment(name))
            }),
            Some(Upstream::Sim(name)) => {
                let failed = |error: String| CliError::new(format!("the scripted model: {error}"));
                let script = script(name).map_err(failed)?;
                let sim = Sim::start(script).await.map_err(|error| failed(error.to_string()))?;
                let all = Upstreams::scripted(&format!("http://{}", sim.addr()));
                let all = all.map_err(|error| CliError::new(causes(&error)))?;
                return Ok((all, Some(sim)));
            }
        };
        let upstreams =
            upstreams.map_err(|error| CliError::new(causes(&error)).with_hint(upstream::HINT))?;
        Ok((upstreams, None))
    }
}

fn not_started(error: &StartError) -> CliError {
    let text = CliError::new(causes(error));
    match error {
        StartError::Control(ControlError::NoToken(_)) => {
            text.with_hint("add --control-token-env VAR")
        }
        StartError::Control(_) if cfg!(unix) => {
            text.with_hint("see --control-socket and --control")
        }
        _ => text,
    }
}

/// Waits for Ctrl-C, or a request to end, then for `ending`; a second Ctrl-C does not wait.
pub(super) async fn hear_the_end(ending: impl Future<Output = ()>) -> ExitCode {
    asked_to_end().await;
    output::note("endstop: ending after the calls in flight; Ctrl-C again ends it immediately");
    tokio::select! {
        () = ending => ExitCode::SUCCESS,
        () = asked_to_end() => ExitCode::from(ExitMeaning::Interrupted.code()),
    }
}

async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Without the signal's handler the system ends the process.
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    {
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// Whether a variable points at the Endstop that runs this process: its limits hold too, whatever the program is.
fn is_behind_endstop(name: &str) -> bool {
    let outer = environment("ENDSTOP_BASE_URL");
    outer.is_some_and(|outer| environment(name).is_some_and(|base| base.starts_with(&outer)))
}

/// A variable of the environment; an empty one counts as missing.
fn environment(name: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    // The one that is written with its version.
    let is_versioned = name == "GEMINI_API_BASE";
    let base = value.trim_end_matches('/').strip_suffix("/v1beta").filter(|_| is_versioned);
    Some(base.map_or_else(|| value.clone(), str::to_owned))
}
