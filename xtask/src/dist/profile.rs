//! The profile by which a release is optimized: the counts of a build with counters in a training run (`profile/train.sh`).
//!
//! A call of a gateway passes through code from all over the program, and the processor waits for much of it. With a profile,
//! the compiler puts together what runs, and makes the rest small.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::rustc;
use super::sandbox::{Sandbox, exits};

/// Calls of each kind: so many that the rest of the work does not count.
const TIMES: u32 = 200;

/// A training run to come.
#[derive(Debug)]
pub(super) struct Training {
    /// The program that merges counts.
    merger: PathBuf,
    /// Where the program with counters is built.
    pub(super) directory: PathBuf,
    /// Where it leaves its counts.
    counts: PathBuf,
    profile: PathBuf,
}

impl Training {
    /// Prepares the training run of a program for a target. Prints why and returns `None` if it is impossible.
    pub(super) fn prepare(root: &Path, triple: &str) -> Result<Option<Self>, String> {
        let merger = rustc::libraries(root, None)?.with_file_name("bin").join("llvm-profdata");
        if !merger.exists() {
            println!(
                "skipped: optimization by a profile; `rustup component add llvm-tools` brings what it needs"
            );
            return Ok(None);
        }
        let runs_here =
            triple == rustc::host(root)? || (cfg!(target_os = "linux") && triple == rustc::musl());
        if !runs_here {
            println!("skipped: optimization by a profile; programs for {triple} do not run here");
            return Ok(None);
        }
        let directory = root.join("target/profile");
        let counts = directory.join(format!("counts-{triple}"));
        let failed = |error| format!("`{}`: {error}", counts.display());
        // Counts of an earlier version would be merged with the new ones.
        if counts.exists() {
            fs::remove_dir_all(&counts).map_err(failed)?;
        }
        fs::create_dir_all(&counts).map_err(failed)?;
        let profile = directory.join(format!("{triple}.profdata"));
        Ok(Some(Self { merger, directory, counts, profile }))
    }

    /// The flag with which the compiler adds counters to a program.
    pub(super) fn flag(&self) -> String {
        format!("-Cprofile-generate={}", self.counts.display())
    }

    /// Lets the program with counters do what takes time in practice, and makes the profile. Returns the flag with which the
    /// compiler optimizes by it.
    pub(super) fn run(&self, root: &Path, program: &Path) -> Result<String, String> {
        train(root, program, TIMES)?;
        let mut merge = Command::new(&self.merger);
        exits(merge.arg("merge").arg("--output").arg(&self.profile).arg(&self.counts), 0)?;
        Ok(format!("-Cprofile-use={}", self.profile.display()))
    }
}

/// Lets a program do the work of a training run. It makes each kind of call `times` times.
pub(super) fn train(root: &Path, program: &Path, times: u32) -> Result<(), String> {
    let directory = root.join("xtask/src/dist/profile");
    let sandbox = Sandbox::new(root, "training")?;
    let mut sh = sandbox.command("sh");
    sh.arg(directory.join("train.sh"))
        .arg("all")
        .arg(times.to_string())
        .arg(program)
        .arg(&directory);
    sh.arg(root.join("crates/endstop-transcript/tests/data"));
    exits(&mut sh, 0).map(drop)
}
