//! `endstop replay`: what a policy would have done to recorded runs.

mod text;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use endstop::core::policy::Policy;
use endstop::import::{self, Transcript};
use endstop::price::PriceTable;
use endstop::replay::{Options, Report, replay};
use serde_json::Value;

use crate::error::CliError;
use crate::output;
use crate::policy_source::{load_expression, load_file, load_text};

/// The policy that is replayed where none is given and nobody said which runs to count.
const DEFAULT_POLICY: &str = include_str!("../../data/default-policy.toml");

const HELP: &str = "\
Examples:
  endstop replay
  endstop replay --stop 'cost >= $0.50' ~/.claude/projects
  endstop replay --policy policy.toml --outcomes outcomes.json runs/ --per-run
  endstop replay --stop 'steps >= 50' --json runs/ | jq '.rules'

A run is charged up to the stop. A rule on something that a format does not record is not testable for
its runs: it is counted as such and stops none. Pause rules are approved, and counted.";

/// Arguments of `endstop replay`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// Transcripts, or folders of them; by default where the known tools keep theirs, else a sample
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The policy file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with = "stop")]
    policy: Option<PathBuf>,
    /// A stop condition, in single quotes
    #[arg(long, value_name = "EXPR")]
    stop: Option<String>,
    /// Which runs succeeded: JSON `{"id": true}` or `{"id": {"resolved": true}}`
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    /// Print JSON (docs/replay-json.md), every run included
    #[arg(long)]
    json: bool,
    /// List every run
    #[arg(long)]
    per_run: bool,
    /// Threads; one a core by default
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Prices to use instead of the embedded ones
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// If a path, the policy, the outcomes or the prices cannot be read.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let (transcripts, mut warnings, is_sample) = transcripts(&args.paths)?;
    if transcripts.is_empty() {
        let formats: Vec<&str> = import::FORMATS.iter().map(|format| format.id()).collect();
        output::warn(&format!(
            "no transcripts were found; known formats are {}",
            formats.join(", ")
        ));
    }
    let policy = policy(args)?;
    let outcomes = match &args.outcomes {
        Some(path) => outcomes(path)?,
        None => BTreeMap::new(),
    };
    let prices = prices(args.prices.as_deref())?;
    let prices = prices.as_ref().unwrap_or_else(|| PriceTable::embedded());
    let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs: args.jobs };
    let bar = output::progress(u64::try_from(transcripts.len()).unwrap_or(u64::MAX), "files");
    let replayed = replay(&transcripts, &options, &|_| bar.inc(1));
    bar.finish_and_clear();
    let mut report = replayed.map_err(|error| CliError::new(error.to_string()))?;
    warnings.append(&mut report.warnings);
    report.warnings = warnings;
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else {
        tell(args, &policy, &report, is_sample, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(
    args: &Args,
    policy: &Policy,
    report: &Report,
    is_sample: bool,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    if is_sample {
        output::note("no transcripts were found on this machine: this is the sample that ships");
    }
    write!(out, "{}", text::report(report, policy, args.per_run))?;
    // The answer comes first on a terminal too.
    out.flush()?;
    warn_folded(&report.warnings);
    if !args.per_run && report.stopped > 0 {
        output::note(
            "\nmore: --per-run lists every run, --json is for programs, `endstop explain FILE` shows why",
        );
    }
    Ok(())
}

/// Says each kind of warning once: with hundreds of files, the same line for each would hide the others.
pub(super) fn warn_folded(warnings: &[import::Warning]) {
    let mut folded: BTreeMap<(&str, &str), (&import::Warning, u64)> = BTreeMap::new();
    for warning in warnings {
        let key = (warning.kind.value(), warning.message.as_str());
        folded.entry(key).or_insert((warning, 0)).1 += 1;
    }
    for (warning, files) in folded.values() {
        let more = match files - 1 {
            0 => String::new(),
            others => format!(" (and {} like it)", output::count(others)),
        };
        output::warn(&format!("{warning}{more}"));
    }
}

/// The transcripts to read, what their discovery had to say, and whether they are the sample.
pub(super) fn transcripts(
    paths: &[PathBuf],
) -> Result<(Vec<Transcript>, Vec<import::Warning>, bool), CliError> {
    let homes;
    let (paths, is_default) = if paths.is_empty() {
        homes = import::default_homes();
        (homes.as_slice(), true)
    } else {
        (paths, false)
    };
    let found = import::walk(paths).map_err(|error| CliError::new(error.to_string()))?;
    if is_default && found.transcripts.is_empty() {
        return Ok((import::sample(), found.warnings, true));
    }
    Ok((found.transcripts, found.warnings, false))
}

fn policy(args: &Args) -> Result<Policy, CliError> {
    match (&args.policy, &args.stop) {
        (Some(file), _) => load_file(file),
        (None, Some(expression)) => load_expression(expression),
        (None, None) if args.paths.is_empty() => {
            output::note("no policy was given: replaying the default one (steps, money, stuck)\n");
            load_text(DEFAULT_POLICY, "the default policy")
        }
        (None, None) => Ok(Policy::default()),
    }
}

/// `{id: bool}` or `{id: {"resolved": bool, ..}}`; other keys are ignored.
fn outcomes(path: &Path) -> Result<BTreeMap<String, bool>, CliError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::new(format!("cannot read the outcomes `{shown}`: {error}")))?;
    let form = "outcomes are JSON: {\"id\": true} or {\"id\": {\"resolved\": true}}";
    let bad = |message: String| CliError::new(message).with_hint(form);
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| bad(format!("`{shown}` is not JSON: {error}")))?;
    let Value::Object(entries) = value else {
        return Err(bad(format!("`{shown}` is not an object of outcomes")));
    };
    let mut outcomes = BTreeMap::new();
    for (id, entry) in entries {
        let known = match &entry {
            Value::Object(fields) => fields.get("resolved").unwrap_or(&Value::Null),
            other => other,
        };
        match known {
            Value::Bool(succeeded) => {
                outcomes.insert(id, *succeeded);
            }
            // Nothing is said of this run.
            Value::Null => {}
            _ => {
                return Err(bad(format!(
                    "`{shown}`: the outcome of `{id}` is neither true nor false"
                )));
            }
        }
    }
    Ok(outcomes)
}

/// The price table of a file, if one is named.
pub(super) fn prices(path: Option<&Path>) -> Result<Option<PriceTable>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::new(format!("cannot read the prices `{shown}`: {error}")))?;
    let table = PriceTable::from_json(&text);
    table.map(Some).map_err(|error| CliError::new(format!("`{shown}`: {error}")))
}
