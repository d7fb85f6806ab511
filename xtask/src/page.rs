//! Tables that a task writes into a page of the documentation.
//!
//! A separate file because every task that measures writes one.

use std::fs;
use std::path::Path;

const END: &str = "<!-- end -->\n";

/// Puts the text of a task between its marks in a page. `page` is its path from `root`.
///
/// # Errors
/// If the page cannot be read or written, or has no marks of this task.
pub(crate) fn write(root: &Path, page: &str, task: &str, text: &str) -> Result<(), String> {
    let path = root.join(page);
    let failed = |error| format!("`{page}`: {error}");
    let whole = fs::read_to_string(&path).map_err(failed)?;
    let whole = insert(&whole, task, text).ok_or(format!("`{page}` has no marks of `{task}`"))?;
    // A task that is interrupted now must not leave half a page.
    let beside = path.with_extension("new");
    fs::write(&beside, whole).and_then(|()| fs::rename(&beside, &path)).map_err(failed)
}

/// Puts rows into the table of a task in a page. Rows of other names, the first cells, stay, in the order of `order`.
///
/// # Errors
/// As [`write()`].
pub(crate) fn merge(
    root: &Path,
    page: &str,
    task: &str,
    table: &str,
    order: &[&str],
) -> Result<(), String> {
    write(root, page, task, &merged(&read(root, page, task), table, order))
}

/// The text of a task that is between its marks in a page. Empty if there is none.
pub(crate) fn read(root: &Path, page: &str, task: &str) -> String {
    let whole = fs::read_to_string(root.join(page)).unwrap_or_default();
    let text = whole.split_once(&begin(task)).and_then(|(_, rest)| rest.split_once(END));
    text.map(|(text, _)| text.trim().to_owned()).unwrap_or_default()
}

/// A table in which the rows of some names, the first cells, are new ones. `order` has all names; rows of others are
/// left out. Rows with the same name belong together: new ones replace all of them.
fn merged(old: &str, new: &str, order: &[&str]) -> String {
    let name = |row: &str| row.split('|').nth(1).unwrap_or_default().trim().to_owned();
    let mut lines = new.lines();
    let head: Vec<&str> = lines.by_ref().take(2).collect();
    let new: Vec<&str> = lines.collect();
    let is_new = |row: &str| new.iter().any(|other| name(other) == name(row));
    let place = |row: &str| order.iter().position(|known| *known == name(row));
    let kept = old.lines().skip(2).filter(|row| !is_new(row));
    let mut rows: Vec<(usize, &str)> =
        kept.chain(new.iter().copied()).filter_map(|row| Some((place(row)?, row))).collect();
    rows.sort_by_key(|(place, _)| *place);
    let rows = rows.into_iter().map(|(_, row)| row);
    head.into_iter().chain(rows).map(|line| format!("{line}\n")).collect()
}

fn insert(page: &str, task: &str, text: &str) -> Option<String> {
    let begin = begin(task);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{text}\n{END}{after}"))
}

fn begin(task: &str) -> String {
    format!("<!-- begin: cargo xtask {task} --write -->\n")
}

#[cfg(test)]
mod tests;
