//! An earlier revision compared with this one: its sources, and the table of the results of both.

mod figures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use figures::{Figure, Figures, Part, table};

/// Where everything of a comparison is built, below the root of the project.
pub(crate) const DIRECTORY: &str = "target/against";

/// Checks out a revision into a separate work tree, and returns its path. It is the same for every revision, so that the next
/// build only compiles what differs.
///
/// # Errors
/// If git does not know the revision, or cannot write the work tree.
pub(crate) fn check_out(root: &Path, revision: &str) -> Result<PathBuf, String> {
    let commit =
        git(root, &["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")])
            .map_err(|_| format!("no revision `{revision}`"))?;
    let directory = root.join(DIRECTORY);
    fs::create_dir_all(&directory)
        .map_err(|error| format!("`{}`: {error}", directory.display()))?;
    let source = directory.join("source");
    // In a directory without its own `.git`, git would check out the revision in the project.
    if source.join(".git").exists() {
        git(&source, &["checkout", "--quiet", "--force", "--detach", &commit])?;
    } else {
        let path = source.display().to_string();
        // Git may remember a work tree that was removed with `target`.
        git(root, &["worktree", "add", "--force", "--detach", &path, &commit])?;
    }
    Ok(source)
}

/// Builds the command `endstop` of a revision. Returns its path.
///
/// # Errors
/// If the revision is unknown or does not build.
pub(crate) fn endstop_of(root: &Path, revision: &str) -> Result<PathBuf, String> {
    let source = check_out(root, revision)?;
    let target = root.join(DIRECTORY).join("before");
    let built = Command::new("cargo")
        .args(["build", "--release", "-p", "endstop-cli", "--target-dir"])
        .arg(&target)
        .current_dir(source)
        .status();
    if built.is_ok_and(|status| status.success()) {
        Ok(target.join("release/endstop"))
    } else {
        Err(format!("the command `endstop` of `{revision}` does not build"))
    }
}

/// Runs git in a directory. Returns what it printed.
fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    // In a hook they name another work tree than that of the directory.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    let output = git
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run `git`: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!("`git` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[cfg(test)]
mod tests;
