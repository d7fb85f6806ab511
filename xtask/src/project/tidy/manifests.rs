//! Manifests and the lock file: a checkout builds the same everywhere.

use std::path::{Component, Path};

use toml::{Table, Value};

use super::{Finding, TidyError};
use crate::project::tree::{self, Tree};

const LOCK_FILE: &str = "Cargo.lock";

/// How cargo names the public registry, whichever mirror serves it.
const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, TidyError> {
    let mut findings = Vec::new();
    if !tree::is_tracked(&tree.root, LOCK_FILE)? {
        findings.push(Finding::new(
            LOCK_FILE,
            1,
            "not tracked; add it, so that all build the same",
        ));
    }
    for (path, text) in tree.ending_in(LOCK_FILE) {
        findings.extend(check_lock(path, text));
    }
    for (path, text) in tree.ending_in("Cargo.toml") {
        findings.extend(check_manifest(path, text));
    }
    Ok(findings)
}

fn check_lock(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(source) = line.strip_prefix("source = ") else { continue };
        if source.trim_matches('"') != PUBLIC_REGISTRY {
            let what = format!("package from {source}; take it from the public registry");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return vec![Finding::new(path, 1, format!("not TOML: {error}"))],
    };
    let mut paths = Vec::new();
    collect_paths(&table, &mut paths);
    let depth = path.matches('/').count();
    let mut findings = Vec::new();
    for target in paths {
        if leaves_the_project(depth, &target) {
            let line =
                text.lines().position(|line| line.contains(&target)).map_or(1, |line| line + 1);
            let what = format!("path `{target}` leaves the project; a clean checkout lacks it");
            findings.push(Finding::new(path, line, what));
        }
    }
    findings
}

/// Every text under a key `path`: dependencies, patches, targets.
fn collect_paths(table: &Table, paths: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            Value::String(path) if key == "path" => paths.push(path.clone()),
            Value::Table(inner) => collect_paths(inner, paths),
            Value::Array(values) => {
                values
                    .iter()
                    .filter_map(Value::as_table)
                    .for_each(|inner| collect_paths(inner, paths));
            }
            _ => {}
        }
    }
}

/// Whether `target`, seen from a directory `depth` below the root, lies outside the root.
fn leaves_the_project(mut depth: usize, target: &str) -> bool {
    for part in Path::new(target).components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests;
