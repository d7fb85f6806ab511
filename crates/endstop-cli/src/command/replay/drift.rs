//! `--drift`: whether runs use more than they did.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use endstop::core::Policy;
use endstop::core::units::{Money, PICOS_PER_DOLLAR};
use endstop_replay::{Baseline, Change, Figure, Group, Unit, drift};
use serde_json::json;

use super::{Inputs, ReplayArgs, counted as replayed, has_read};
use crate::error::{CliError, ExitMeaning};
use crate::input::read_text;
use crate::limits::MAX_JSON_BYTES;
use crate::output::{counted, money, short, table};

/// Reads what an earlier replay printed.
pub(super) fn baseline(path: &Path) -> Result<Baseline, CliError> {
    let shown = path.display();
    let text = read_text(path, "baseline", MAX_JSON_BYTES)?;
    Baseline::from_json(&text).map_err(|error| {
        CliError::new(format!("`{shown}` is not a baseline: {error}"))
            .with_hint("make one with `endstop replay --json PATH... > baseline.json`")
    })
}

pub(super) fn run(
    args: &ReplayArgs,
    before: &Baseline,
    inputs: &Inputs,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let report = replayed(inputs, &Policy::default())?;
    if report.runs == 0 {
        inputs.tell_nothing(&report.warnings, args.json, out)?;
        return has_read(args, 0);
    }
    if before.runs == 0 {
        return Err(CliError::new("the baseline has no runs, so there is nothing to compare")
            .with_hint("make one with `endstop replay --json PATH... > baseline.json`"));
    }
    let now = Baseline { runs: report.runs, usage: report.usage };
    let figures = drift(before, &now, args.tolerance);
    let drifted = figures.iter().filter(|figure| figure.is_drift).count() as u64;
    if args.json {
        let warnings = inputs.warnings.iter().chain(&report.warnings);
        let warnings = warnings.map(endstop_replay::warning_json);
        let answer = json!({
            "version": 1,
            "drifted": drifted > 0,
            "tolerance": args.tolerance,
            "runs": { "before": before.runs, "now": now.runs },
            "figures": figures,
            "warnings": warnings.collect::<Vec<_>>(),
        });
        writeln!(out, "{answer}")?;
    } else {
        inputs.tell_of_sample();
        write!(out, "{}", text(before, &now, &figures, args.tolerance))?;
        out.flush()?;
        inputs.warn(&report.per_run, &report.warnings);
    }
    let meaning = if drifted > 0 { ExitMeaning::AnswerIsNo } else { ExitMeaning::Ok };
    Ok(ExitCode::from(meaning.code()))
}

fn text(before: &Baseline, now: &Baseline, figures: &[Figure], tolerance: f64) -> String {
    let worst = figures.iter().filter(|figure| figure.is_drift);
    // The composition of the spend matters most: a kind of run before a model before a tool.
    let worst = worst.min_by(|one, other| {
        let rank = |figure: &Figure| (figure.group, figure.unit != Unit::Dollars);
        rank(one).cmp(&rank(other)).then(growth(other).total_cmp(&growth(one)))
    });
    let beyond = format!("more than {}%", trimmed(tolerance * 100.0));
    let mut text = match worst {
        None => format!("No drift: nothing rose by {beyond}.\n"),
        Some(figure) if figure.change == Change::New => {
            format!("It drifted: {} `{}` is new.\n", noun(figure.group), figure.name)
        }
        Some(figure) => format!(
            "It drifted: {} of {} `{}` rose from {} to {} ({}).\n",
            figure.what,
            noun(figure.group),
            figure.name,
            value(figure, figure.before),
            value(figure, figure.now),
            change(figure)
        ),
    };
    let _ = writeln!(text, "{} now, {} before.", counted(now.runs, "run"), before.runs);
    let told: Vec<&Figure> =
        figures.iter().filter(|figure| figure.change != Change::Same).collect();
    if told.is_empty() {
        return text;
    }
    let mut table = table(&["", "name", "what", "before", "now", "change", "drift"], &[3, 4, 5]);
    for figure in told {
        table.add_row([
            noun(figure.group).to_owned(),
            figure.name.clone(),
            figure.what.to_owned(),
            value(figure, figure.before),
            value(figure, figure.now),
            change(figure),
            if figure.is_drift { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let same = figures.iter().filter(|figure| figure.change == Change::Same).count() as u64;
    let _ = writeln!(
        text,
        "\n{table}\n{} stayed within {}%.",
        counted(same, "figure"),
        trimmed(tolerance * 100.0)
    );
    text
}

const fn noun(group: Group) -> &'static str {
    match group {
        Group::Kind => "kind",
        Group::Model => "model",
        Group::Tool => "tool",
    }
}

fn growth(figure: &Figure) -> f64 {
    if figure.before > 0.0 { figure.now / figure.before } else { f64::INFINITY }
}

/// `+120%`, `new`.
fn change(figure: &Figure) -> String {
    match figure.change {
        Change::New => "new".to_owned(),
        Change::Gone => "gone".to_owned(),
        _ if figure.before <= 0.0 => "from 0".to_owned(),
        _ => format!("{:+.0}%", (growth(figure) - 1.0) * 100.0),
    }
}

/// A number with at most two decimals, and none that say nothing.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "shown rounded, and a cast of a float saturates"
)]
fn value(figure: &Figure, value: f64) -> String {
    match figure.unit {
        Unit::Dollars => money(Money::from_picos((value * PICOS_PER_DOLLAR as f64).round() as u64)),
        Unit::Share => format!("{}%", trimmed(value * 100.0)),
        Unit::Count if value < 1_000.0 => trimmed(value),
        Unit::Count => short(value.round() as u64),
    }
}
