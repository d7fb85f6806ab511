//! Descriptions of the project are true: paths in its map exist, only pages of the repository are cited, and every crate
//! has a front page.

use std::collections::BTreeSet;

use super::Finding;
use crate::project::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// The section of the map that names the tables of the project.
const TABLES: &str = "## Where to add things";

/// Every path that the map names between backticks exists, from the root or as the end of a path, and so does every table.
pub(super) fn check_map(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.texts.get(MAP) else {
        return vec![Finding::new(MAP, 1, "there is no map of the project")];
    };
    let places = places(tree);
    let mut findings = Vec::new();
    let (mut is_code, mut is_of_tables) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        if line.starts_with("## ") {
            is_of_tables = line == TABLES;
        }
        let tables = quoted(line).filter(|word| is_of_tables && is_constant(word));
        for named in tables.filter(|word| !has_constant(tree, word)) {
            findings.push(Finding::new(MAP, index + 1, format!("no constant `{named}`")));
        }
        for named in quoted(line).filter(|word| is_path(word)) {
            let wanted = named.trim_end_matches('/');
            let ends = |place: &String| {
                place
                    .strip_suffix(wanted)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            };
            if !places.iter().any(ends) {
                findings.push(Finding::new(
                    MAP,
                    index + 1,
                    format!("no file or directory `{named}`"),
                ));
            }
        }
    }
    findings
}

/// The words between backticks: every second part.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_constant(word: &str) -> bool {
    word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn has_constant(tree: &Tree, name: &str) -> bool {
    let written = [format!("const {name}:"), format!("static {name}:")];
    tree.ending_in(".rs").any(|(_, text)| written.iter().any(|it| text.contains(it.as_str())))
}

/// All files and directories of the project. Data files may be too large to be read.
fn places(tree: &Tree) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for path in tree.texts.keys() {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        places.extend(ends.filter_map(|end| path.get(..end)).map(str::to_owned));
    }
    places
}

fn is_path(word: &str) -> bool {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let has_end = [".rs", ".md", ".toml", ".json"].iter().any(|end| word.ends_with(end));
    is_plain && !word.starts_with('/') && (word.contains('/') || has_end)
}

/// Directories of documents that readers do not have; split so that this file does not contain them.
const ABSENT: [&str; 2] = [concat!("shared/", "design"), concat!("design/", "0")];

/// No document is cited that is not in the repository.
pub(super) fn check_citations(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.texts {
        if !is_written(path) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let directory = ABSENT.iter().find(|directory| line.contains(**directory)).copied();
            let Some(document) = directory.or_else(|| numbered(line)) else { continue };
            let what = format!("`{document}` is not in the repository; cite a page that is");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

/// Whether people wrote the file: data may hold anything.
fn is_written(path: &str) -> bool {
    let is_data = path.split('/').any(|part| matches!(part, "data" | "golden"));
    [".rs", ".md", ".toml"].iter().any(|end| path.ends_with(end)) && !is_data
}

/// The subjects of the pages with which the project was planned.
const SUBJECTS: [&str; 14] = [
    "product",
    "semantics",
    "policy",
    "architecture",
    "transcripts",
    "gateway",
    "dependencies",
    "reliability",
    "implementation",
    "house",
    "writing",
    "glossary",
    "budgets",
    "programs",
];

/// A document as those pages are called: two digits, a hyphen, a subject.
fn numbered(line: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    line.split(|c| !is_part(c)).find(|word| {
        let Some((number, name)) = word.split_once('-') else { return false };
        let subject = name.split(|c: char| !c.is_ascii_lowercase()).next();
        number.len() == 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && subject.is_some_and(|subject| SUBJECTS.contains(&subject))
    })
}

/// The heading of a front page under which a reader finds the next pages.
const WHERE_NEXT: &str = "//! # Where next";

/// The documentation of every crate has an example that runs, and names the next pages.
pub(super) fn check_front_pages(tree: &Tree) -> Vec<Finding> {
    let roots = tree.ending_in("/src/lib.rs").filter(|(path, _)| path.starts_with("crates/"));
    roots.flat_map(|(path, text)| check_front_page(path, text)).collect()
}

fn check_front_page(path: &str, text: &str) -> Vec<Finding> {
    let page: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
    // Every second fence begins a block.
    let mut blocks = page.iter().filter_map(|line| line.strip_prefix("//! ```")).step_by(2);
    let mut findings = Vec::new();
    if !blocks.any(|kind| matches!(kind.trim(), "" | "no_run")) {
        findings.push(Finding::new(path, 1, "no example that runs on the front page; add one"));
    }
    if !page.contains(&WHERE_NEXT) {
        findings.push(Finding::new(path, 1, "no heading `# Where next` on the front page"));
    }
    findings
}

#[cfg(test)]
mod tests;
