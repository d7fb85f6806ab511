//! The spend of the history, for the command and for the control API of `endstop serve`.

use endstop::core::units::{MoneyError, WallTime};
use endstop::runtime::history::RecordedCall;
use endstop_gateway::control_source::{
    SourceError, SourceErrorKind, SpendQuery, SpendReport, SpendRow,
};

use super::selection::{By, Selection};
use super::tally::SpendSummary;
use crate::history::{self, history_error};
use crate::limits::MAX_SPEND_ROWS;

/// Answers a query of the control API.
///
/// # Errors
/// Returns an error if a value cannot be used, nothing is recorded, or the history cannot be read.
pub(in crate::command) fn answer(query: &SpendQuery) -> Result<SpendReport, SourceError> {
    let report = report(&Selection::of_query(query)?)?;
    if report.rows.len() > MAX_SPEND_ROWS {
        let error = format!("the answer has more than {MAX_SPEND_ROWS} rows");
        let error = SourceError::new(SourceErrorKind::Unusable, error);
        return Err(error.with_hint("write a later day in `since`, or other rows in `by`"));
    }
    Ok(report)
}

/// Adds up what the history has.
///
/// # Errors
/// Returns an error if nothing is recorded, or the history cannot be read.
pub(super) fn report(selection: &Selection) -> Result<SpendReport, SourceError> {
    let failed = |error| history_error(&error).into_source(SourceErrorKind::Failed);
    let history = history::read().map_err(|error| error.into_source(SourceErrorKind::Failed))?;
    let history = match history {
        Some(history) if !history.is_empty().map_err(failed)? => history,
        _ => return Err(SourceError::new(SourceErrorKind::Unknown, "no calls in the history")),
    };
    let mut summary = SpendSummary::default();
    let begin = selection.begin().map(WallTime);
    let add = |call: RecordedCall| summary.add_recorded(&call, selection.rows(&call));
    history.each_call(begin, add).map_err(failed)?;
    Ok(to_report(selection.by, &summary))
}

fn to_report(by: By, summary: &SpendSummary) -> SpendReport {
    let rows = summary.rows.iter().map(|(name, amounts)| {
        let mut row = SpendRow { totals: amounts.to_totals(), ..SpendRow::default() };
        if let Some(place) = place_of(by, &mut row) {
            *place = Some(name.clone());
        }
        row
    });
    let (unconfirmed_calls, unconfirmed) = summary.unconfirmed;
    SpendReport {
        version: 1,
        source: "history".to_owned(),
        by: by.name().to_owned(),
        rows: rows.collect(),
        total: summary.total.to_totals(),
        runs: summary.runs,
        duplicates: summary.duplicates,
        unpriced_models: summary.unpriced.clone(),
        unconfirmed_calls,
        unconfirmed_usd: unconfirmed.to_decimal(),
        calls_in_several_rows: summary.in_many_rows,
    }
}

/// The place of a row's name.
fn place_of(by: By, row: &mut SpendRow) -> Option<&mut Option<String>> {
    Some(match by {
        By::Day => &mut row.day,
        By::Model => &mut row.model,
        By::Project => &mut row.project,
        By::Run => &mut row.run,
        By::Budget => &mut row.budget,
        By::Key => &mut row.key,
        By::Tool => return None,
    })
}

/// The totals of a report, for its table.
///
/// # Errors
/// Returns an error if an amount of it is none.
pub(super) fn summary_of(by: By, report: &SpendReport) -> Result<SpendSummary, MoneyError> {
    SpendSummary::of_report(report, |row| {
        place_of(by, &mut row.clone()).and_then(Option::take).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests;
