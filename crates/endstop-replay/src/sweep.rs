//! Sweeps: one limit at many values, `cost=$0.25..$2.00:$0.25`, or a policy with `{x}` in it.

use super::limits::MAX_CANDIDATES;
use std::str::FromStr;

use endstop_core::condition::gauge::{GAUGES, Unit};
use endstop_core::expr::{amount_text, parse, parse_amount};
use thiserror::Error;

/// How many values a range without a step has, about.
const DEFAULT_VALUES: u64 = 10;

/// A name and its values.
///
/// ```
/// use endstop_replay::{Sweep, candidates};
///
/// let sweep: Sweep = "cost=$0.25..$0.75:$0.25".parse()?;
/// let labels: Vec<String> =
///     candidates(None, &[sweep])?.into_iter().map(|candidate| candidate.label).collect();
/// assert_eq!(labels, ["cost >= $0.25", "cost >= $0.50", "cost >= $0.75"]);
/// # Ok::<(), endstop_replay::SweepError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// A gauge as written in a condition, such as `cost` or `tool_calls("search")`, or the `x` of a `{x}`.
    pub name: String,
    /// The values, as written in a condition.
    pub values: Vec<String>,
}

/// A policy of a sweep.
///
/// See the example of [`Sweep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its difference from the others: `cost >= $0.25`, `x = 3`.
    pub label: String,
    /// Candidates of one series differ by one value and belong to one line of a chart.
    pub series: String,
    /// The values that were put in.
    pub values: Vec<(String, String)>,
    /// The policy's text with the values in it; `None` without a text.
    pub text: Option<String>,
    /// A condition that is added as a stop rule.
    pub added: Option<String>,
}

/// Why a sweep cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SweepError {
    /// The error.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

fn error(message: impl Into<String>, hint: impl Into<String>) -> SweepError {
    SweepError { message: message.into(), hint: hint.into() }
}

impl FromStr for Sweep {
    type Err = SweepError;

