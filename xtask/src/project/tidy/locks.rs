//! Lock files have what their manifests ask for.
//!
//! Both are compared as they are staged: `cargo` fixes a stale lock file in the work tree before a check can read it, but a
//! clean checkout has that of the commit. Cargo itself is not asked, because it needs every package at hand for its answer.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Finding, TidyError};
use crate::project::tree::{self, Tree};

const MANIFEST: &str = "Cargo.toml";
const LOCK_FILE: &str = "Cargo.lock";

/// A package as its manifest declares it.
struct DeclaredPackage<'t> {
    /// The directory of the manifest; empty for the root.
    directory: &'t str,
    name: &'t str,
    version: &'t str,
    dependencies: Vec<DeclaredDependency<'t>>,
}

/// A dependency of a manifest.
struct DeclaredDependency<'t> {
    /// The name of its package.
    name: &'t str,
    requirement: Option<&'t str>,
    /// Whether the lock file of another workspace may lack it: it is for tests, or for a feature.
    is_optional: bool,
}

/// A package of a lock file.
struct LockedPackage<'t> {
    name: &'t str,
    version: &'t str,
    /// Whether it is in the repository.
    is_ours: bool,
    /// Names of packages.
    dependencies: Vec<&'t str>,
}

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, TidyError> {
    let texts = tree::staged(&tree.root, &["*Cargo.toml", "*Cargo.lock"])?;
    Ok(check_texts(&texts))
}

/// Checks every lock file of some files by path.
fn check_texts(texts: &BTreeMap<String, String>) -> Vec<Finding> {
    let (manifests, locks) = (parsed(texts, MANIFEST), parsed(texts, LOCK_FILE));
    let workspace = manifests.get(MANIFEST).and_then(|root| root.get("workspace"));
    let packages =
        manifests.iter().filter_map(|(path, it)| declared(directory(path), it, workspace));
    let packages: Vec<DeclaredPackage<'_>> = packages.collect();
    let mut findings = Vec::new();
    for (path, lock) in &locks {
        let beside = manifests.iter().find(|(it, _)| directory(it) == directory(path));
        let members = |package: &DeclaredPackage<'_>| {
            beside.is_some_and(|(_, it)| is_member(package.directory, directory(path), it))
        };
        for problem in problems(&locked(lock), &packages, members) {
            let what = format!("stale: {problem}; let `cargo metadata` fix it, and stage it");
            findings.push(Finding::new(path, 1, what));
        }
    }
    findings
}

/// The files with this name. One that does not parse is reported with the manifests.
fn parsed<'t>(texts: &'t BTreeMap<String, String>, name: &str) -> BTreeMap<&'t str, Table> {
    let texts = texts.iter().filter(|(path, _)| path.ends_with(name));
    texts.filter_map(|(path, text)| Some((path.as_str(), text.parse::<Table>().ok()?))).collect()
}

/// The directory of a path.
fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn declared<'t>(
    directory: &'t str,
    manifest: &'t Table,
    workspace: Option<&'t Value>,
) -> Option<DeclaredPackage<'t>> {
    let package = manifest.get("package")?;
    let own = package.get("version").and_then(Value::as_str);
    let shared = || workspace?.get("package")?.get("version")?.as_str();
    let of_targets = manifest.get("target").and_then(Value::as_table);
    let of_targets = of_targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut dependencies = Vec::new();
    for table in std::iter::once(manifest).chain(of_targets) {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let all = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            let is_for_tests = kind == "dev-dependencies";
            dependencies
                .extend(all.map(|(key, value)| dependency(key, value, workspace, is_for_tests)));
        }
    }
    Some(DeclaredPackage {
        directory,
        name: package.get("name")?.as_str()?,
        version: own.or_else(shared).unwrap_or("0.0.0"),
        dependencies,
    })
}

fn dependency<'t>(
    key: &'t str,
    value: &'t Value,
    workspace: Option<&'t Value>,
    is_for_tests: bool,
) -> DeclaredDependency<'t> {
    let is = |name: &str| value.get(name).and_then(Value::as_bool) == Some(true);
    let shared = workspace.filter(|_| is("workspace"));
    let shared = shared.and_then(|it| it.get("dependencies")?.get(key));
    let places = [Some(value), shared];
    let package = places.iter().flatten().find_map(|it| it.get("package")?.as_str());
    let requirement = places
        .iter()
        .flatten()
        .find_map(|it| it.as_str().or_else(|| it.get("version").and_then(Value::as_str)));
    DeclaredDependency {
        name: package.unwrap_or(key),
        requirement,
        is_optional: is_for_tests || is("optional"),
    }
}

