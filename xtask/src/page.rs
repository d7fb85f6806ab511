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

/// The text of a task that is between its marks in a page. Empty if there is none.
pub(crate) fn read(root: &Path, page: &str, task: &str) -> String {
    let whole = fs::read_to_string(root.join(page)).unwrap_or_default();
    let text = whole.split_once(&begin(task)).and_then(|(_, rest)| rest.split_once(END));
    text.map(|(text, _)| text.trim().to_owned()).unwrap_or_default()
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
