//! The programs that parts need: built, installed or found before anything is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::peers::Peers;
use super::place::Place;
use super::redis::RedisServer;
use super::{Options, PAGE, TASK, contract};
use crate::page;

pub(super) const NO_SERVER: &str = "neither `redis-server` nor `valkey-server` is installed";
/// The parts that do not use the command `endstop`.
const WITHOUT_COMMAND: [&str; 1] = ["contract"];
/// The parts that use a server of Redis or Valkey.
const WITH_SERVER: [&str; 4] = ["gateways", "kill", "cost", "burst"];
/// The example that measures the stores, from the directory of the command.
const EXAMPLE: &str = "examples/budget_cost";
/// A program that was built with the profile of releases just now.
const RELEASE: &str = "a release build";

/// The programs of all parts, and the directory that they use.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) place: Place,
    /// The program that measures the stores.
    pub(super) example: PathBuf,
    /// A server of Redis or Valkey with its version. `None` if none is installed.
    server: Option<String>,
    pub(super) peers: Peers,
    /// How the command `endstop` was built.
    command: &'static str,
    /// How the example was built.
    stores: &'static str,
    is_quick: bool,
}

impl Tools {
    /// Builds and finds everything that the parts need.
    ///
    /// # Errors
    /// If a program does not build or start, or `--write` lacks something without which a row would be skipped.
    pub(super) fn prepare(root: &Path, options: &Options) -> Result<Self, String> {
        if options.is_written {
            // As it is, to know now that it can be written.
            page::write(root, PAGE, TASK, &page::read(root, PAGE, TASK))?;
        }
        let server = RedisServer::installed().map(|program| with_version(&program));
        let needed = WITH_SERVER.iter().find(|part| options.has(part));
        if let (true, None, Some(part)) = (options.is_written, &server, needed) {
            return Err(format!("--write needs a server for `{part}`: {NO_SERVER}"));
        }
        let built = root.join("target/release");
        let given = options.binary.as_deref();
        let beside = given.map(|file| file.with_file_name(EXAMPLE)).filter(|file| file.is_file());
        let has_command =
            super::PARTS.iter().any(|part| options.has(part) && !WITHOUT_COMMAND.contains(part));
        let mut targets: Vec<&str> = Vec::new();
        match given {
            Some(file) if has_command => starts(file)?,
            None if has_command => targets.extend(["--bin", "endstop"]),
            _ => {}
        }
        if options.has("cost") && beside.is_none() {
            targets.extend(["--example", "budget_cost"]);
        }
        build(root, &targets)?;
        if options.has("contract") {
            contract::build(root)?;
        }
        let mut peers = Peers::default();
        if options.has("peers") {
            peers = Peers::prepare(root, options.is_quick);
            if let (true, Some(why)) = (options.is_written, peers.missing()) {
                return Err(format!("--write needs what `peers` compares with: {why}"));
            }
        }
        let before = "an `endstop` of `--binary`";
        Ok(Self {
            place: Place::new(given.map_or_else(|| built.join("endstop"), Path::to_path_buf))?,
            stores: if beside.is_some() { "an example next to it" } else { RELEASE },
            command: if given.is_some() { before } else { RELEASE },
            example: beside.unwrap_or_else(|| built.join(EXAMPLE)),
            server,
            peers,
            is_quick: options.is_quick,
        })
    }

    pub(super) const fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// How a part is measured: the machine as it is before, the build, and the server.
    pub(super) fn how(&self, part: &str, machine: &str) -> String {
        let mut words = vec![machine.trim().to_owned()];
        words.push(match part {
            "contract" => "tests that are not optimized".to_owned(),
            "cost" if self.command != self.stores => {
                format!("{}; the stores: {}", self.command, self.stores)
            }
            _ => self.command.to_owned(),
        });
        if WITH_SERVER.contains(&part) || part == "contract" {
            words.extend(self.server.clone());
        }
        if self.is_quick {
            words.push("`--quick`".to_owned());
        }
        words.join(", ")
    }
}

/// A program that was built before has to start.
fn starts(file: &Path) -> Result<(), String> {
    let status = Command::new(file).arg("--version").stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{} --version`: {status}", file.display())),
        Err(error) => Err(format!("`{}`: {error}", file.display())),
    }
}

/// Builds targets as they are released.
fn build(root: &Path, targets: &[&str]) -> Result<(), String> {
    if targets.is_empty() {
        return Ok(());
    }
    // The same packages whatever is built, because they decide about the features of the others.
    let status = Command::new("cargo")
        .args(["build", "--release", "-p", "endstop-cli", "-p", "endstop-runtime"])
        .args(targets)
        .arg("--target-dir")
        .arg(root.join("target"))
        .current_dir(root)
        .status();
    if status.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err("`endstop` or its example does not build".to_owned())
    }
}

/// The program of a server with its version: `Redis server v=7.0.15 sha=…` is what it says.
fn with_version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version_in(&text.unwrap_or_default()).map(str::to_owned);
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    version.map_or_else(|| name.to_string(), |version| format!("{name} {version}"))
}

fn version_in(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix("v="))
}

#[cfg(test)]
mod tests;
