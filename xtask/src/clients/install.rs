//! Packages of the clients, installed once below `target/clients`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::list::DIRECTORY;
use super::run;

/// The longest time that one installation or build takes. Only a resolver that tries old versions one by one takes more.
const MAX_INSTALLATION: Duration = Duration::from_secs(600);
/// The group of `uv`, which resolves in seconds where pip takes minutes.
const UV: &str = "uv";
/// The beginning of the groups of programs, which may call pip, or import what comes with it.
const OF_PROGRAMS: &str = "program-";
/// Variables of pip, and those by which `uv` reads the same.
const INDEXES: [(&str, &str); 2] =
    [("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL")];

/// A group of packages that is installed.
#[derive(Clone, Debug)]
pub(super) struct Installed {
    /// The interpreter.
    pub(super) interpreter: PathBuf,
    /// The directory of the programs; Node looks for packages next to them.
    pub(super) programs: PathBuf,
    /// The directory of the packages.
    pub(super) directory: PathBuf,
}

/// Why a client is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotRun {
    /// Its interpreter or packages cannot be had here: it is skipped.
    Skipped(String),
    /// Something of this repository is wrong: it has failed.
    Broken(String),
}

impl NotRun {
    /// The reason.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Skipped(why) | Self::Broken(why) => why,
        }
    }
}

impl From<String> for NotRun {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

/// The installation of a group, or why it cannot be had; `None` if it was not tried. Several clients share a group, and a
/// second try could take as long as the first. Held while it is installed.
type Tried = Arc<Mutex<Option<Result<Installed, String>>>>;

/// The packages of all clients. A group is installed when the first client needs it, or ahead of that.
#[derive(Debug)]
pub(super) struct Packages<'a> {
    root: &'a Path,
    groups: Mutex<BTreeMap<String, Tried>>,
    uv: OnceLock<Option<PathBuf>>,
}

impl<'a> Packages<'a> {
    pub(super) const fn new(root: &'a Path) -> Self {
        Self { root, groups: Mutex::new(BTreeMap::new()), uv: OnceLock::new() }
    }

