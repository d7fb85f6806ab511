//! `--sweep`: a row for each limit, the answer first.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use endstop::core::Policy;
use endstop::core::policy::{Action, Rule};
use endstop_replay::{
    Candidate, Comparison, RunReport, Sweep, SweepError, Unpriced, candidates, compare,
};
use serde_json::{Value, json};

use super::chart::{self, Chart, Row};
use super::measure::{Measure, of, percent};
use super::{Inputs, ReplayArgs, has_read};
use crate::error::CliError;
use crate::output::{self, count, counted, table};
use crate::policy_source::{load_expression, load_text, read_file};

/// The rule that a swept gauge becomes.
const SWEPT: &str = "swept";

/// Reads the sweeps.
pub(super) fn parse(texts: &[String]) -> Result<Vec<Sweep>, CliError> {
    texts.iter().map(|text| text.parse::<Sweep>().map_err(of_sweep)).collect()
}

fn of_sweep(error: SweepError) -> CliError {
    CliError::new(error.message).with_hint(error.hint)
}

pub(super) fn run(
    args: &ReplayArgs,
    sweeps: &[Sweep],
    inputs: &Inputs,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let (candidates, policies) = policies(args, inputs, sweeps)?;
    if let Some(path) = &args.chart {
        chart::check_name(path)?;
    }
    let nothing = Policy::default();
    let options = inputs.options(&nothing);
    let compared =
        inputs.with_progress(|done| compare(&inputs.transcripts, &policies, &options, done));
    let compared = compared.map_err(|error| CliError::new(error.to_string()))?;
    let rows: Vec<Row> = candidates
        .into_iter()
        .enumerate()
        .map(|(index, candidate)| Row { candidate, effect: compared.effect(index) })
        .collect();
    let measure = Measure::of(&compared.runs);
    let answer = answer(&rows, &compared.runs, measure);
    if let Some(path) = &args.chart {
        draw(path, &rows, measure, &answer, args.stop.as_deref())?;
    }
    if args.json {
        writeln!(out, "{}", to_json(&rows, inputs, &compared))?;
        return has_read(args, compared.runs.len() as u64);
    }
    inputs.tell_of_sample();
    if compared.runs.is_empty() {
        inputs.warn(&compared.runs, &compared.warnings);
        return has_read(args, 0);
    }
    writeln!(out, "{answer}\n\n{}", rows_table(&rows, measure))?;
    out.flush()?;
    inputs.warn(&compared.runs, &compared.warnings);
    match &args.chart {
        Some(path) => output::note(&format!("\nthe chart is in {}", path.display())),
        None => output::note("\nmore: --chart FILE.html draws it, --json is for programs"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The policies of the sweeps, each with its difference from the others.
fn policies(
    args: &ReplayArgs,
    inputs: &Inputs,
    sweeps: &[Sweep],
) -> Result<(Vec<Candidate>, Vec<Policy>), CliError> {
    let file = args.policy.as_deref().map(read_file).transpose()?;
    let text = file.as_deref().or(args.stop.as_deref());
    let mut candidates = candidates(text, sweeps).map_err(of_sweep)?;
    let mut policies = Vec::with_capacity(candidates.len());
    for candidate in &mut candidates {
        let mut policy = match (&args.policy, &candidate.text) {
            (Some(path), Some(text)) => load_text(text, &path.display().to_string())?,
            (None, Some(text)) => load_expression(text)?,
            (_, None) => Policy::default(),
        };
        if let Some(added) = &candidate.added {
            let condition = load_expression(added)?.rules.into_iter().map(|rule| rule.condition);
            // The user's own rules keep their names.
            let mut id = SWEPT.to_owned();
            while policy.rule(&id).is_some() {
                id.push('_');
            }
            let rule = |condition| Rule::new(id.clone(), Action::Stop, condition);
            policy.rules.extend(condition.map(rule).collect::<Vec<_>>());
        }
        policies.push(inputs.priced(policy)?);
    }
    Ok((candidates, policies))
}

/// How many times more than the limit that loses nothing another one must save to be the better answer: a limit that
/// hardly stops anything loses nothing either.
const WORTH: u64 = 100;

/// The row that saves most without losing a success. If that saves next to nothing, the row that saves most for what it
/// loses: by the difference of the shares.
fn best(rows: &[Row], measure: Measure) -> Option<&Row> {
    let saved = |row: &&Row| (measure.saved(&row.effect), row.effect.failed_stopped);
    // Of equals the first: the tighter limit.
    let safe = rows.iter().rev().filter(|row| row.effect.succeeded_stopped == 0).max_by_key(saved);
    let gain = |row: &Row| {
        let effect = &row.effect;
        let share = |part: u64, whole: u64| i128::from(part) * 1_000_000 / i128::from(whole.max(1));
        share(measure.saved(effect), measure.spent(effect))
            - share(effect.succeeded_stopped, effect.succeeded)
    };
    let balanced = rows.iter().rev().max_by_key(|row| gain(row))?;
    let is_trivial = |row: &&Row| {
        measure.saved(&row.effect).saturating_mul(WORTH) < measure.saved(&balanced.effect)
    };
    Some(safe.filter(|row| !is_trivial(row)).unwrap_or(balanced))
}

/// The answer if no limit saves anything.
const NOTHING_SAVED: &str = "None of these limits would have saved anything.";

/// The answer if the best limit saves nothing.
fn none_to_name(rows: &[Row], measure: Measure) -> &'static str {
    match rows.iter().all(|row| measure.saved(&row.effect) == 0) {
        true => NOTHING_SAVED,
        false => {
            "Every limit that saves anything loses as large a share of the successes, or a larger one."
        }
    }
}

/// One sentence on the runs, one on the best limit.
fn answer(rows: &[Row], runs: &[RunReport], measure: Measure) -> String {
    let Some(best) = best(rows, measure) else { return "There is nothing to compare.".to_owned() };
    let effect = &best.effect;
    let limits = counted(rows.len() as u64, "limit");
    let mut text = format!("{limits} over {}", counted(effect.runs, "run"));
    if runs.iter().all(|run| run.outcome.is_none()) {
        let _ = write!(
            text,
            "; no run's outcome is known, so what a limit loses is not (--outcomes FILE)."
        );
        let saves = |row: &&Row| measure.saved(&row.effect);
        let (Some(most), Some(least)) =
            (rows.iter().rev().max_by_key(saves), rows.iter().min_by_key(saves))
        else {
            return text;
        };
        if measure.saved(&most.effect) == 0 {
            let _ = write!(text, "\n{NOTHING_SAVED}");
            return text;
        }
        // The tightest limit saves most for any runs, which does not help.
        let told = |row: &Row| {
            let effect = &row.effect;
            let stopped = counted(effect.stopped, "run");
            format!(
                "`{}` stops {stopped} and saves {}",
                row.candidate.label,
                measure.saved_of(effect)
            )
        };
        let _ = write!(text, "\n{}", told(least));
        if most.candidate.label != least.candidate.label {
            let _ = write!(text, "; {}", told(most));
        }
        text.push('.');
        return text;
    }
    let ended = |how: bool| runs.iter().filter(|run| run.outcome == Some(how)).count() as u64;
    let (succeeded, failed) = (ended(true), ended(false));
    let _ = writeln!(text, ", {} succeeded and {} failed.", count(succeeded), count(failed));
    if measure.saved(effect) == 0 {
        text.push_str(none_to_name(rows, measure));
        return text;
    }
    let what = match effect.succeeded_stopped {
        0 => "saves most without losing a known success",
        _ => "saves most for what it loses",
    };
    let _ = write!(
        text,
        "`{}` {what}: it stops {}, saves {}",
        best.candidate.label,
        counted(effect.stopped, "run"),
        measure.saved_of(effect),
    );
    if effect.succeeded_stopped > 0 {
        let _ =
            write!(text, ", loses {} successes", of(effect.succeeded_stopped, effect.succeeded));
    }
    if effect.failed > 0 {
        let _ = write!(text, " and cuts {} failures", of(effect.failed_stopped, effect.failed));
    }
    text.push('.');
    if effect.unknown_stopped > 0 {
        let unknown = count(effect.unknown_stopped);
        let _ = write!(text, "\nHow {unknown} of the stopped runs ended is not known.");
    }
    text
}

fn rows_table(rows: &[Row], measure: Measure) -> String {
    let header =
        ["limit", "runs stopped", measure.header(), "of all", "successes lost", "failures cut"];
    let mut table = table(&header, &[1, 2, 3, 4, 5]);
    for Row { candidate, effect } in rows {
        let stopped = match effect.not_testable {
            0 => count(effect.stopped),
            runs if runs == effect.runs => "not testable".to_owned(),
            runs => format!("{} ({} not testable)", count(effect.stopped), count(runs)),
        };
        let (saved, spent) = (measure.saved(effect), measure.spent(effect));
        table.add_row([
            candidate.label.clone(),
            stopped,
            measure.amount(saved),
            percent(saved, spent),
            of(effect.succeeded_stopped, effect.succeeded),
            of(effect.failed_stopped, effect.failed),
        ]);
    }
    table.to_string()
}

fn to_json(rows: &[Row], inputs: &Inputs, compared: &Comparison) -> Value {
    let row = |row: &Row| {
        let values: serde_json::Map<String, Value> =
            row.candidate.values.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
        json!({
            "label": row.candidate.label,
            "series": row.candidate.series,
            "values": values,
            "effect": row.effect,
            "lost": row.effect.lost(),
            "caught": row.effect.caught(),
        })
    };
    let warnings = inputs.warnings.iter().chain(&compared.warnings);
    json!({
        "version": 1,
        "sweep": rows.iter().map(row).collect::<Vec<_>>(),
        "unpriced": Unpriced::of(&compared.runs),
        "warnings": warnings.map(endstop_replay::warning_json).collect::<Vec<_>>(),
    })
}

fn draw(
    path: &Path,
    rows: &[Row],
    measure: Measure,
    answer: &str,
    condition: Option<&str>,
) -> Result<(), CliError> {
    let chart = Chart::new(rows, measure, answer, condition);
    std::fs::write(path, chart.render(path)).map_err(|error| {
        CliError::new(format!("cannot write the chart `{}`: {error}", path.display()))
    })
}
