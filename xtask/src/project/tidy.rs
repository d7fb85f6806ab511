//! The house rules that a program can check. `cargo xtask tidy` lists what breaks them, and a test runs
//! the same checks.

mod anchors;
mod circles;
mod core_purity;
mod directions;
mod errors;
mod functions;
mod links;
mod locks;
mod manifests;
mod map;
mod modules;
mod names;
mod sizes;
mod sources;
mod test_places;
mod texts;
mod tokens;

use std::fmt;
use std::io;
use std::path::Path;

use thiserror::Error;

use self::modules::Module;
use crate::project::docs;
use crate::project::tree::{Tree, TreeError};

/// The checks.
struct Project<'t> {
    tree: &'t Tree,
    modules: &'t [Module<'t>],
}

/// How to find what breaks a rule.
type Check = fn(&Project<'_>) -> Result<Vec<Finding>, TidyError>;

/// Every rule: what it asks for, and how to find what breaks it.
const RULES: &[(&str, Check)] = &[
    ("nothing is left undone or unexplained", |p| Ok(sources::check(p.tree))),
    ("functions fit on a screen", |p| Ok(functions::check(p.tree))),
    ("unit tests have separate files", |p| Ok(test_places::check(p.tree))),
    ("the core is pure", |p| Ok(core_purity::check_sources(p.tree))),
    ("the core builds without the standard library", |p| core_purity::check_build(p.tree)),
    ("texts fit every machine", |p| Ok(texts::check(p.tree))),
    ("links lead somewhere", |p| Ok(links::check(p.tree))),
    ("places within pages that are cited exist", |p| Ok(anchors::check(p.tree))),
    ("a checkout builds the same everywhere", |p| manifests::check(p.tree)),
    ("lock files are up to date", |p| locks::check(p.tree)),
    ("generated pages are up to date", |p| Ok(docs::check(p.tree))),
    ("no file has more than 600 lines of code", |p| Ok(sizes::check_large(p.tree))),
    ("a small file has a reason", |p| Ok(sizes::check_small(p.tree, p.modules))),
    ("a long reader has a reason", |p| Ok(sizes::check_readers(p.tree))),
    ("crates depend on each other one way", |p| Ok(directions::check_directions(p.tree))),
    ("the library brings at most 70 crates", |p| directions::check_weight(p.tree)),
    ("modules use each other one way", |p| Ok(circles::check(p.modules))),
    ("names of types are unique in a crate", |p| Ok(names::check(p.modules))),
    ("libraries fail with types", |p| Ok(errors::check_errors(p.modules))),
    ("limits stand together", |p| Ok(errors::check_limits(p.modules))),
    ("the map is true", |p| Ok(map::check_map(p.tree))),
    ("what is cited is in the repository", |p| Ok(map::check_citations(p.tree))),
    ("every crate has a front page", |p| Ok(map::check_front_pages(p.tree))),
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

/// Checks the project at `root` against every rule.
pub(crate) fn run(root: &Path) -> Result<Vec<Finding>, TidyError> {
    let tree = Tree::read(root)?;
    let modules = modules::modules(&tree);
    let project = Project { tree: &tree, modules: &modules };
    let mut findings = Vec::new();
    for (_, check) in RULES {
        findings.extend(check(&project)?);
    }
    Ok(findings)
}

#[cfg(test)]
mod tests;
