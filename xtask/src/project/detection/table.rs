//! Shares with their intervals, and the tables in Markdown.

use std::fmt::Write as _;

use endstop_replay::RunReport;

use super::data::{Kind, Labelled};

/// The effect of a form on runs. A run of one step cannot be cut: those are counted separately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) succeeded: u64,
    pub(super) lost: u64,
    pub(super) failed: u64,
    pub(super) caught: u64,
    /// Steps of the failed runs, and those after the first trip.
    failed_steps: u64,
    steps_after: u64,
    /// Of unknown outcome.
    pub(super) unknown: u64,
    pub(super) stopped: u64,
    /// Runs of a single step, with any outcome.
    short: u64,
}

impl Tally {
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a RunReport>) -> Self {
        let mut tally = Self::default();
        for run in runs {
            let stopped = u64::from(run.stopped_at_step.is_some());
            match run.outcome {
                _ if run.steps < 2 => tally.short += u64::from(run.steps > 0),
                Some(true) => {
                    tally.succeeded += 1;
                    tally.lost += stopped;
                }
                Some(false) => {
                    tally.failed += 1;
                    tally.caught += stopped;
                    tally.failed_steps += run.steps;
                    tally.steps_after += run.stopped_at_step.map_or(0, |at| run.steps - at);
                }
                None => {
                    tally.unknown += 1;
                    tally.stopped += stopped;
                }
            }
        }
        tally
    }

    /// Of several sets together.
    pub(super) fn sum<'a>(tallies: impl Iterator<Item = &'a Self>) -> Self {
        tallies.fold(Self::default(), |sum, one| Self {
            succeeded: sum.succeeded + one.succeeded,
            lost: sum.lost + one.lost,
            failed: sum.failed + one.failed,
            caught: sum.caught + one.caught,
            failed_steps: sum.failed_steps + one.failed_steps,
            steps_after: sum.steps_after + one.steps_after,
            unknown: sum.unknown + one.unknown,
            stopped: sum.stopped + one.stopped,
            short: sum.short + one.short,
        })
    }
}

/// The effect of a form on each set: on all of it, to its even runs and to its odd ones.
pub(super) struct Row<'a> {
    pub(super) form: &'a str,
    pub(super) sets: Vec<[Tally; 3]>,
}

/// An interval for a share, in percent, at 95%.
pub(super) struct Wilson {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Wilson {
    pub(super) fn of(hits: u64, all: u64) -> Self {
        const Z: f64 = 1.959_964;
        let (hits, all) = (to_f64(hits), to_f64(all));
        if all == 0.0 {
            return Self { low: 0.0, high: 100.0 };
        }
        let share = hits / all;
        let middle = share + Z * Z / (2.0 * all);
        let reach = Z * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
        let scale = 100.0 / (1.0 + Z * Z / all);
        Self {
            low: ((middle - reach) * scale).max(0.0),
            high: ((middle + reach) * scale).min(100.0),
        }
    }
}

/// Counts of runs are far below what a float holds exactly.
fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Few runs carry no decimals.
const MANY: u64 = 300;

fn cell(hits: u64, all: u64) -> String {
    let digits = if all >= MANY { 2 } else { 0 };
    match all {
        0 => "none".to_owned(),
        _ if hits == 0 => {
            let Wilson { high, .. } = Wilson::of(0, all);
            format!("0 (at most {high:.digits$}%)")
        }
        _ => {
            let Wilson { low, high } = Wilson::of(hits, all);
            let share = 100.0 * to_f64(hits) / to_f64(all);
            format!("{hits}: {share:.digits$}% ({low:.digits$} to {high:.digits$})")
        }
    }
}

/// Everything between the marks of the page: the last form set by set, and all forms over the sets together.
pub(super) fn page(sets: &[Labelled], rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    let Some(last) = rows.last() else { return text };
    set_by_set(&mut text, sets, last);
    let title = format!("`{}` in halves, every second run", last.form);
    header(&mut text, &title, "runs", &["lost, even", "lost, odd", "caught, even", "caught, odd"]);
    for (set, [_, even, odd]) in of_tasks(sets, last) {
        let lost = [even, odd].map(|tally| cell(tally.lost, tally.succeeded));
        let caught = [even, odd].map(|tally| cell(tally.caught, tally.failed));
        line(&mut text, set, &[lost, caught].concat());
    }
    let heads =
        ["InterCode, lost", "InterCode, caught", "other successes lost", "sessions stopped"];
    header(&mut text, "Other forms", "form", &heads);
    for row in rows {
        let of = |kind| {
            let tallies = sets.iter().zip(&row.sets).filter(move |(set, _)| set.kind == kind);
            Tally::sum(tallies.map(|(_, [all, ..])| all))
        };
        let (intercode, others) = (of(Kind::Intercode), of(Kind::Tasks));
        let sessions = of(Kind::Sessions);
        let cells = [
            cell(intercode.lost, intercode.succeeded),
            cell(intercode.caught, intercode.failed),
            cell(others.lost, others.succeeded),
            cell(sessions.stopped, sessions.unknown),
        ];
        line(&mut text, row.form, &cells);
    }
    text
}

/// The sets whose outcomes are known, and InterCode together.
fn of_tasks<'a>(
    sets: &'a [Labelled],
    row: &'a Row<'_>,
) -> impl Iterator<Item = (&'a str, [Tally; 3])> {
    let tasks = sets.iter().zip(&row.sets).filter(|(set, _)| set.kind != Kind::Sessions);
    let together = [0, 1, 2].map(|part: usize| {
        let intercode = sets.iter().zip(&row.sets).filter(|(set, _)| set.kind == Kind::Intercode);
        Tally::sum(intercode.filter_map(|(_, tallies)| tallies.get(part)))
    });
    tasks.map(|(set, tallies)| (set.name, *tallies)).chain([("InterCode together", together)])
}

fn set_by_set(text: &mut String, sets: &[Labelled], row: &Row<'_>) {
    let title = format!("`{}`, set by set", row.form);
    let heads =
        ["", "of one step", "successes lost", "failures caught", "steps after the first trip"];
    header(text, &title, "runs", &heads);
    let what = |name: &str| sets.iter().find(|set| set.name == name).map_or("", |set| set.what);
    for (name, [all, ..]) in of_tasks(sets, row) {
        let cells = [
            what(name).to_owned(),
            all.short.to_string(),
            of_all(all.lost, all.succeeded),
            of_all(all.caught, all.failed),
            share_of(all.steps_after, all.failed_steps),
        ];
        line(text, name, &cells);
    }
    for (set, [all, ..]) in sets.iter().zip(&row.sets) {
        if set.kind == Kind::Sessions {
            let stopped = of_all(all.stopped, all.unknown);
            let _ = writeln!(text, "\nOf the {}, it stops {stopped}.", set.what);
        }
    }
}

fn of_all(hits: u64, all: u64) -> String {
    format!("{} of {all}", cell(hits, all))
}

/// The share of the steps of failed runs.
fn share_of(part: u64, all: u64) -> String {
    if all == 0 { "none".to_owned() } else { format!("{:.0}%", 100.0 * to_f64(part) / to_f64(all)) }
}

/// Writing to a string cannot fail.
fn header(text: &mut String, title: &str, first: &str, heads: &[&str]) {
    let rule = vec!["---"; heads.len() + 1].join(" | ");
    let _ = write!(text, "\n### {title}\n\n| {first} | {} |\n| {rule} |\n", heads.join(" | "));
}

fn line(text: &mut String, name: &str, cells: &[String]) {
    let _ = writeln!(text, "| `{name}` | {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests;
