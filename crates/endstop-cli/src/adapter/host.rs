//! The machine as adapters see it: variables and files of the user, to read only.
//!
//! A separate file because tests put another machine in its place, and `endstop run` looks for programs here too.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::limits::MAX_SETTINGS_BYTES;

/// The part of a machine that adapters read.
pub(crate) trait Host {
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file; `None` if it cannot be read, or is too long for settings.
    fn read(&self, file: &Path) -> Option<String>;
    /// The names in a directory, in order. Empty if it cannot be read.
    fn entries(&self, directory: &Path) -> Vec<OsString>;
}

/// The machine of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThisHost;

impl Host for ThisHost {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, file: &Path) -> Option<String> {
        let mut text = String::new();
        let file = File::open(file).ok().filter(|file| {
            // Reading a pipe would wait for its writer.
            file.metadata().is_ok_and(|data| data.is_file())
        })?;
        let read =
            file.take(MAX_SETTINGS_BYTES.saturating_add(1)).read_to_string(&mut text).ok()?;
        (read as u64 <= MAX_SETTINGS_BYTES).then_some(text)
    }

    fn entries(&self, directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        let mut names: Vec<OsString> =
            entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        names.sort();
        names
    }
}

/// The file of a program: by its path, otherwise in the directories of PATH. `None` if there is no such file that can be
/// executed.
pub(crate) fn executable(program: &OsStr) -> Option<PathBuf> {
    let can_be_run = |file: &PathBuf| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(can_be_run);
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&directories).map(|directory| directory.join(program));
    files.find(can_be_run)
}
