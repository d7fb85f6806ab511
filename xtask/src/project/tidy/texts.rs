//! All text files: no paths of one machine, no hosts of package registries.

use super::Finding;
use crate::project::tree::Tree;

/// Beginnings of paths that exist on one machine only; split so that this file does not contain them.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// Hosts that a package manager finds on its own; a fixed host breaks where a mirror is used.
const REGISTRY_HOSTS: [&str; 7] = [
    concat!("index", ".crates.io"),
    concat!("static", ".crates.io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("registry", ".npmjs.org"),
    concat!("proxy", ".golang.org"),
    concat!("sum", ".golang.org"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts.iter().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(found) = MACHINE_PATHS.iter().find(|start| has_absolute(line, start)) {
            let what = format!("path `{found}` of one machine; make it relative to the project");
            findings.push(Finding::new(path, index + 1, what));
        }
        if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(**host)) {
            let what = format!("registry host `{host}`; go through the package manager");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

/// Whether a path that begins with `start` is in the line; `a/start` is a relative path.
fn has_absolute(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|letter| letter.is_alphanumeric() || "_-.~})*".contains(letter))
    })
}

#[cfg(test)]
mod tests;
