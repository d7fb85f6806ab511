//! The licenses of the crates that are in the binary, from their own packages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::content::output;

/// The crate of the command.
const COMMAND: &str = "endstop-cli";
/// How names of files with licenses begin, in upper case.
const LICENSE_FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "UNLICENSE", "NOTICE"];

/// One crate.
#[derive(Debug, Default)]
struct Crate {
    /// Name, version, license expression and repository.
    title: String,
    /// Its license files, in the order of their names.
    texts: Vec<String>,
}

/// Returns the text of THIRD-PARTY-LICENSES: every license once, with the crates that have it.
pub(super) fn of_crates(root: &Path) -> Result<String, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(root);
    let metadata: Value = serde_json::from_slice(&output(&mut cargo)?)
        .map_err(|error| format!("`cargo metadata`: {error}"))?;
    let crates = in_binary(&metadata).ok_or("`cargo metadata` has another form")?;
    let crates: Result<Vec<Crate>, String> = crates.iter().map(|package| read(package)).collect();
    Ok(page(&crates?))
}

/// The packages of others that the command is built from.
fn in_binary(metadata: &Value) -> Option<Vec<&Value>> {
    let packages = metadata.get("packages")?.as_array()?;
    let nodes = metadata.get("resolve")?.get("nodes")?.as_array()?;
    let id = |value: &'_ Value| value.get("id").and_then(Value::as_str).map(str::to_owned);
    let nodes: BTreeMap<String, &Value> =
        nodes.iter().filter_map(|node| Some((id(node)?, node))).collect();
    let command = packages.iter().find(|it| it.get("name").is_some_and(|name| name == COMMAND))?;
    let mut seen = BTreeSet::new();
    let mut next = vec![id(command)?];
    while let Some(package) = next.pop() {
        let node = nodes.get(&package).copied();
        if !seen.insert(package) {
            continue;
        }
        let depends = node.and_then(|node| node.get("deps")?.as_array());
        let normal = depends.into_iter().flatten().filter(|edge| is_normal(edge));
        next.extend(normal.filter_map(|edge| edge.get("pkg")?.as_str().map(str::to_owned)));
    }
    // Packages of this project have no source.
    let others = packages.iter().filter(|package| {
        id(package).is_some_and(|id| seen.contains(&id))
            && package.get("source").is_some_and(|source| !source.is_null())
    });
    Some(others.collect())
}

/// Whether a dependency is part of the program: neither for tests nor for building.
fn is_normal(edge: &Value) -> bool {
    let kinds = edge.get("dep_kinds").and_then(Value::as_array);
    kinds.into_iter().flatten().any(|kind| kind.get("kind").is_none_or(Value::is_null))
}

fn read(package: &Value) -> Result<Crate, String> {
    let text = |key: &str| package.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = text("name");
    let directory = Path::new(text("manifest_path")).parent().unwrap_or(Path::new("."));
    let failed = |error| format!("`{}`: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && LICENSE_FILES.iter().any(|start| file.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let bytes = fs::read(&file).map_err(failed)?;
        texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned());
    }
    let title = format!("{name} {} ({}) {}", text("version"), text("license"), text("repository"));
    Ok(Crate { title: title.trim_end().to_owned(), texts })
}

fn page(crates: &[Crate]) -> String {
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut without = Vec::new();
    for one in crates {
        for text in &one.texts {
            by_text.entry(text).or_default().push(&one.title);
        }
        if one.texts.is_empty() {
            without.push(one.title.as_str());
        }
    }
    let mut groups: Vec<(Vec<&str>, &str)> =
        by_text.into_iter().map(|(text, titles)| (titles, text)).collect();
    groups.sort();
    let mut page = format!("Licenses of the {} crates that Endstop is built from.\n", crates.len());
    if !without.is_empty() {
        page.push_str(
            "\nWithout a license file in their package; their license is in parentheses:\n",
        );
        without.iter().for_each(|title| page.push_str(&format!("  {title}\n")));
    }
    for (titles, text) in groups {
        page.push_str(&format!("\n{}\n", "=".repeat(80)));
        titles.iter().for_each(|title| page.push_str(&format!("{title}\n")));
        page.push_str(&format!("{}\n\n{text}\n", "-".repeat(80)));
    }
    page
}

#[cfg(test)]
mod tests;
