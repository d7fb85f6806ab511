//! Which crate may use which, and how many crates a user of the loop compiles.

use std::collections::BTreeSet;
use std::process::Command;

use toml::{Table, Value};

use super::{Finding, TidyError};
use crate::project::tree::Tree;

/// The crates of the project that each crate may depend on. Those in parentheses only by a feature.
const MAY_USE: [(&str, &[&str], &[&str]); 9] = [
    ("endstop-core", &[], &[]),
    ("endstop-price", &["endstop-core"], &[]),
    ("endstop-llm", &["endstop-core", "endstop-price"], &[]),
    ("endstop-runtime", &["endstop-core", "endstop-price"], &[]),
    ("endstop-transcript", &["endstop-core", "endstop-price"], &[]),
    ("endstop-replay", &["endstop-core", "endstop-price", "endstop-transcript"], &[]),
    ("endstop-sim", &[], &[]),
    (
        "endstop",
        &["endstop-core", "endstop-price", "endstop-runtime"],
        &["endstop-llm", "endstop-replay", "endstop-transcript"],
    ),
    ("endstop-gateway", &["endstop-core", "endstop-llm", "endstop-price", "endstop-runtime"], &[]),
];

/// The crate that may use all.
const COMMAND: &str = "endstop-cli";

/// Dependencies point one way.
pub(super) fn check_directions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending_in("Cargo.toml") {
        let Some(name) =
            path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        // A manifest that does not parse is reported with the manifests.
        let Ok(manifest) = text.parse::<Table>() else { continue };
        if name != COMMAND {
            findings.extend(check_manifest(path, name, text, &manifest));
        }
    }
    findings
}

fn check_manifest(path: &str, name: &str, text: &str, manifest: &Table) -> Vec<Finding> {
    let Some((_, used, optional)) = MAY_USE.iter().find(|(known, ..)| *known == name) else {
        let what = format!("crate `{name}` has no place among the others; say what it may use");
        return vec![Finding::new(path, 1, what)];
    };
    let mut findings = Vec::new();
    for (dependency, is_optional) in dependencies(manifest) {
        let is_ours = dependency == "endstop" || dependency.starts_with("endstop-");
        let is_allowed = used.contains(&dependency.as_str())
            || (is_optional && optional.contains(&dependency.as_str()));
        if is_ours && !is_allowed {
            let line = text.lines().position(|line| line.starts_with(&dependency));
            let what = match optional.contains(&dependency.as_str()) {
                true => {
                    format!("`{name}` may use `{dependency}` by a feature only; make it optional")
                }
                false => format!("`{name}` may not use `{dependency}`; the arrows point one way"),
            };
            findings.push(Finding::new(path, line.map_or(1, |line| line + 1), what));
        }
    }
    findings
}

/// The normal dependencies, and whether each is optional.
fn dependencies(manifest: &Table) -> Vec<(String, bool)> {
    let of_targets = manifest.get("target").and_then(Value::as_table);
    let of_targets = of_targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let tables = std::iter::once(manifest).chain(of_targets);
    let tables = tables.filter_map(|table| table.get("dependencies")?.as_table());
    tables
        .flatten()
        .map(|(name, value)| {
            let is_optional = value.get("optional").and_then(Value::as_bool) == Some(true);
            (name.clone(), is_optional)
        })
        .collect()
}

/// The crate that people who build agents depend on.
const LIBRARY: &str = "endstop";

/// The most crates that it may bring, itself included: a library should not take a minute to build.
const MOST_CRATES: usize = 70;

/// Counts the crates that the library without features is built from.
pub(super) fn check_weight(tree: &Tree) -> Result<Vec<Finding>, TidyError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&tree.root)
        .args(["tree", "--package", LIBRARY, "--edges", "normal", "--prefix", "none"])
        .output()
        .map_err(TidyError::Cargo)?;
    let manifest = format!("crates/{LIBRARY}/Cargo.toml");
    if !output.status.success() {
        return Ok(vec![Finding::new(&manifest, 1, "`cargo tree` fails")]);
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    let crates = count(&listing);
    let what = format!("{crates} crates in its tree, and {MOST_CRATES} is the limit; use less");
    Ok(if crates > MOST_CRATES { vec![Finding::new(&manifest, 1, what)] } else { Vec::new() })
}

/// Crates of a listing, each version once.
fn count(listing: &str) -> usize {
    let name_and_version = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    listing.lines().filter_map(name_and_version).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests;
