//! The gateways that a command asks, and their runs.

use std::collections::HashSet;
use std::thread::{self, ScopedJoinHandle};

use endstop::core::expr::did_you_mean;
use serde_json::Value;

use super::client::{AskError, Gateway};
use super::remote::ServerArgs;
use super::text;
use crate::error::CliError;
use crate::limits::{MAX_NAMED_RUNS, MIN_RUN_PREFIX};
use crate::{live, output};

/// The long help of --server.
const SERVER_HELP: &str =
    "Ask the control API at this address\n\nInstead of the processes of this machine.";

/// Where the runs are.
#[derive(Debug, clap::Args)]
#[command(mut_arg("server", |arg| arg.long_help(SERVER_HELP)))]
pub(super) struct Where {
    #[command(flatten)]
    server: ServerArgs,
}

/// A run, and the gateway that has it.
pub(super) struct LiveRun {
    gateway: usize,
    pub(super) id: String,
    /// As its gateway lists it.
    pub(super) value: Value,
}

impl LiveRun {
    /// Whether it is not in memory: every gateway with the same store lists it.
    fn is_stored(&self) -> bool {
        text(&self.value, "/status") == "stored"
    }
}

/// Every gateway that was asked, and its runs.
pub(super) struct LiveRuns {
    gateways: Vec<Gateway>,
    /// In order of the gateways.
    runs: Vec<LiveRun>,
    /// The processes that have not listed their runs: the beginning of a name may be that of another run.
    pub(super) no_answer: Vec<u32>,
}

impl Where {
    /// Whether a gateway at an address is named.
    pub(super) const fn is_remote(&self) -> bool {
        self.server.is_given()
    }

    /// The gateway of --server. `None` without it.
    pub(super) fn remote(&self) -> Result<Option<Gateway>, CliError> {
        self.server.gateway()
    }

    /// The gateways: that of --server, or those of the registry.
    pub(super) fn gateways(&self) -> Result<Vec<Gateway>, CliError> {
        if let Some(gateway) = self.remote()? {
            return Ok(vec![gateway]);
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
    pub(super) fn live_runs(&self) -> Result<LiveRuns, CliError> {
        let gateways = self.gateways()?;
        let (mut runs, mut no_answer) = (Vec::new(), Vec::new());
        let answers = in_parallel(&gateways, Gateway::list);
        for (index, (gateway, answer)) in gateways.iter().zip(answers).enumerate() {
            let listed = match (answer, gateway.process()) {
                (Ok(listed), _) => listed,
                (Err(error), None) => return Err(error.into()),
                (Err(_), Some(process)) if !live::is_there(process) => continue,
                (Err(error), Some(process)) => {
                    output::warn(&error.of(&gateway.name()));
                    no_answer.push(process.pid);
                    continue;
                }
            };
            let all = listed.get("runs").and_then(Value::as_array).cloned().unwrap_or_default();
            for value in all {
                let id = text(&value, "/run").to_owned();
                runs.push(LiveRun { gateway: index, id, value });
            }
        }
        Ok(LiveRuns { gateways, runs: each_once(runs), no_answer })
    }
}

/// The runs without the copies of gateways that only list what is in their store.
fn each_once(runs: Vec<LiveRun>) -> Vec<LiveRun> {
    let in_memory = runs.iter().filter(|run| !run.is_stored());
    let mut known: HashSet<String> = in_memory.map(|run| run.id.clone()).collect();
    runs.into_iter().filter(|run| !run.is_stored() || known.insert(run.id.clone())).collect()
}

impl LiveRuns {
    /// How many processes have not listed their runs, in words; `None` if all have.
    pub(super) fn silent(&self) -> Option<String> {
        match self.no_answer.len() {
            0 => None,
            1 => Some("no answer from 1 process".to_owned()),
            several => Some(format!("no answer from {several} processes")),
        }
    }

    /// Whether a live run has exactly this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.runs.iter().any(|run| run.id == name)
    }

    /// Whether the beginning of a name is that of a live run.
    pub(super) fn has_beginning(&self, name: &str) -> bool {
        name.len() >= MIN_RUN_PREFIX && self.runs.iter().any(|run| run.id.starts_with(name))
    }

    /// Whether a name is that of a live run; the beginning of a name counts if all processes have listed their runs.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.has(name) || self.no_answer.is_empty() && self.has_beginning(name)
    }

    /// The gateways of the processes that have not listed their runs.
    pub(super) fn silent_gateways(&self) -> Vec<&Gateway> {
        let is_silent = |gateway: &&Gateway| {
            gateway.process().is_some_and(|process| self.no_answer.contains(&process.pid))
        };
        self.gateways.iter().filter(is_silent).collect()
    }

