//! Packages of the clients, installed once below `target/clients`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::list::DIRECTORY;

/// A group of packages that is installed.
#[derive(Debug)]
pub(super) struct Installed {
    /// The interpreter.
    pub(super) interpreter: PathBuf,
    /// The directory of the programs; Node looks for packages next to them.
    pub(super) programs: PathBuf,
    /// The directory of the packages.
    pub(super) directory: PathBuf,
}

/// Why a client is not run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotRun {
    /// Its interpreter or packages cannot be had here: it is skipped.
    Skipped(String),
    /// Something of this repository is wrong: it has failed.
    Broken(String),
}

impl From<String> for NotRun {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

/// Installs groups at the same time, because most of an installation waits for the network. [`install`] reports those that
/// fail.
pub(super) fn all(root: &Path, groups: &BTreeSet<String>) {
    std::thread::scope(|scope| {
        for group in groups {
            scope.spawn(move || install(root, group).ok());
        }
    });
}

/// Installs a group, unless the requested versions are already installed.
///
/// # Errors
/// If a package manager fails, or the group is not described.
pub(super) fn install(root: &Path, group: &str) -> Result<Installed, NotRun> {
    let (file, wanted) = requirements(root, group)?;
    let directory = root.join("target/clients").join(group);
    let is_node = file.extension().is_some_and(|ending| ending == "json");
    let mark = directory.join("installed");
    if fs::read_to_string(&mark).ok().as_deref() != Some(&wanted) {
        println!("installs {group} below target/clients");
        // Leftovers of another version must not be found.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        let installed = if is_node { npm(&directory, &file) } else { pip(&directory, &file) };
        installed.map_err(NotRun::Skipped)?;
        fs::write(&mark, &wanted).map_err(|error| failed(&mark, &error))?;
    }
    let sources = root.join(DIRECTORY);
    if !is_node {
        let interpreter = directory.join("bin/python");
        return Ok(Installed { interpreter, programs: sources, directory });
    }
    copy_programs(&sources, &directory)?;
    let interpreter = PathBuf::from("node");
    Ok(Installed { interpreter, programs: directory.clone(), directory })
}

/// Removes what was installed of a group.
pub(super) fn remove(root: &Path, group: &str) {
    // A leftover costs room and nothing else.
    let _ = fs::remove_dir_all(root.join("target/clients").join(group));
}

/// The version that a package is pinned to.
///
/// # Errors
/// If it is not pinned.
pub(crate) fn version(root: &Path, group: &str, package: &str) -> Result<String, String> {
    let (_, text) = requirements(root, group)?;
    pinned(&text, package).ok_or_else(|| format!("`{package}` is not pinned in `{group}`"))
}

fn pinned(text: &str, package: &str) -> Option<String> {
    if let Ok(json) = serde_json::from_str::<Value>(text) {
        return json.get("dependencies")?.get(package)?.as_str().map(str::to_owned);
    }
    text.lines().find_map(|line| {
        let (name, version) = line.split_once("==")?;
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        (name == package).then(|| version.trim().to_owned())
    })
}

/// The file of a group, and what it says.
fn requirements(root: &Path, group: &str) -> Result<(PathBuf, String), String> {
    let directory = root.join(DIRECTORY).join("requirements");
    for ending in ["txt", "json"] {
        let file = directory.join(format!("{group}.{ending}"));
        match fs::read_to_string(&file) {
            Ok(text) => return Ok((file, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&file, &error)),
        }
    }
    Err(format!("there are no requirements of `{group}`"))
}

fn pip(directory: &Path, file: &Path) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| failed(file, &error))?;
    let version = text.lines().next().and_then(python_version);
    let name = version.map_or_else(|| "python3".to_owned(), |version| format!("python{version}"));
    let mut python = Command::new(&name);
    // Where pyenv has several versions, its commands ask for one.
    python.envs(version.map(|version| ("PYENV_VERSION", version)));
    succeed(&name, python.args(["-m", "venv"]).arg(directory))?;
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    succeed("pip", pip.arg(file))
}

/// The version of Python that the first line of a file asks for.
fn python_version(line: &str) -> Option<&str> {
    line.strip_prefix("# Python ").map(str::trim)
}

fn npm(directory: &Path, file: &Path) -> Result<(), String> {
    let wanted = directory.join("package.json");
    fs::copy(file, &wanted).map_err(|error| failed(&wanted, &error))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    succeed("npm", npm.current_dir(directory).stdout(Stdio::null()))
}

fn copy_programs(from: &Path, to: &Path) -> Result<(), String> {
    let entries = fs::read_dir(from).map_err(|error| failed(from, &error))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if let (true, Some(name)) = (path.extension().is_some_and(|e| e == "mjs"), path.file_name())
        {
            fs::copy(&path, to.join(name)).map_err(|error| failed(&path, &error))?;
        }
    }
    Ok(())
}

pub(super) fn succeed(name: &str, command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` failed: {status}")) }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("`{}`: {error}", path.display())
}

#[cfg(test)]
mod tests;
