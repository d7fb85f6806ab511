//! `endstop replay`: what a policy would have done to recorded runs.

mod chart;
mod drift;
mod formats;
pub(crate) mod input;
mod measure;
mod suggest;
mod sweep;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use endstop::core::policy::Policy;
use endstop_price::PriceTable;
use endstop_replay::{Options, Report, RunReport, replay};
use endstop_transcript::{self, Transcript};
use serde_json::json;

use super::limits::in_words;
use crate::error::{CliError, causes};
use crate::output;
use crate::policy_source::{load_expression, load_file, load_text};
use input::{Recordings, nothing_read, outcomes, prices, recordings, warn_folded, with_prices};
use measure::without_price;

/// The policy that is replayed by default, if the user did not say which runs to count.
const DEFAULT_POLICY: &str = include_str!("../../data/default-policy.toml");

const HELP: &str = "\
Examples:
  endstop replay
  endstop replay --stop 'cost >= $0.50' ~/.claude/projects
  endstop replay --policy policy.toml --outcomes outcomes.json runs/ --per-run
  endstop replay --stop 'steps >= 50' --json runs/ | jq '.rules'
  endstop replay --sweep 'cost=$0.25..$2.00:$0.25' --chart limits.html runs/
  endstop replay --stop 'no_progress({k}) or repeats >= {k}' --sweep 'k=2..8:1' runs/
  endstop replay --suggest --lose-at-most 1% --outcomes outcomes.json runs/ > policy.toml
  ssh build cat session.jsonl | endstop replay --stop 'steps >= 50' -
  endstop replay --json runs/ > baseline.json
  endstop replay --drift baseline.json --tolerance 10% new-runs/
  endstop replay --formats

A stopped run is charged up to its stop. A rule on something that a format does
not record is not testable on its runs: it stops none of them. Pause rules are
approved, and counted.";

/// Arguments of `endstop replay`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct ReplayArgs {
    /// Transcripts, directories, or `-` for stdin
    ///
    /// By default Endstop reads the directories of the known tools, or a sample if they have no transcripts.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Replay this policy file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    policy: Option<PathBuf>,
    /// Replay a stop condition, in single quotes
    #[arg(long, value_name = "EXPR")]
    stop: Option<String>,
    /// Read which runs succeeded from this file
    ///
    /// JSON: `{"id": true}` or `{"id": {"resolved": true}}`.
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    /// Print JSON, every run included
    ///
    /// docs/replay-json.md describes it.
    #[arg(long)]
    json: bool,
    /// List every run
    #[arg(long)]
    per_run: bool,
    /// Compare limits: `steps=10..100:10`
    ///
    /// `GAUGE=FROM..TO:STEP`, or the values of `{x}` in the policy: `x=3,5,8`. Repeatable.
    #[arg(long, value_name = "SWEEP")]
    sweep: Vec<String>,
    /// With --sweep: draw an .svg or .html file
    ///
    /// It shows spend saved against successes lost.
    #[arg(long, value_name = "FILE", requires = "sweep")]
    chart: Option<PathBuf>,
    /// Propose a policy from these runs
    ///
    /// Limits and detectors, and what each would have saved and lost.
    #[arg(long, conflicts_with_all = ["policy", "stop", "sweep", "per_run"])]
    suggest: bool,
    /// With --suggest: successes to lose
    #[arg(long, value_name = "SHARE", default_value = "1%", requires = "suggest", value_parser = share)]
    lose_at_most: f64,
    /// Compare with an earlier --json; exit 1 on drift
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "stop", "sweep", "suggest", "per_run"])]
    drift: Option<PathBuf>,
    /// With --drift: the change to ignore
    #[arg(long, value_name = "SHARE", default_value = "20%", requires = "drift", value_parser = share)]
    tolerance: f64,
    /// List the formats, and each tool's directories
    #[arg(long, conflicts_with_all = ["paths", "policy", "stop", "sweep", "suggest", "drift", "outcomes"])]
    formats: bool,
    /// Count recorded reservations of Endstop traces
    ///
    /// Calls are refused by their worst case, as they were live.
    #[arg(long)]
    as_live: bool,
    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Read prices from this file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// Reads `1%` or `0.01`. A number of 1 or more without `%` is refused: `1` would be 100%, and people mean 1%.
