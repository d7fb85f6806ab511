//! The binaries that are packaged, their origin, and the libraries that they need.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::platform::Platform;
use super::profile::{self, Training};
use super::rustc;

/// The oldest glibc that packages are built for; wheels have a tag for it.
const OLDEST_GLIBC: u32 = 17;

/// Where the binaries come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Build<'a> {
    /// The debug binary, which tests use.
    Debug,
    /// Files that were built before.
    Given(Vec<&'a str>),
    /// A release build for a target, by default for this machine.
    Release(Option<&'a str>),
}

/// One binary.
#[derive(Debug)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) platform: Platform,
    /// The minor version of the glibc 2 that it needs; `None` if it needs none.
    pub(super) glibc: Option<u32>,
    version: String,
}

impl fmt::Display for Binary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Platform { system, machine, .. } = self.platform;
        write!(formatter, "`{}`, {system} {machine}, ", self.path.display())?;
        match self.glibc {
            Some(minor) => write!(formatter, "needs glibc 2.{minor}"),
            None => write!(formatter, "needs no library"),
        }
    }
}

impl Binary {
    /// Reads a binary, and asks it for its version.
    fn read(path: PathBuf) -> Result<Self, String> {
        let failed = |error| format!("`{}`: {error}", path.display());
        let bytes = fs::read(&path).map_err(failed)?;
        let platform = Platform::of(&bytes)
            .ok_or_else(|| format!("`{}` is no program of a known platform", path.display()))?;
        let said = Command::new(&path).arg("--version").output().map_err(failed)?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.trim().strip_prefix("endstop ").unwrap_or_default().to_owned();
        if version.is_empty() {
            return Err(format!("`{}` does not say its version", path.display()));
        }
        let glibc = glibc(&bytes);
        Ok(Self { path, bytes, platform, glibc, version })
    }

    /// Whether it runs on a system without any library.
    pub(super) fn is_static(&self) -> bool {
        self.platform.system == "linux" && self.glibc.is_none()
    }

    /// Returns the version that all of them have.
    ///
    /// # Errors
    /// If they differ, or there is none.
    pub(super) fn common_version(binaries: &[Self]) -> Result<String, String> {
        let first = binaries.first().ok_or("no binary")?;
        match binaries.iter().find(|binary| binary.version != first.version) {
            Some(other) => {
                Err(format!("{first} is {}, {other} is {}", first.version, other.version))
            }
            None => Ok(first.version.clone()),
        }
    }

    /// Returns the tags of its wheel, in the form of a file name.
    pub(super) fn wheel_tag(&self) -> String {
        let machine = self.platform.machine;
        match (self.platform.system, self.glibc) {
            ("linux", Some(minor)) => {
                let minor = minor.max(OLDEST_GLIBC);
                format!("manylinux_2_{minor}_{machine}")
            }
            ("linux", None) => {
                format!("manylinux_2_{OLDEST_GLIBC}_{machine}.musllinux_1_1_{machine}")
            }
            _ => self.platform.mac_tag.to_owned(),
        }
    }
}

/// The newest version of glibc 2 whose symbols a program names.
fn glibc(program: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"GLIBC_2.";
    let places = program.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let minors = places.filter_map(|(at, _)| {
        let rest = program.get(at.checked_add(NAME.len())?..)?;
        let digits: String = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .map(|byte| char::from(*byte))
            .collect();
        digits.parse().ok()
    });
    minors.max()
}

/// Builds or reads the binaries.
pub(super) fn binaries(root: &Path, build: &Build<'_>) -> Result<Vec<Binary>, String> {
    let files = match build {
        Build::Debug => {
            let binary = crate::clients::build(root)?;
            println!("a training run, as before a release");
            profile::train(root, &binary, 1)?;
            vec![without_symbols(root, binary)]
        }
        Build::Given(files) => files.iter().map(PathBuf::from).collect(),
        Build::Release(target) => release_builds(root, *target)?,
    };
    files.into_iter().map(Binary::read).collect()
}

/// A copy without line tables, which would make packages four times as large; the binary itself if `strip` is missing.
fn without_symbols(root: &Path, binary: PathBuf) -> PathBuf {
    let copy = root.join("target/dist-debug-binary");
    let stripped = Command::new("strip").arg("-o").arg(&copy).arg(&binary).status();
    if stripped.is_ok_and(|status| status.success()) { copy } else { binary }
}

/// Builds with `cargo zigbuild` if it is installed, for an old glibc and, if the target can be had, without one.
/// Builds for this system otherwise.
fn release_builds(root: &Path, target: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let targets = match target {
        Some(target) => vec![target.to_owned()],
        None if cfg!(target_os = "linux") && has_zig() => {
            let gnu = format!("{}-unknown-linux-gnu.2.{OLDEST_GLIBC}", std::env::consts::ARCH);
            let musl = rustc::musl();
            let mut targets = vec![gnu];
            if rustc::has_target(root, &musl) {
                targets.push(musl);
            } else {
                println!("skipped: a static binary; `rustup target add {musl}` brings its target");
            }
            targets
        }
        None => {
            println!(
                "skipped: packages for older systems; `pip install ziglang cargo-zigbuild` brings what they need"
            );
            return Ok(vec![release_build(root, &rustc::host(root)?, "build")?]);
        }
    };
    let verb = if has_zig() { "zigbuild" } else { "build" };
    targets.iter().map(|target| release_build(root, target, verb)).collect()
}

/// Builds for a target, by `cargo build` or `cargo zigbuild`.
///
/// A profile fits one target alone, and only if the program with counters is built by the same verb: symbols get other names
/// otherwise.
fn release_build(root: &Path, target: &str, verb: &str) -> Result<PathBuf, String> {
    let triple = target.split_once(".2.").map_or(target, |(triple, _)| triple);
    let is_zig = verb == "zigbuild";
    let mut flags = None;
    let training = Training::prepare(root, triple)?;
    if let Some(training) = &training {
        println!("a build for {triple} with counters");
        let mut cargo = cargo_build(root, verb, triple);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", training.flag());
        if is_zig {
            // Zig's linker does not take the option with which the compiler keeps the counters.
            let name = triple.to_uppercase().replace('-', "_");
            cargo.env(format!("CARGO_TARGET_{name}_LINKER"), "cc");
        }
        succeeds(cargo.arg("--target-dir").arg(&training.directory))?;
        println!("a training run of it");
        let program = training.directory.join(triple).join("release/endstop");
        flags = Some(training.run(root, &program)?);
    }
    let mut cargo = cargo_build(root, verb, target);
    // Flags for the linker of this machine are not for zig's, and the build with counters had none of them either.
    if is_zig || flags.is_some() {
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.unwrap_or_default());
    }
    succeeds(&mut cargo)?;
    let place =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let release = place.join(triple).join("release");
    if let Some(training) = &training {
        let (counted, all) = training.check(&release.join("deps"))?;
        println!("optimized by its profile: {counted} of {all} functions of a crate have counts");
    }
    Ok(release.join("endstop"))
}

/// The command that builds the binary for a target, by `cargo build` or `cargo zigbuild`.
fn cargo_build(root: &Path, verb: &str, target: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args([verb, "--release", "--locked", "--package", "endstop-cli", "--bin", "endstop"]);
    cargo.args(["--target", target]).current_dir(root);
    cargo
}

/// Runs a command whose output the user sees.
fn succeeds(command: &mut Command) -> Result<(), String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let said = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let status = command.status().map_err(|error| format!("cannot start `{said}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{said}`: {status}")) }
}

fn has_zig() -> bool {
    let asked = Command::new("cargo").args(["zigbuild", "--help"]).output();
    asked.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests;
