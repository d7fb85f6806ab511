//! The profile by which a release is optimized: the counts of a build with counters in a training run (`profile/train.sh`).
//!
//! A call of a gateway passes through code from all over the program, and the processor waits for much of it. With a profile,
//! the compiler puts together what runs, and makes the rest small.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::content::output;
use super::rustc;
use super::sandbox::{Sandbox, exits};

/// Calls of each kind: so many that the rest of the work does not count.
const TIMES: u32 = 200;

/// A crate that the training run uses much. Its code shows whether the compiler used the profile.
const WITNESS: &str = "endstop_runtime";

/// Programs of the component `llvm-tools`.
const TOOLS: [&str; 3] = ["llvm-profdata", "llvm-ar", "llvm-dis"];

/// A training run to come.
#[derive(Debug)]
pub(super) struct Training {
    /// Where the tools of the compiler are.
    tools: PathBuf,
    /// Where the program with counters is built.
    pub(super) directory: PathBuf,
    /// Where it leaves its counts.
    counts: PathBuf,
    profile: PathBuf,
}

impl Training {
    /// Prepares the training run of a program for a target. Prints why and returns `None` if it is impossible.
    pub(super) fn prepare(root: &Path, triple: &str) -> Result<Option<Self>, String> {
        let tools = rustc::libraries(root, None)?.with_file_name("bin");
        if !TOOLS.iter().all(|name| tools.join(name).exists()) {
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
        Ok(Some(Self { tools, directory, counts, profile }))
    }

    /// The flag with which the compiler adds counters to a program.
    pub(super) fn flag(&self) -> String {
        format!("-Cprofile-generate={}", self.counts.display())
    }

    /// Lets the program with counters do what takes time in practice, and makes the profile. Returns the flag with which the
    /// compiler optimizes by it.
    pub(super) fn run(&self, root: &Path, program: &Path) -> Result<String, String> {
        train(root, program, TIMES)?;
        self.merge()
    }

    fn merge(&self) -> Result<String, String> {
        let mut merge = Command::new(self.tools.join("llvm-profdata"));
        output(merge.arg("merge").arg("--output").arg(&self.profile).arg(&self.counts))?;
        Ok(format!("-Cprofile-use={}", self.profile.display()))
    }

    /// Checks that the compiler used the profile for these dependencies of a program. It ignores a profile that does not fit, and
    /// says nothing.
    ///
    /// Returns how many functions have counts, and how many there are, in one of the crates.
    pub(super) fn check(&self, dependencies: &Path) -> Result<(usize, usize), String> {
        let library = newest(dependencies, &format!("lib{WITNESS}-"))?;
        let (counted, all) = self.counted(&library)?;
        // Of another compilation there are none, because the names are others.
        if counted < all / 2 || counted == 0 {
            return Err(format!(
                "the profile is of another program: it has counts for {counted} of the {all} functions of `{}`",
                library.display()
            ));
        }
        Ok((counted, all))
    }

    /// Counts the functions of a compiled crate that have counts, and all of them.
    fn counted(&self, library: &Path) -> Result<(usize, usize), String> {
        let archive = |verb: &str| {
            let mut command = Command::new(self.tools.join("llvm-ar"));
            command.arg(verb).arg(library);
            command
        };
        let names = String::from_utf8_lossy(&output(&mut archive("t"))?).into_owned();
        let code = self.directory.join("witness.bc");
        let (mut counted, mut all) = (0_usize, 0_usize);
        for name in names.lines().filter(|name| name.ends_with(".o")) {
            let bytes = output(archive("p").arg(name))?;
            fs::write(&code, bytes).map_err(|error| format!("`{}`: {error}", code.display()))?;
            let mut dis = Command::new(self.tools.join("llvm-dis"));
            let text = output(dis.args(["-o", "-"]).arg(&code))?;
            let text = String::from_utf8_lossy(&text);
            let functions = text.lines().filter(|line| line.starts_with("define "));
            for function in functions {
                all = all.saturating_add(1);
                counted = counted.saturating_add(usize::from(function.contains(" !prof !")));
            }
        }
        Ok((counted, all))
    }
}

/// The newest library of a directory whose name begins like this: other versions can be there too.
fn newest(directory: &Path, begin: &str) -> Result<PathBuf, String> {
    let failed = |error| format!("`{}`: {error}", directory.display());
    let files = fs::read_dir(directory).map_err(failed)?.filter_map(Result::ok);
    let is_one = |name: &str| name.starts_with(begin) && name.ends_with(".rlib");
    let libraries = files.filter(|file| file.file_name().to_str().is_some_and(is_one));
    let written = |file: &fs::DirEntry| file.metadata().and_then(|it| it.modified());
    let newest = libraries.max_by_key(|file| written(file).unwrap_or(SystemTime::UNIX_EPOCH));
    let newest =
        newest.ok_or_else(|| format!("`{}` has no `{begin}*.rlib`", directory.display()))?;
    Ok(newest.path())
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

#[cfg(test)]
mod tests;