    /// `NAME=FROM..TO:STEP`, both ends included; `NAME=FROM..TO` in about ten steps; `NAME=A,B,C`.
    fn from_str(text: &str) -> Result<Self, SweepError> {
        let form = "write NAME=FROM..TO:STEP or NAME=A,B,C in single quotes, such as 'cost=$0.25..$2.00:$0.25'";
        let (name, values) =
            split_name(text).ok_or_else(|| error(format!("`{text}` is not a sweep"), form))?;
        if name.is_empty() {
            return Err(error(format!("`{text}` names nothing to sweep"), form));
        }
        let values = match values.split_once("..") {
            Some((from, rest)) => {
                let (to, step) = match rest.rsplit_once(':') {
                    Some((to, step)) => (to, Some(step)),
                    None => (rest, None),
                };
                range(name, [Some(from), Some(to), step].map(|part| part.map(str::trim)))?
            }
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        if values.iter().any(String::is_empty) {
            return Err(error(format!("a value of `{name}` is missing"), form));
        }
        Ok(Self { name: name.to_owned(), values })
    }
}

/// Splits at the first `=` outside quotes.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '=') => return Some((text.get(..at)?.trim(), text.get(at + 1..)?.trim())),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

/// The unit of a gauge's limit.
fn unit_of_gauge(name: &str) -> Option<Unit> {
    let name = name.strip_prefix("own.").unwrap_or(name);
    let name = name.split_once('(').map_or(name, |(name, _)| name.trim_end());
    GAUGES.iter().find(|row| row.name == name).map(|row| row.unit)
}

fn range(name: &str, parts: [Option<&str>; 3]) -> Result<Vec<String>, SweepError> {
    let [from, to, step] = parts;
    let from = from.unwrap_or_default();
    let unit = unit_of_gauge(name).or_else(|| {
        let units = [Unit::Count, Unit::Money, Unit::Duration];
        units.into_iter().find(|unit| parse_amount(from, *unit).is_ok())
    });
    let Some(unit) = unit else {
        let hint = "write the ends as amounts: `3`, `200k`, `$0.25` (in single quotes), `90s`";
        return Err(error(format!("`{from}` is not an amount"), hint));
    };
    let amount = |text: &str| {
        parse_amount(text, unit).map_err(|bad| {
            let hint = bad.help.unwrap_or_else(|| "put the sweep in single quotes".to_owned());
            error(format!("`{text}` in the sweep of `{name}`: {}", bad.message), hint)
        })
    };
    let (from, to) = (amount(from)?, amount(to.unwrap_or_default())?);
    if to < from {
        return Err(error(format!("the sweep of `{name}` ends before it begins"), "swap its ends"));
    }
    let step = match step {
        Some(step) => amount(step)?,
        None => (to - from).div_ceil(DEFAULT_VALUES).max(1),
    };
    if step == 0 {
        return Err(error(format!("the sweep of `{name}` has a step of 0"), "give a larger one"));
    }
    if (to - from) / step >= MAX_CANDIDATES as u64 {
        return Err(too_many());
    }
    let values = (0..=(to - from) / step).map(|count| from + count * step);
    // The end belongs to the range, even if no step lands on it.
    let end = Some(to).filter(|_| !(to - from).is_multiple_of(step));
    Ok(values.chain(end).map(|value| amount_text(value, unit)).collect())
}

fn too_many() -> SweepError {
    error(format!("more than {MAX_CANDIDATES} policies to compare"), "take larger steps")
}

/// Returns the policies that `sweeps` ask for. A sweep whose `{name}` is in the text is put in there, several of
/// them in every combination; any other is a gauge, whose limit is added to the text's rules.
///
/// # Errors
/// Returns [`SweepError`] for a name that is neither, a value that does not fit its gauge, or too many policies.
pub fn candidates(text: Option<&str>, sweeps: &[Sweep]) -> Result<Vec<Candidate>, SweepError> {
    let is_inside = |sweep: &&Sweep| text.is_some_and(|text| text.contains(&place(&sweep.name)));
    let (inside, beside): (Vec<&Sweep>, Vec<&Sweep>) = sweeps.iter().partition(is_inside);
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for sweep in inside.iter().rev() {
        if all.len().saturating_mul(sweep.values.len()) > MAX_CANDIDATES {
            return Err(too_many());
        }
        let with = |value: &String| {
            let first = (sweep.name.clone(), value.clone());
            all.iter().map(move |rest| {
                let mut values = vec![first.clone()];
                values.extend_from_slice(rest);
                values
            })
        };
        all = sweep.values.iter().flat_map(with).collect();
    }
    let filled: Vec<Candidate> = all.into_iter().map(|values| fill(text, values)).collect();
    if beside.is_empty() {
        return Ok(filled);
    }
    let mut found = Vec::new();
    for (sweep, base) in
        beside.iter().flat_map(|sweep| filled.iter().map(move |base| (sweep, base)))
    {
        for value in &sweep.values {
            found.push(add(base, sweep, value)?);
        }
        if found.len() > MAX_CANDIDATES {
            return Err(too_many());
        }
    }
    Ok(found)
}

fn place(name: &str) -> String {
    format!("{{{name}}}")
}

fn fill(text: Option<&str>, values: Vec<(String, String)>) -> Candidate {
    let label = |values: &[(String, String)]| {
        let each: Vec<String> =
            values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        each.join(", ")
    };
    let fill = |text: &str| {
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&place(name), value))
    };
    // The fastest-changing value is the line of a chart; the other values name it.
    let (fixed, swept) = values.split_at(values.len().saturating_sub(1));
    let names: Vec<String> = swept.iter().map(|(name, _)| place(name)).collect();
    let series = [label(fixed), names.concat()].into_iter().filter(|part| !part.is_empty());
    Candidate {
        label: label(&values),
        series: series.collect::<Vec<_>>().join(", "),
        text: text.map(fill),
        added: None,
        values,
    }
}

/// The base with an additional limit on a gauge.
fn add(base: &Candidate, sweep: &Sweep, value: &str) -> Result<Candidate, SweepError> {
    let name = &sweep.name;
    if unit_of_gauge(name).is_none() {
        let hint = format!(
            "write `{{{name}}}` where its values belong in --stop or in the policy, or sweep a gauge such as steps or cost"
        );
        return Err(error(
            format!("`{name}` is neither a gauge nor in the policy as `{{{name}}}`"),
            hint,
        ));
    }
    let condition = format!("{name} >= {value}");
    if let Err(bad) = parse(&condition) {
        let hint = bad.help.unwrap_or_else(|| "see docs/conditions.md".to_owned());
        return Err(error(format!("`{condition}`: {}", bad.message), hint));
    }
    let joined = |base: &str, more: &str| match base {
        "" => more.to_owned(),
        base => format!("{base}, {more}"),
    };
    let mut values = base.values.clone();
    values.push((name.clone(), value.to_owned()));
    Ok(Candidate {
        label: joined(&base.label, &condition),
        series: joined(&base.label, name),
        values,
        text: base.text.clone(),
        added: Some(condition),
    })
}

#[cfg(test)]
mod tests;