    /// The run of a name or of the beginning of one, in the only process that has it.
    pub(super) fn find(&self, name: &str) -> Result<(&Gateway, &LiveRun), CliError> {
        let found = self.find_all(name)?;
        match found.as_slice() {
            [one] => Ok(*one),
            several => {
                let pids = several.iter().filter_map(|(gateway, _)| gateway.process());
                let pids: Vec<String> = pids.map(|process| process.pid.to_string()).collect();
                let id = several.first().map_or(name, |(_, run)| run.id.as_str());
                Err(CliError::new(format!(
                    "run `{id}` is in {} processes (pids {})",
                    several.len(),
                    pids.join(", ")
                ))
                .with_hint("name one with --server"))
            }
        }
    }

    /// The run of a name or of the beginning of one, in every process that has it.
    pub(super) fn find_all(&self, name: &str) -> Result<Vec<(&Gateway, &LiveRun)>, CliError> {
        let exact: Vec<&LiveRun> = self.runs.iter().filter(|run| run.id == name).collect();
        let found = match exact.is_empty() {
            true if name.len() < MIN_RUN_PREFIX || !self.no_answer.is_empty() => Vec::new(),
            true => self.runs.iter().filter(|run| run.id.starts_with(name)).collect(),
            false => exact,
        };
        let mut names: Vec<&str> = found.iter().map(|run| run.id.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if let [_, _, ..] = names.as_slice() {
            let count = names.len();
            names.truncate(MAX_NAMED_RUNS);
            return Err(CliError::new(format!("`{name}` matches {count} runs"))
                .with_hint(format!("write more of it: {}", names.join(", "))));
        }
        let found: Vec<_> = found
            .into_iter()
            .filter_map(|run| Some((self.gateways.get(run.gateway)?, run)))
            .collect();
        if found.is_empty() { Err(self.unknown(name)) } else { Ok(found) }
    }

    /// The error for a name that no live run has.
    pub(super) fn unknown(&self, name: &str) -> CliError {
        let hint = did_you_mean(name, self.runs.iter().map(|run| run.id.as_str()));
        let hint = hint.unwrap_or_else(|| match (self.silent(), self.runs.is_empty()) {
            (Some(silent), _) => format!("{silent}: only whole names of runs are taken now"),
            (None, true) => "no run is live now".to_owned(),
            (None, false) => "`endstop ps` lists the live runs".to_owned(),
        });
        CliError::new(format!("no live run `{name}`")).with_hint(hint)
    }

    /// Every run with its report. One whose gateway cannot read it now is as the gateway lists it, and so is a stored one,
    /// which is not read back for this.
    pub(super) fn reports(&self) -> Vec<(&Gateway, &LiveRun, Value)> {
        let all = self.gateways.iter().enumerate().map(|(index, gateway)| {
            let runs: Vec<_> = self.runs.iter().filter(|run| run.gateway == index).collect();
            (gateway, runs)
        });
        let all: Vec<_> = all.filter(|(_, runs)| !runs.is_empty()).collect();
        let reports = in_parallel(&all, |(gateway, runs)| Ok(reports_of(gateway, runs)));
        let rows = all.into_iter().zip(reports).flat_map(|((gateway, runs), reports)| {
            let rows = runs.into_iter().zip(reports.unwrap_or_default());
            rows.map(move |(run, report)| (gateway, run, report))
        });
        rows.collect()
    }
}

/// The reports of runs of one gateway. Empty if its process has ended since it listed them.
fn reports_of(gateway: &Gateway, runs: &[&LiveRun]) -> Vec<Value> {
    let (mut reports, mut is_silent, mut is_warned) = (Vec::new(), false, false);
    for run in runs {
        if run.is_stored() || is_silent {
            reports.push(run.value.clone());
            continue;
        }
        match gateway.report(&run.id) {
            Ok(report) => reports.push(report),
            Err(AskError::NoAnswer(_))
                if gateway.process().is_some_and(|it| !live::is_there(it)) =>
            {
                return Vec::new();
            }
            Err(error) => {
                // The others would wait as long.
                is_silent = matches!(error, AskError::NoAnswer(_));
                if !is_warned {
                    output::warn(&error.of(&format!("run `{}` of {}", run.id, gateway.name())));
                    is_warned = true;
                }
                reports.push(run.value.clone());
            }
        }
    }
    reports
}

/// Asks in parallel: one that does not answer blocks no other.
pub(super) fn in_parallel<T: Sync, A: Send>(
    all: &[T],
    ask: impl Fn(&T) -> Result<A, AskError> + Sync,
) -> Vec<Result<A, AskError>> {
    let ask = &ask;
    thread::scope(|scope| {
        let asked: Vec<_> = all.iter().map(|one| scope.spawn(move || ask(one))).collect();
        let answer = |it: ScopedJoinHandle<'_, Result<A, AskError>>| {
            it.join().unwrap_or_else(|_| Err(AskError::NoAnswer("cannot ask a gateway".to_owned())))
        };
        asked.into_iter().map(answer).collect()
    })
}

#[cfg(test)]
mod tests;