fn share(text: &str) -> Result<f64, String> {
    let (number, is_percent) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), true),
        None => (text.trim(), false),
    };
    let value: f64 = number.parse().map_err(|_| "write a share such as `1%`".to_owned())?;
    match (is_percent, value) {
        (true, 0.0..=100.0) => Ok(value / 100.0),
        (false, 0.0..1.0) => Ok(value),
        (false, 1.0..=100.0) => Err(format!("write `{number}%`, or a share such as `0.01`")),
        _ => Err("write a share such as `1%` or `0.01`".to_owned()),
    }
}

/// The inputs of a replay.
struct Inputs {
    transcripts: Vec<Transcript>,
    warnings: Vec<endstop_transcript::Warning>,
    is_sample: bool,
    outcomes: BTreeMap<String, bool>,
    prices: Option<PriceTable>,
    jobs: usize,
    as_live: bool,
}

impl Inputs {
    fn find(args: &ReplayArgs) -> Result<Self, CliError> {
        let Recordings { transcripts, warnings, is_sample } = recordings(&args.paths);
        let outcomes = match &args.outcomes {
            Some(path) => outcomes(path)?,
            None => BTreeMap::new(),
        };
        let prices = prices(args.prices.as_deref())?;
        let ReplayArgs { jobs, as_live, .. } = *args;
        Ok(Self { transcripts, warnings, is_sample, outcomes, prices, jobs, as_live })
    }

    fn table(&self) -> &PriceTable {
        self.prices.as_ref().unwrap_or_else(|| PriceTable::embedded())
    }

    /// The policy with the rates of the model that it names for calls without a price.
    fn priced(&self, policy: Policy) -> Result<Policy, CliError> {
        with_prices(policy, self.table())
    }

    fn options<'a>(&'a self, policy: &'a Policy) -> Options<'a> {
        let prices = self.table();
        let Self { outcomes, jobs, as_live, .. } = self;
        Options { policy, outcomes, prices, jobs: *jobs, as_live: *as_live }
    }

    /// Runs `work` with something that counts the inputs that are done, shown on a terminal.
    fn with_progress<T>(&self, work: impl FnOnce(&(dyn Fn(&Transcript) + Sync)) -> T) -> T {
        let total = u64::try_from(self.transcripts.len()).unwrap_or(u64::MAX);
        let bar = output::progress(total, "files");
        let done = work(&|_| bar.inc(1));
        bar.finish_and_clear();
        done
    }

    /// Prints the warnings after the answer, each kind once.
    fn warn(&self, runs: &[RunReport], more: &[endstop_transcript::Warning]) {
        self.warn_of_outcomes(runs);
        if let Some(unpriced) = without_price(runs) {
            output::warn(&unpriced);
        }
        let all: Vec<endstop_transcript::Warning> =
            self.warnings.iter().chain(more).cloned().collect();
        warn_folded(&all);
    }

    /// Outcomes that are of no run, or of more than one.
    fn warn_of_outcomes(&self, runs: &[RunReport]) {
        let known: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        let mut strange = self.outcomes.keys().filter(|id| !known.contains(id.as_str()));
        if let Some(first) = strange.next() {
            output::warn(&format!(
                "{} of {} name no run that was read, such as `{first}`",
                output::count(strange.count() as u64 + 1),
                output::counted(self.outcomes.len() as u64, "outcome"),
            ));
        }
        let shared = text::shared_ids(runs);
        let mut several = self.outcomes.keys().filter(|id| shared.contains(id.as_str()));
        if let Some(first) = several.next() {
            let files: Vec<&str> =
                runs.iter().filter(|run| run.id == *first).map(|run| run.file.as_str()).collect();
            output::warn(&format!(
                "{} of {} are of more than one run each, such as `{first}` of `{}`",
                output::count(several.count() as u64 + 1),
                output::counted(self.outcomes.len() as u64, "outcome"),
                files.into_iter().take(2).collect::<Vec<_>>().join("` and `"),
            ));
        }
    }