fn locked(lock: &Table) -> Vec<LockedPackage<'_>> {
    let all = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    let packages = all.filter_map(|package| {
        let dependencies = package.get("dependencies").and_then(Value::as_array);
        // A version follows if there are several.
        let names =
            dependencies.into_iter().flatten().filter_map(|it| it.as_str()?.split(' ').next());
        Some(LockedPackage {
            name: package.get("name")?.as_str()?,
            version: package.get("version")?.as_str()?,
            is_ours: package.get("source").is_none(),
            dependencies: names.collect(),
        })
    });
    packages.collect()
}

/// Whether the package in a directory is a member of the workspace whose manifest is in `root`.
fn is_member(directory: &str, root: &str, manifest: &Table) -> bool {
    if directory == root {
        return true;
    }
    let inner = match root {
        "" => Some(directory),
        _ => directory.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
    };
    let Some(inner) = inner else { return false };
    let members = manifest.get("workspace").and_then(|it| it.get("members")?.as_array());
    members.into_iter().flatten().filter_map(Value::as_str).any(|member| {
        match member.strip_suffix("/*") {
            Some(parent) => self::directory(inner) == parent,
            None => inner == member,
        }
    })
}

/// The differences between a lock file and the manifests, in words.
fn problems(
    locked: &[LockedPackage<'_>],
    packages: &[DeclaredPackage<'_>],
    is_member: impl Fn(&DeclaredPackage<'_>) -> bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages.iter().filter(|package| is_member(package)) {
        if !locked.iter().any(|it| it.is_ours && it.name == package.name) {
            problems.push(format!("it lacks `{}`", package.name));
        }
    }
    for entry in locked.iter().filter(|it| it.is_ours) {
        match packages.iter().find(|it| it.name == entry.name) {
            None => problems.push(format!("no manifest is that of `{}`", entry.name)),
            Some(package) => {
                problems.extend(problems_of(entry, package, is_member(package), locked));
            }
        }
    }
    problems
}

fn problems_of(
    entry: &LockedPackage<'_>,
    package: &DeclaredPackage<'_>,
    is_member: bool,
    locked: &[LockedPackage<'_>],
) -> Vec<String> {
    let (name, mut problems) = (entry.name, Vec::new());
    if entry.version != package.version {
        let (has, wanted) = (entry.version, package.version);
        problems.push(format!("`{name}` is {has}, and {wanted} in its manifest"));
    }
    for dependency in &package.dependencies {
        let wanted = dependency.name;
        if !entry.dependencies.contains(&wanted) {
            if is_member || !dependency.is_optional {
                problems.push(format!("`{name}` lacks `{wanted}`"));
            }
            continue;
        }
        let Some(requirement) = dependency.requirement else { continue };
        if !locked.iter().any(|it| it.name == wanted && admits(requirement, it.version)) {
            problems.push(format!("`{name}` needs `{wanted}` {requirement}"));
        }
    }
    for has in &entry.dependencies {
        if !package.dependencies.iter().any(|it| it.name == *has) {
            problems.push(format!("`{name}` has `{has}`, which its manifest lacks"));
        }
    }
    problems
}

/// Whether a requirement such as `1.2` or `=1.2.3` admits a version. One of another form admits all.
fn admits(requirement: &str, version: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        text.split('.').map(|part| part.parse().ok()).collect()
    };
    let exact = requirement.strip_prefix('=');
    let release = version.split(['-', '+']).next().unwrap_or(version);
    let wanted = numbers(exact.unwrap_or(requirement));
    let (Some(wanted), Some(has)) = (wanted, numbers(release)) else { return true };
    if exact.is_some() {
        return has.starts_with(&wanted);
    }
    // Equal up to the first part that is not zero.
    let same = wanted.iter().position(|part| *part != 0).map_or(wanted.len(), |at| at + 1);
    has.get(..same) == wanted.get(..same) && has >= wanted
}

#[cfg(test)]
mod tests;
