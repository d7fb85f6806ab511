//! `cargo xtask detection`: what each form of loop detection would have done to runs whose outcome is known.
//!
//! The runs are replayed through the library, as `endstop replay` does. They lie outside the project.

mod data;
mod table;

use std::path::Path;

use endstop_core::Policy;
use endstop_core::expr::parse;
use endstop_replay::{Options, RunReport, replay};

use crate::page;
use data::{Labelled, SETS};
use table::Tally;

/// The page that holds the tables.
const PAGE: &str = "docs/detection.md";
/// What the default policy says of loops, which is what is published.
const DEFAULT: &str = include_str!("../../../crates/endstop-cli/data/default-policy.toml");
/// The rule of the default policy that looks for loops.
const RULE: &str = "stuck";

/// The forms that are compared, besides the default.
const FORMS: &[&str] = &[
    "repeats >= 1",
    "repeats >= 2",
    "repeats >= 3",
    "repeats >= 4",
    "cycles >= 1",
    "cycles >= 2",
    "cycles >= 3",
    "no_progress >= 2",
    "no_progress >= 3",
    "no_progress >= 4",
    "no_progress >= 6",
    "no_progress >= 12",
    "streak(near_duplicate) >= 1",
    "streak(near_duplicate) >= 2",
    "streak(near_duplicate) >= 3",
    "streak(near_duplicate) >= 4",
    "repeats >= 2 and near_duplicate",
    "stale >= 1",
    "stale >= 20",
    "stale >= 25",
    "stale >= 30",
    "stale >= 40",
    "stale >= 50",
];

/// Prints the tables for the given forms, or for all that are published.
///
/// # Errors
/// If a form cannot be read or compiled.
pub(crate) fn print(root: &Path, forms: &[&str]) -> Result<(), String> {
    if let Some(text) = measured(root, forms)? {
        println!("{text}");
    }
    Ok(())
}

/// Puts the tables into their page.
///
/// # Errors
/// If a form cannot be compiled, or the page not be written.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let Some(text) = measured(root, &[])? else { return Ok(()) };
    page::write(root, PAGE, "detection", &text)
}

fn measured(root: &Path, forms: &[&str]) -> Result<Option<String>, String> {
    let Some(sets) = data::read(root)? else {
        println!("skipped: the recorded runs are not beside the project, in `{}`", data::DIRECTORY);
        return Ok(None);
    };
    let default = default_form()?;
    let published: Vec<&str> = FORMS.iter().copied().chain([default.as_str()]).collect();
    measure(&sets, if forms.is_empty() { &published } else { forms }).map(Some)
}

fn measure(sets: &[Labelled], forms: &[&str]) -> Result<String, String> {
    let mut rows = Vec::new();
    let mut halves = Vec::new();
    for form in forms {
        let reports = sets.iter().map(|set| reports(set, form)).collect::<Result<Vec<_>, _>>()?;
        rows.push((*form, reports.iter().map(|runs| Tally::of(runs.iter())).collect()));
        let intercode = SETS.iter().position(|set| set.is_split).and_then(|at| reports.get(at));
        let runs = intercode.map_or(&[][..], Vec::as_slice);
        let half = |odd: usize| Tally::of(runs.iter().skip(odd).step_by(2));
        halves.push((*form, vec![half(0), half(1)]));
    }
    Ok(table::page(sets, &rows, &halves))
}

/// The condition of the default policy's rule on loops.
fn default_form() -> Result<String, String> {
    let policy = Policy::from_toml(DEFAULT).map_err(|error| error.to_string())?;
    let rule = policy.rules.iter().find(|rule| rule.id == RULE);
    rule.map(|rule| rule.condition.to_string()).ok_or_else(|| format!("no rule `{RULE}`"))
}

/// The runs of a set whose outcome is known, under one condition.
fn reports(set: &Labelled, form: &str) -> Result<Vec<RunReport>, String> {
    let condition = parse(form).map_err(|error| format!("`{form}`: {error}"))?;
    let policy = Policy::stop(condition);
    let options = Options {
        policy: &policy,
        outcomes: &set.outcomes,
        prices: endstop_price::PriceTable::embedded(),
        jobs: 0,
        as_live: false,
    };
    let report = replay(&set.transcripts, &options, &|_| ()).map_err(|error| error.to_string())?;
    Ok(report.per_run.into_iter().filter(|run| run.outcome.is_some()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallies() -> Option<Vec<(&'static str, Tally)>> {
        let Some(sets) = data::read(&crate::root::root()).unwrap() else {
            println!("skipped: the recorded runs are not there");
            return None;
        };
        let form = default_form().unwrap();
        let of = |set: &Labelled| (set.name, Tally::of(reports(set, &form).unwrap().iter()));
        Some(sets.iter().map(of).collect())
    }

    /// What is promised: none of the coding and tool runs that succeeded, at most one in 400 of the tasks
    /// in a database, and of the latter's failures at least 45 %.
    #[test]
    fn the_default_loses_next_to_no_success_and_catches_what_it_should() {
        for (name, tally) in tallies().unwrap_or_default() {
            println!("{name}: {tally:?}");
            assert!(tally.succeeded + tally.failed > 0, "{name} has no runs with a known outcome");
            if name == "intercode" {
                assert!(tally.lost * 400 <= tally.succeeded, "{tally:?}");
                assert!(tally.caught * 100 >= tally.failed * 45, "{tally:?}");
            } else {
                assert_eq!(tally.lost, 0, "{name}: {tally:?}");
            }
        }
    }

    #[test]
    fn every_form_can_be_read() {
        for form in FORMS.iter().copied().chain([default_form().unwrap().as_str()]) {
            assert_eq!(parse(form).unwrap().to_string(), form);
        }
    }

    #[test]
    fn an_interval_contains_its_share() {
        let table::Wilson { low, high } = table::Wilson::of(1, 762);
        assert!((0.02..0.03).contains(&low) && (0.73..0.75).contains(&high), "{low} {high}");
    }
}