    /// The answer about runs if there are none: the warnings alone.
    fn tell_nothing(
        &self,
        more: &[endstop_transcript::Warning],
        as_json: bool,
        out: &mut dyn Write,
    ) -> Result<(), CliError> {
        if !as_json {
            self.warn(&[], more);
            return Ok(());
        }
        let warnings = self.warnings.iter().chain(more).map(endstop_replay::warning_json);
        let warnings: Vec<_> = warnings.collect();
        writeln!(out, "{}", json!({ "version": 1, "runs": 0, "warnings": warnings }))?;
        Ok(())
    }

    fn tell_of_sample(&self) {
        if self.is_sample {
            output::note("no transcripts found on this machine: reading the built-in sample");
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a path, the policy, the outcomes or the prices cannot be read.
pub fn run(args: &ReplayArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if args.formats {
        return formats::run(args.json, out);
    }
    // Errors in the arguments are reported before the runs are read.
    let sweeps = sweep::parse(&args.sweep)?;
    let baseline = args.drift.as_deref().map(drift::baseline).transpose()?;
    let inputs = Inputs::find(args)?;
    if args.suggest {
        return suggest::run(args, &inputs, out);
    }
    if let Some(baseline) = &baseline {
        return drift::run(args, baseline, &inputs, out);
    }
    if !sweeps.is_empty() {
        return sweep::run(args, &sweeps, &inputs, out);
    }
    one_policy(args, &inputs, out)
}

fn one_policy(
    args: &ReplayArgs,
    inputs: &Inputs,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let policy = inputs.priced(policy(args)?)?;
    let mut report = counted(inputs, &policy)?;
    if args.json {
        report.warnings = [inputs.warnings.as_slice(), &report.warnings].concat();
        writeln!(out, "{}", report.to_json())?;
        inputs.warn_of_outcomes(&report.per_run);
        return has_read(args, report.runs);
    }
    inputs.tell_of_sample();
    if report.runs == 0 {
        inputs.warn(&report.per_run, &report.warnings);
        return has_read(args, 0);
    }
    write!(out, "{}", output::shown(&text::report(&report, &policy, args.per_run)))?;
    // The answer comes first on a terminal too.
    out.flush()?;
    inputs.warn(&report.per_run, &report.warnings);
    output::note(&text::more(&report, &policy, args.per_run));
    Ok(ExitCode::SUCCESS)
}

/// Success, unless paths were named and no run was found in them. The error of each was printed before.
fn has_read(args: &ReplayArgs, runs: u64) -> Result<ExitCode, CliError> {
    match runs {
        0 if !args.paths.is_empty() => Err(nothing_read(&args.paths)),
        0 => Err(CliError::new("no run in the directories of the known tools")
            .with_hint("pass files or directories with transcripts")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Replays one policy.
fn counted(inputs: &Inputs, policy: &Policy) -> Result<Report, CliError> {
    let options = inputs.options(policy);
    let replayed = inputs.with_progress(|done| replay(&inputs.transcripts, &options, done));
    replayed.map_err(|error| CliError::new(causes(&error)))
}

fn policy(args: &ReplayArgs) -> Result<Policy, CliError> {
    match (&args.policy, &args.stop) {
        (Some(file), _) => load_file(file),
        (None, Some(expression)) => load_expression(expression),
        (None, None) if args.paths.is_empty() => {
            let policy = load_text(DEFAULT_POLICY, "the default policy")?;
            let words = in_words(policy.rules.iter());
            output::note(&format!(
                "no policy given: replaying the default policy, which {words}\n"
            ));
            Ok(policy)
        }
        (None, None) => Ok(Policy::default()),
    }
}
