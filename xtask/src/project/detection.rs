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
use data::{Kind, Labelled};
use table::{Row, Tally};

/// The page that holds the tables.
const PAGE: &str = "docs/detection.md";
/// The condition of the default policy for loops, which is published.
const DEFAULT: &str = include_str!("../../../crates/endstop-cli/data/default-policy.toml");
/// The rule of the default policy that looks for loops.
const RULE: &str = "loops";

/// The forms that are compared, besides the default.
const FORMS: &[&str] = &[
    "repeats >= 2",
    "repeats >= 3",
    "repeats >= 4",
    "repeats >= 8",
    "cycles >= 1",
    "cycles >= 2",
    "cycles >= 3",
    "no_progress >= 3",
    "no_progress >= 6",
    "no_progress >= 12",
    "streak(near_duplicate) >= 2",
    "streak(near_duplicate) >= 4",
    "stale >= 20",
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
        println!(
            "skipped: the recorded runs are not next to the project, in `{}`",
            data::DIRECTORY
        );
        return Ok(None);
    };
    let default = default_form()?;
    let published: Vec<&str> = FORMS.iter().copied().chain([default.as_str()]).collect();
    measure(&sets, if forms.is_empty() { &published } else { forms }).map(Some)
}

fn measure(sets: &[Labelled], forms: &[&str]) -> Result<String, String> {
    let rows = forms.iter().map(|form| {
        let sets = sets.iter().map(|set| Ok(in_halves(&reports(set, form)?)));
        Ok(Row { form, sets: sets.collect::<Result<_, String>>()? })
    });
    Ok(table::page(sets, &rows.collect::<Result<Vec<_>, String>>()?))
}

/// All runs, every second one, and the others.
fn in_halves(runs: &[RunReport]) -> [Tally; 3] {
    let half = |odd: usize| Tally::of(runs.iter().skip(odd).step_by(2));
    [Tally::of(runs.iter()), half(0), half(1)]
}

/// The condition of the default policy's rule on loops.
fn default_form() -> Result<String, String> {
    let policy = Policy::from_toml(DEFAULT).map_err(|error| error.to_string())?;
    let rule = policy.rules.iter().find(|rule| rule.id == RULE);
    rule.map(|rule| rule.condition.to_string()).ok_or_else(|| format!("no rule `{RULE}`"))
}

/// The runs of a set under one condition; without those whose outcome should be known and is not.
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
    let is_counted = |run: &RunReport| set.kind == Kind::Sessions || run.outcome.is_some();
    Ok(report.per_run.into_iter().filter(is_counted).collect())
}

#[cfg(test)]
mod tests;
