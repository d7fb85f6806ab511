//! Drift: what runs use now, against what they used in an earlier replay.

use endstop_core::units::{Money, PICOS_PER_DOLLAR};
use serde::Serialize;
use thiserror::Error;

use super::usage::{KindUsage, ModelUsage, ToolUsage, Usage};

/// How many standard errors a change in a number of calls has to be to count as one: with fewer, the
/// same agent on the same tasks changes as much by chance.
const SURE: f64 = 2.0;

/// The usage in the output of an earlier replay.
///
/// ```
/// use endstop_replay::{Baseline, Change, drift};
///
/// let replay = |model: &str| {
///     let usage = format!(r#"{{"models":{{"{model}":{{"calls":9}}}},"tools":{{}},"kinds":{{}}}}"#);
///     Baseline::from_json(&format!(r#"{{"version":1,"runs":3,"usage":{usage}}}"#))
/// };
/// let figures = drift(&replay("small")?, &replay("large")?, 0.2);
/// let of = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().change;
/// assert_eq!((of("large"), of("small")), (Change::New, Change::Gone));
/// # Ok::<(), endstop_replay::BaselineError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Runs.
    pub runs: u64,
    /// Their usage.
    pub usage: Usage,
}

/// Why a file is not a baseline.
#[derive(Debug, Error)]
pub enum BaselineError {
    /// It is not JSON, or not of this form.
    #[error("not the JSON of a replay: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It was written before a replay recorded usage, or is something else.
    #[error("it does not record the usage of its runs")]
    NoUsage,
    /// It was written by a version that is not known.
    #[error("it has version {0}; only version 1 is known")]
    Version(u64),
}

impl Baseline {
    /// Reads what `endstop replay --json` printed.
    ///
    /// # Errors
    /// Returns [`BaselineError`] if it is something else.
    pub fn from_json(text: &str) -> Result<Self, BaselineError> {
        #[derive(serde::Deserialize)]
        struct PrintedReport {
            version: Option<u64>,
            runs: Option<u64>,
            usage: Option<Usage>,
        }
        let printed: PrintedReport = serde_json::from_str(text)?;
        match printed {
            PrintedReport { version: Some(version), .. } if version != 1 => {
                Err(BaselineError::Version(version))
            }
            PrintedReport { version: Some(_), runs: Some(runs), usage: Some(usage) } => {
                Ok(Self { runs, usage })
            }
            _ => Err(BaselineError::NoUsage),
        }
    }
}

/// The subject of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Runs of one kind.
    Kind,
    /// Calls of one model.
    Model,
    /// Calls of one tool.
    Tool,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A number of things.
    Count,
    /// Dollars.
    Dollars,
    /// A share, from 0 to 1.
    Share,
}

/// The change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// By no more than the tolerance, or by no more than chance.
    Same,
    /// It rose: more was used.
    Rose,
    /// It fell.
    Fell,
    /// It was not there before.
    New,
    /// It no longer exists.
    Gone,
}

/// One number, then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The group that it is about.
    pub group: Group,
    /// The kind, model or tool.
    pub name: String,
    /// The measured quantity, such as `tokens per run`.
    pub what: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// In the earlier replay.
    pub before: f64,
    /// Now.
    pub now: f64,
    /// The change.
    pub change: Change,
    /// Whether this makes the answer "it drifted": it rose, or a kind or model is new.
    pub is_drift: bool,
}

/// Compares every number of the two; a change of at most `tolerance` (0.2 is a fifth) is none. Numbers of calls also
/// have to change by more than chance does: by two standard errors of the count.
///
/// Lower and missing numbers are reported and do not count as drift: nothing became more expensive.
#[must_use]
pub fn drift(before: &Baseline, now: &Baseline, tolerance: f64) -> Vec<Figure> {
    let mut figures = Vec::new();
    let (old, new) = (&before.usage, &now.usage);
    let pairs = joined(&old.kinds, &new.kinds);
    for (name, old, new) in pairs {
        figures.extend(compare(Group::Kind, name, old.map(of_kind), new.map(of_kind), tolerance));
    }
    for (name, old, new) in joined(&old.models, &new.models) {
        let (old, new) =
            (old.map(|m| of_model(m, before.runs)), new.map(|m| of_model(m, now.runs)));
        figures.extend(compare(Group::Model, name, old, new, tolerance));
    }
    for (name, old, new) in joined(&old.tools, &new.tools) {
        let (old, new) = (old.map(|t| of_tool(t, before.runs)), new.map(|t| of_tool(t, now.runs)));
        figures.extend(compare(Group::Tool, name, old, new, tolerance));
    }
    figures
}

type Joined<'m, T> = Vec<(&'m str, Option<&'m T>, Option<&'m T>)>;

