//! The house rules that a program can check. `cargo xtask tidy` lists what breaks them, and a test runs
//! the same checks; `cargo xtask tidy --all` lists also what breaks the rules that the project does not keep yet.

mod circles;
mod core_purity;
mod directions;
mod errors;
mod functions;
mod links;
mod manifests;
mod map;
mod modules;
mod names;
mod sizes;
mod sources;
mod texts;
mod tokens;

use std::fmt;
use std::io;
use std::path::Path;

use thiserror::Error;

use self::modules::Module;
use crate::project::docs;
use crate::project::tree::{Tree, TreeError};

/// What is checked.
struct Project<'t> {
    tree: &'t Tree,
    modules: &'t [Module<'t>],
}

/// A rule, and how to find what breaks it.
struct Rule {
    /// What it asks for.
    name: &'static str,
    check: fn(&Project<'_>) -> Result<Vec<Finding>, TidyError>,
    /// Whether the project has to keep it. The others are only listed by `--all`.
    is_enforced: bool,
}

/// Every rule, in the order in which findings are listed.
const RULES: &[Rule] = &[
    enforced("nothing is left undone or unexplained", |p| Ok(sources::check(p.tree))),
    enforced("functions fit on a screen", |p| Ok(functions::check(p.tree))),
    enforced("the core is pure", |p| Ok(core_purity::check_sources(p.tree))),
    enforced("the core builds without the standard library", |p| core_purity::check_build(p.tree)),
    enforced("texts fit every machine", |p| Ok(texts::check(p.tree))),
    enforced("links lead somewhere", |p| Ok(links::check(p.tree))),
    enforced("a checkout builds the same everywhere", |p| manifests::check(p.tree)),
    enforced("generated pages are up to date", |p| Ok(docs::check(p.tree))),
    listed("no file has more than 600 lines of code", |p| Ok(sizes::check_large(p.tree))),
    listed("a small file has a reason", |p| Ok(sizes::check_small(p.tree, p.modules))),
    enforced("crates depend on each other one way", |p| Ok(directions::check_directions(p.tree))),
    enforced("the library brings at most 70 crates", |p| directions::check_weight(p.tree)),
    listed("folders use each other one way", |p| Ok(circles::check(p.modules))),
    enforced("names of types are unique in a crate", |p| Ok(names::check(p.modules))),
    listed("libraries fail with types", |p| Ok(errors::check_errors(p.modules))),
    listed("limits stand together", |p| Ok(errors::check_limits(p.modules))),
    enforced("the map is true", |p| Ok(map::check_map(p.tree))),
    enforced("what is cited is in the repository", |p| Ok(map::check_citations(p.tree))),
];

const fn enforced(
    name: &'static str,
    check: fn(&Project<'_>) -> Result<Vec<Finding>, TidyError>,
) -> Rule {
    Rule { name, check, is_enforced: true }
}

/// A rule that the project does not keep yet.
const fn listed(
    name: &'static str,
    check: fn(&Project<'_>) -> Result<Vec<Finding>, TidyError>,
) -> Rule {
    Rule { name, check, is_enforced: false }
}

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

/// What was found of one rule.
pub(crate) struct Report {
    pub(crate) rule: &'static str,
    pub(crate) is_enforced: bool,
    pub(crate) findings: Vec<Finding>,
}

/// Checks the project at `root` against the rules that it has to keep, or against all.
pub(crate) fn run(root: &Path, all: bool) -> Result<Vec<Report>, TidyError> {
    let tree = Tree::read(root)?;
    let modules = modules::modules(&tree);
    let project = Project { tree: &tree, modules: &modules };
    let mut reports = Vec::new();
    for rule in RULES.iter().filter(|rule| all || rule.is_enforced) {
        let findings = (rule.check)(&project)?;
        reports.push(Report { rule: rule.name, is_enforced: rule.is_enforced, findings });
    }
    Ok(reports)
}

#[cfg(test)]
mod tests;
