//! `--chart`: what limits save against what they lose, as one self-contained file.
//!
//! Series differ by color (the palette of M. Okabe and K. Ito, which color-blind people can distinguish) and by the
//! shape of their points, so that color alone never carries information.

mod html;
mod svg;

use std::path::Path;

use endstop_replay::{Candidate, Effect};

use super::measure::{Measure, of, percent};
use crate::error::CliError;

/// One limit, and what it would have done.
pub(super) struct Row {
    pub(super) candidate: Candidate,
    pub(super) effect: Effect,
}

/// A chart, ready to be drawn.
pub(super) struct Chart {
    /// The answer in words, a sentence a line.
    answer: String,
    x_title: &'static str,
    y_title: &'static str,
    series: Vec<Series>,
}

/// One line of points.
struct Series {
    name: String,
    points: Vec<Point>,
}

/// One limit.
struct Point {
    /// To the right: what it loses, in percent.
    x: f64,
    /// The interval of chance around it; `None` if it is not a share of successes.
    interval: Option<(f64, f64)>,
    /// Upwards: what it saves, in percent.
    y: f64,
    /// Its difference from the others of its series.
    label: String,
    /// The row in words, for the tooltip and for the table.
    cells: Vec<String>,
}

/// The file's name determines its form.
pub(super) fn check_name(path: &Path) -> Result<(), CliError> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "html" | "htm") => Ok(()),
        _ => Err(CliError::new(format!("`{}` is neither .svg nor .html", path.display()))
            .with_hint("name the chart `limits.svg` or `limits.html`")),
    }
}

impl Chart {
    /// `condition` is what the swept values are put into, if it was written as one.
    pub(super) fn new(
        rows: &[Row],
        measure: Measure,
        answer: &str,
        condition: Option<&str>,
    ) -> Self {
        let knows_outcomes = rows.iter().any(|row| row.effect.succeeded > 0);
        let x_title = match knows_outcomes {
            true => "successes lost, % of all successes",
            false => "runs stopped, % of all runs (no outcome is known)",
        };
        let y_title = match measure {
            Measure::Money => "spend saved, % of all money",
            Measure::Tokens => "tokens saved, % of all tokens",
            Measure::Steps => "steps saved, % of all steps",
        };
        let mut series: Vec<Series> = Vec::new();
        for row in rows {
            let point = Point::of(row, measure, knows_outcomes);
            let name = legend(&row.candidate, condition);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        Self { answer: answer.to_owned(), x_title, y_title, series }
    }

    /// The file's text, in the form that its name asks for.
    pub(super) fn render(&self, path: &Path) -> String {
        if path.extension().is_some_and(|ending| ending == "svg") {
            svg::draw(self, true)
        } else {
            html::page(self)
        }
    }
}

impl Point {
    fn of(row: &Row, measure: Measure, knows_outcomes: bool) -> Self {
        let effect: &Effect = &row.effect;
        let (saved, spent) = (measure.saved(effect), measure.spent(effect));
        let x = match knows_outcomes {
            true => share(effect.succeeded_stopped, effect.succeeded),
            false => share(effect.stopped, effect.runs),
        };
        let value = row.candidate.values.last().map_or("", |(_, value)| value.as_str());
        let lost = effect.lost().filter(|_| knows_outcomes);
        Self {
            x,
            interval: lost.map(|lost| (lost.low * 100.0, lost.high * 100.0)),
            y: share(saved, spent),
            label: value.to_owned(),
            cells: vec![
                row.candidate.label.clone(),
                of(effect.stopped, effect.runs),
                measure.saved_of(effect),
                percent(saved, spent),
                of(effect.succeeded_stopped, effect.succeeded),
                of(effect.failed_stopped, effect.failed),
            ],
        }
    }
}

/// The subject of a line: the condition, with the swept value left open.
fn legend(candidate: &Candidate, condition: Option<&str>) -> String {
    if candidate.added.is_some() {
        return format!("{} >= ..", candidate.series);
    }
    match condition {
        Some(condition) if !candidate.series.contains('=') => condition.to_owned(),
        Some(condition) => format!("{condition}, {}", candidate.series),
        None => candidate.series.clone(),
    }
}

/// The heads of [`Point::cells`].
const HEADS: [&str; 6] =
    ["limit", "runs stopped", "saved", "of all", "successes lost", "failures cut"];

/// In percent; nothing of nothing is 0.
#[expect(clippy::cast_precision_loss, reason = "a chart is not read to 15 digits")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// Text for XML and HTML, quotes included.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // No form of XML 1.0 has the other control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
