//! The home directory of a program: it is new, because an earlier run may have left a login or a setting.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A home directory with a directory for work in it.
#[derive(Debug)]
pub(super) struct ProgramHome {
    pub(super) path: PathBuf,
}

impl ProgramHome {
    /// Makes it below `target/clients/homes`.
    ///
    /// # Errors
    /// If a directory cannot be made.
    pub(super) fn new(root: &Path, name: &str) -> Result<Self, String> {
        let path = homes(root).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("work"))
            .map_err(|error| format!("`{}`: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// The directory for work.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// A command in this home, with these directories before the others of PATH. It gets nothing else of the environment.
    ///
    /// # Errors
    /// If a directory has a name that cannot be in PATH.
    pub(super) fn command(
        &self,
        program: impl AsRef<OsStr>,
        directories: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Command, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(directories.into_iter().chain(std::env::split_paths(&path)))
                .map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.env_clear().env("PATH", path).env("HOME", &self.path).env("TERM", "dumb");
        // Programs would take the project for their user's, and read its notes.
        command.env("GIT_CEILING_DIRECTORIES", self.path.parent().unwrap_or(&self.path));
        command.current_dir(self.work());
        Ok(command)
    }
}

fn homes(root: &Path) -> PathBuf {
    root.join("target/clients/homes")
}
