//! Pages that are generated from the code. `cargo xtask docs` writes them; tidy compares them.

mod cli;
mod conditions;
mod metering;
mod schema;

use std::fs;
use std::io;
use std::path::Path;

use thiserror::Error;

use crate::project::tidy::Finding;
use crate::project::tree::Tree;

/// A generated page: its path from the root, and what makes its text.
type Page = (&'static str, fn() -> String);

/// Every generated page.
const GENERATED: &[Page] = &[
    ("docs/cli.md", cli::page),
    ("docs/conditions.md", conditions::page),
    ("docs/control-api.json", schema::control_api),
    ("docs/metering.md", metering::page),
    ("docs/policy.schema.json", schema::page),
];

/// Why a page could not be written.
#[derive(Debug, Error)]
pub(crate) enum DocsError {
    #[error("cannot write `{path}`: {source}")]
    Write { path: &'static str, source: io::Error },
}

/// Writes every generated page and lists their paths.
pub(crate) fn write(root: &Path) -> Result<Vec<&'static str>, DocsError> {
    let mut written = Vec::new();
    for &(path, text) in GENERATED {
        let failed = |source| DocsError::Write { path, source };
        let file = root.join(path);
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        fs::write(&file, text()).map_err(failed)?;
        written.push(path);
    }
    Ok(written)
}

/// Finds the pages that are not what the code makes of them now.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let stale = |&(path, text): &Page| {
        let expected = text();
        let found = tree.texts.get(path).map_or("", String::as_str);
        if found == expected {
            return None;
        }
        let same = found.lines().zip(expected.lines()).take_while(|(old, new)| old == new).count();
        Some(Finding::new(
            path,
            same + 1,
            "out of date; run `cargo xtask docs` and commit the result",
        ))
    };
    GENERATED.iter().filter_map(stale).collect()
}

#[cfg(test)]
mod tests;
