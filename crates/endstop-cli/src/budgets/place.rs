//! Errors in `[budget.NAME]` tables, at their place in the file that has the table.

use std::ops::Range;
use std::path::Path;

use endstop::account::{AccountError, AccountProblem};
use endstop::core::expr::Diagnostic;
use endstop::core::policy::BudgetTable;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::error::CliError;
use crate::input::read_text;
use crate::limits::MAX_CONFIG_BYTES;
use crate::policy_source::rendered;

/// The error of one of some tables, with its file and line. Tables remember their file alone, so it is read again.
pub(super) fn in_table(error: &AccountError, tables: &[(&String, &BudgetTable)]) -> CliError {
    let plain = CliError::with_advice(&error.to_string());
    let mut named = tables.iter().rev().filter(|(name, _)| **name == error.account);
    // Of several tables of one name, the last one that has the parent is meant.
    let is_of_parent = matches!(error.why, AccountProblem::NoParent(_) | AccountProblem::Cycle);
    let table = named.find(|(_, table)| !is_of_parent || table.parent.is_some());
    let Some(origin) = table.and_then(|(_, table)| table.origin.as_deref()) else { return plain };
    let text = read_text(Path::new(origin), "file of budgets", MAX_CONFIG_BYTES);
    let span =
        text.as_ref().ok().and_then(|text| span_of(text, &error.account, key_of(&error.why)));
    match (text, span) {
        (Ok(text), Some(span)) => {
            let place = Diagnostic { message: plain.message, span, help: plain.hint };
            rendered(&place, &text, origin)
        }
        // The file has changed since, or cannot be read twice.
        _ => plain.with_details(format!(" --> {origin}")),
    }
}

/// The key of a table that a problem is about.
fn key_of(why: &AccountProblem) -> &'static str {
    match why {
        AccountProblem::Limit(_) | AccountProblem::TooManyLimits => "limit",
        AccountProblem::Warn(_) => "warn",
        AccountProblem::OnFull(_) => "on_full",
        AccountProblem::Zone(_) => "timezone",
        AccountProblem::NoParent(_) | AccountProblem::Cycle => "parent",
        AccountProblem::Differs(key) => key,
        _ => "",
    }
}

/// The place of a key's value in a table, or of the table's name.
fn span_of(text: &str, name: &str, key: &str) -> Option<Range<usize>> {
    let file = DeTable::parse(text).ok()?.into_inner();
    let (_, budgets) = entry(&file, "budget")?;
    let (header, table) = entry(table_of(budgets)?, name)?;
    let value = table_of(table).and_then(|table| entry(table, key));
    Some(value.map_or_else(|| header.span(), |(_, value)| value.span()))
}

type TableEntry<'t, 'i> = (&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>);

fn entry<'t, 'i>(table: &'t DeTable<'i>, wanted: &str) -> Option<TableEntry<'t, 'i>> {
    table.iter().find(|(key, _)| key.get_ref() == wanted)
}

fn table_of<'t, 'i>(value: &'t Spanned<DeValue<'i>>) -> Option<&'t DeTable<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