/// Both sides of every name, in order.
fn joined<'m, T>(
    old: &'m std::collections::BTreeMap<String, T>,
    new: &'m std::collections::BTreeMap<String, T>,
) -> Joined<'m, T> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (name.as_str(), old.get(name), new.get(name))).collect()
}

/// A number of one side.
#[derive(Clone, Copy)]
struct Measured {
    what: &'static str,
    unit: Unit,
    value: f64,
    /// Its basis, if chance matters: the count and its divisor.
    counted: Option<(f64, f64)>,
}

const fn plain(what: &'static str, unit: Unit, value: f64) -> Measured {
    Measured { what, unit, value, counted: None }
}

fn rate(what: &'static str, unit: Unit, count: u64, of: u64) -> Measured {
    let (count, of) = (float(count), float(of));
    let value = if of > 0.0 { count / of } else { 0.0 };
    Measured { what, unit, value, counted: Some((count, of)) }
}

fn of_kind(kind: &KindUsage) -> Vec<Measured> {
    let per_run = |value: u64| if kind.runs == 0 { 0.0 } else { float(value) / float(kind.runs) };
    vec![
        plain("steps per run", Unit::Count, per_run(kind.steps)),
        plain("tokens per run", Unit::Count, per_run(kind.tokens)),
        plain("cost per run", Unit::Dollars, per_run(kind.cost.picos()) / DOLLAR),
    ]
}

fn of_model(model: &ModelUsage, runs: u64) -> Vec<Measured> {
    let per_call =
        |value: u64| if model.calls == 0 { 0.0 } else { float(value) / float(model.calls) };
    let priced = model.calls.saturating_sub(model.unpriced_calls);
    let cost = if priced == 0 { 0.0 } else { dollars(model.cost) / float(priced) };
    vec![
        rate("calls per run", Unit::Count, model.calls, runs),
        plain("input tokens per call", Unit::Count, per_call(model.input_tokens)),
        plain("output tokens per call", Unit::Count, per_call(model.output_tokens)),
        plain("cost per call", Unit::Dollars, cost),
    ]
}

fn of_tool(tool: &ToolUsage, runs: u64) -> Vec<Measured> {
    let bytes = if tool.calls == 0 { 0.0 } else { float(tool.result_bytes) / float(tool.calls) };
    vec![
        rate("calls per run", Unit::Count, tool.calls, runs),
        rate("failed calls", Unit::Share, tool.failed, tool.calls),
        plain("result bytes per call", Unit::Count, bytes),
    ]
}

fn compare(
    group: Group,
    name: &str,
    old: Option<Vec<Measured>>,
    new: Option<Vec<Measured>>,
    tolerance: f64,
) -> Vec<Figure> {
    let figure = |what: &Measured, before: f64, now: f64, change: Change| Figure {
        group,
        name: name.to_owned(),
        what: what.what,
        unit: what.unit,
        before,
        now,
        change,
        // A tool that is called for the first time costs nothing in itself.
        is_drift: change == Change::Rose || (change == Change::New && group != Group::Tool),
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            let both = old.iter().zip(&new);
            both.map(|(old, new)| figure(new, old.value, new.value, changed(old, new, tolerance)))
                .collect()
        }
        // One line says that it came or went.
        (None, Some(new)) => {
            new.iter().take(1).map(|n| figure(n, 0.0, n.value, Change::New)).collect()
        }
        (Some(old), None) => {
            old.iter().take(1).map(|o| figure(o, o.value, 0.0, Change::Gone)).collect()
        }
        (None, None) => Vec::new(),
    }
}

fn changed(old: &Measured, new: &Measured, tolerance: f64) -> Change {
    let difference = new.value - old.value;
    let is_small = difference.abs() <= old.value.abs() * tolerance;
    if is_small || !is_sure(old, new) {
        Change::Same
    } else if difference > 0.0 {
        Change::Rose
    } else {
        Change::Fell
    }
}

/// Counts of rare things scatter by their square root.
fn is_sure(old: &Measured, new: &Measured) -> bool {
    let (Some((old_count, old_of)), Some((new_count, new_of))) = (old.counted, new.counted) else {
        return true;
    };
    if old_of <= 0.0 || new_of <= 0.0 {
        return false;
    }
    let variance = old_count / (old_of * old_of) + new_count / (new_of * new_of);
    (new.value - old.value).abs() > SURE * variance.sqrt()
}

#[expect(clippy::cast_precision_loss, reason = "an average is compared within percents")]
const fn float(value: u64) -> f64 {
    value as f64
}

const DOLLAR: f64 = float(PICOS_PER_DOLLAR);

fn dollars(money: Money) -> f64 {
    float(money.picos()) / DOLLAR
}

#[cfg(test)]
mod tests;
