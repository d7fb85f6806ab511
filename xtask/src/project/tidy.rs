//! The house rules that a program can check. `cargo xtask tidy` lists what breaks them, and a test runs
//! the same checks.

mod core_purity;
mod functions;
mod links;
mod manifests;
mod sources;
mod texts;
mod tokens;

use std::fmt;
use std::io;
use std::path::Path;

use thiserror::Error;

use crate::project::docs;
use crate::project::tree::{Tree, TreeError};

/// A check over all files.
type Check = fn(&Tree) -> Result<Vec<Finding>, TidyError>;

/// Every check, in the order in which findings are listed.
const CHECKS: &[Check] = &[
    |tree| Ok(sources::check(tree)),
    |tree| Ok(functions::check(tree)),
    |tree| Ok(core_purity::check_sources(tree)),
    core_purity::check_build,
    |tree| Ok(texts::check(tree)),
    |tree| Ok(links::check(tree)),
    manifests::check,
    |tree| Ok(docs::check(tree)),
];

/// Something that breaks a house rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// `what` names the fault and what to do about it; lines count from 1.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Why the checks could not be made.
#[derive(Debug, Error)]
pub(crate) enum TidyError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("cannot run `cargo`: {0}")]
    Cargo(io::Error),
}

/// Runs every check over the project at `root`.
pub(crate) fn run(root: &Path) -> Result<Vec<Finding>, TidyError> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    for check in CHECKS {
        findings.extend(check(&tree)?);
    }
    Ok(findings)
}

#[cfg(test)]
#[path = "tidy_tests.rs"]
mod tests;
