//! An environment without settings: an empty home directory, and no variables but the path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A directory that is removed with this value.
#[derive(Debug)]
pub(super) struct Sandbox {
    directory: PathBuf,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Sandbox {
    /// Makes an empty one below `target`.
    pub(super) fn new(root: &Path, name: &str) -> Result<Self, String> {
        let directory = root.join("target/dist-check").join(name.replace(' ', "-"));
        let _ = fs::remove_dir_all(&directory);
        let made = fs::create_dir_all(directory.join("home"));
        made.map_err(|error| format!("`{}`: {error}", directory.display()))?;
        Ok(Self { directory })
    }

    /// Returns a path in it.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.directory.join(relative)
    }

    /// Returns a command that has the path of this process, and the home directory of the sandbox.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("HOME", self.path("home"));
        command.env("TMPDIR", self.path("home")).env("PIP_CONFIG_FILE", "/dev/null");
        command.current_dir(self.path("home")).stdin(Stdio::null());
        command
    }
}

/// Runs a command that has to exit with `code`; its output is in the error.
pub(super) fn exits(command: &mut Command, code: i32) -> Result<String, String> {
    let done = command.output().map_err(|error| cannot_start(command, &error))?;
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.code() == Some(code) {
        return Ok(output);
    }
    Err(said(command, done.status, &format!("{output}{}", String::from_utf8_lossy(&done.stderr))))
}

fn cannot_start(command: &Command, error: &io::Error) -> String {
    format!("cannot start `{}`: {error}", command.get_program().to_string_lossy())
}

fn said(command: &Command, status: ExitStatus, output: &str) -> String {
    format!("`{}`: {status}\n{output}", command.get_program().to_string_lossy())
}