    /// Installs a group, unless the requested versions are already installed. Waits for another thread that installs it.
    ///
    /// # Errors
    /// If a package manager fails now or did before, or the group is not described.
    pub(super) fn install(&self, group: &str) -> Result<Installed, NotRun> {
        let tried = self.groups().entry(group.to_owned()).or_default().clone();
        let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*tried {
            return known.clone().map_err(NotRun::Skipped);
        }
        let installed = self.install_now(group);
        match &installed {
            Ok(place) => *tried = Some(Ok(place.clone())),
            Err(NotRun::Skipped(why)) => *tried = Some(Err(why.clone())),
            Err(NotRun::Broken(_)) => {}
        }
        installed
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<String, Tried>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn install_now(&self, group: &str) -> Result<Installed, NotRun> {
        let (file, wanted) = requirements(self.root, group)?;
        let directory = self.directory(group);
        let is_node = file.extension().is_some_and(|ending| ending == "json");
        let mark = directory.join("installed");
        if fs::read_to_string(&mark).ok().as_deref() != Some(&wanted) {
            println!("installs {group} below target/clients");
            // Leftovers of another version must not be found.
            let _ = fs::remove_dir_all(&directory);
            fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
            let begun = Instant::now();
            let installed = if is_node {
                npm(&directory, &file)
            } else {
                let uv = if group == UV { None } else { self.uv() };
                python_packages(&directory, &file, uv, group.starts_with(OF_PROGRAMS))
            };
            installed.map_err(|why| NotRun::Skipped(why.into_text()))?;
            fs::write(&mark, &wanted).map_err(|error| failed(&mark, &error))?;
            println!("installed {group} in {} s", begun.elapsed().as_secs());
        }
        let sources = self.root.join(DIRECTORY);
        if !is_node {
            let interpreter = directory.join("bin/python");
            return Ok(Installed { interpreter, programs: sources, directory });
        }
        copy_programs(&sources, &directory)?;
        let interpreter = PathBuf::from("node");
        Ok(Installed { interpreter, programs: directory.clone(), directory })
    }

    /// The program `uv`, if it can be installed.
    fn uv(&self) -> Option<&Path> {
        let found = self.uv.get_or_init(|| match self.install(UV) {
            Ok(place) => Some(place.directory.join("bin/uv")),
            Err(why) => {
                println!("pip installs all: {UV}: {}", why.into_text());
                None
            }
        });
        found.as_deref()
    }

    /// Removes what was installed of a group.
    pub(super) fn remove(&self, group: &str) {
        self.groups().remove(group);
        // A leftover costs room and nothing else.
        let _ = fs::remove_dir_all(self.directory(group));
    }

    fn directory(&self, group: &str) -> PathBuf {
        self.root.join("target/clients").join(group)
    }
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

/// Makes an environment and installs into it: with `uv` where it can be had, and with pip if that fails. Installing pip takes
/// longer than what `uv` does, so the environment has pip only if its programs or this function may call it.
fn python_packages(
    directory: &Path,
    file: &Path,
    uv: Option<&Path>,
    of_programs: bool,
) -> Result<(), NotRun> {
    let deadline = Deadline::new();
    let text = fs::read_to_string(file).map_err(|error| failed(file, &error))?;
    let version = text.lines().next().and_then(python_version);
    let name = version.map_or_else(|| "python3".to_owned(), |version| format!("python{version}"));
    let mut python = Command::new(&name);
    // Where pyenv has several versions, its commands ask for one.
    python.envs(version.map(|version| ("PYENV_VERSION", version)));
    let without_pip = uv.is_some() && !of_programs;
    python.args(["-m", "venv"]).args(without_pip.then_some("--without-pip"));
    deadline.succeed(&name, python.arg(directory))?;
    let interpreter = directory.join("bin/python");
    if let Some(uv) = uv {
        let mut uv = Command::new(uv);
        // Programs that were not compiled take longer to start than a run waits for them.
        uv.args(["pip", "install", "--quiet", "--compile-bytecode", "--python"]).arg(&interpreter);
        uv.arg("--requirement").arg(file);
        // pip trusts the certificates of the system too.
        uv.env("UV_SYSTEM_CERTS", "true").envs(as_pip(|name| std::env::var(name).ok()));
        match deadline.succeed(UV, &mut uv) {
            Ok(()) => return Ok(()),
            // Without time left, pip reports that.
            Err(why) => println!("tries pip: {}", why.into_text()),
        }
        if without_pip {
            let mut python = Command::new(&interpreter);
            deadline
                .succeed("ensurepip", python.args(["-m", "ensurepip"]).stdout(Stdio::null()))?;
        }
    }
    let mut pip = Command::new(interpreter);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    deadline.succeed("pip", pip.arg(file))
}

/// The variables by which `uv` asks the same indexes as pip, unless it has its own.
fn as_pip(get: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, String)> {
    let missing = INDEXES.into_iter().filter(|(_, of_uv)| get(of_uv).is_none());
    missing.filter_map(|(of_pip, of_uv)| Some((of_uv, get(of_pip)?))).collect()
}

/// The version of Python that the first line of a file asks for.
fn python_version(line: &str) -> Option<&str> {
    line.strip_prefix("# Python ").map(str::trim)
}

fn npm(directory: &Path, file: &Path) -> Result<(), NotRun> {
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

/// Runs a command, for as long as an installation may take.
///
/// # Errors
/// If it fails, or takes longer.
pub(super) fn succeed(name: &str, command: &mut Command) -> Result<(), NotRun> {
    Deadline::new().succeed(name, command)
}

/// The end of the time of an installation, which can be several commands.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    begun: Instant,
    limit: Duration,
}

impl Deadline {
    fn new() -> Self {
        Self { begun: Instant::now(), limit: MAX_INSTALLATION }
    }

    fn succeed(self, name: &str, command: &mut Command) -> Result<(), NotRun> {
        let left = self.limit.saturating_sub(self.begun.elapsed());
        let status = run::status_within(command, left)
            .map_err(|error| format!("cannot start `{name}`: {error}"))?;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(NotRun::Broken(format!("`{name}` failed: {status}"))),
            None => {
                let minutes = self.limit.as_secs().div_ceil(60);
                let why = format!("its installation took longer than {minutes} minutes");
                Err(NotRun::Skipped(why))
            }
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("`{}`: {error}", path.display())
}

#[cfg(test)]
mod tests;
