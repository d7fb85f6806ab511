//! The profile by which a release is optimized: the counts of a build with counters in a training run (`profile/train.sh`).
//!
//! A call of a gateway passes through code from all over the program, and the processor waits for much of it. With a profile,
//! the compiler puts together what runs, and makes the rest small.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::sandbox::{Sandbox, exits};

/// Calls of each kind: so many that the rest of the work does not count.
const TIMES: u32 = 200;

/// A training run to come.
#[derive(Debug)]
pub(super) struct Training {
    /// The program that merges counts.
    merger: PathBuf,
    /// The triple of this machine. The profile is for all targets.
    pub(super) host: String,
    /// Where the program with counters is built.
    pub(super) directory: PathBuf,
    /// Where it leaves its counts.
    counts: PathBuf,
}

impl Training {
    /// Prepares one. `None` if something that it needs is missing, which is printed.
    pub(super) fn prepare(root: &Path) -> Result<Option<Self>, String> {
        let Some((merger, host)) = merger(root) else {
            println!(
                "skipped: optimization by a profile; `rustup component add llvm-tools` brings what it needs"
            );
            return Ok(None);
        };
        let directory = root.join("target/profile");
        let counts = directory.join("counts");
        let failed = |error| format!("`{}`: {error}", counts.display());
        // Those of an earlier version would be merged with these.
        if counts.exists() {
            fs::remove_dir_all(&counts).map_err(failed)?;
        }
        fs::create_dir_all(&counts).map_err(failed)?;
        Ok(Some(Self { merger, host, directory, counts }))
    }

    /// The flag with which the compiler adds counters to a program.
    pub(super) fn flag(&self) -> String {
        format!("-Cprofile-generate={}", self.counts.display())
    }

    /// Lets the program with counters do what takes time in practice, and returns the profile.
    pub(super) fn run(&self, root: &Path, program: &Path) -> Result<PathBuf, String> {
        train(root, program, TIMES)?;
        let profile = self.directory.join("endstop.profdata");
        let mut merge = Command::new(&self.merger);
        exits(merge.arg("merge").arg("--output").arg(&profile).arg(&self.counts), 0)?;
        Ok(profile)
    }
}

/// Lets a program do the work of a training run, with so many calls of each kind.
pub(super) fn train(root: &Path, program: &Path, times: u32) -> Result<(), String> {
    let of_this = root.join("xtask/src/dist/profile");
    let sandbox = Sandbox::new(root, "training")?;
    let mut sh = sandbox.command("sh");
    sh.arg(of_this.join("train.sh")).arg("all").arg(times.to_string()).arg(program).arg(&of_this);
    sh.arg(root.join("crates/endstop-transcript/tests/data"));
    exits(&mut sh, 0).map(drop)
}

/// The flag with which the compiler optimizes by a profile.
pub(super) fn flag_of(profile: &Path) -> String {
    format!("-Cprofile-use={}", profile.display())
}

/// The program of the compiler that merges counts, and the triple of this machine.
fn merger(root: &Path) -> Option<(PathBuf, String)> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir"]).current_dir(root).stderr(Stdio::null());
    let said = rustc.output().ok()?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let of_host = libraries.parent()?;
    let host = of_host.file_name()?.to_string_lossy().into_owned();
    let merger = of_host.join("bin/llvm-profdata");
    merger.exists().then_some((merger, host))
}
