//! The files next to the binary: completions, man pages, licenses.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::binary::Binary;
use super::licenses;

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path in the archive, with `/`.
    pub(super) path: String,
    pub(super) is_executable: bool,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    /// Returns a file that is not executable.
    pub(super) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), is_executable: false, bytes: bytes.into() }
    }

    /// Returns a program.
    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), is_executable: true, bytes: bytes.into() }
    }

    /// Returns the file below another directory.
    pub(super) fn below(&self, directory: &str) -> Self {
        Self { path: format!("{directory}/{}", self.path), ..self.clone() }
    }
}

/// Files that channels share.
#[derive(Debug)]
pub(super) struct Content {
    /// Completion scripts, below `completions/`.
    pub(super) completions: Vec<Entry>,
    /// Man pages, below `man/man1/`.
    pub(super) man: Vec<Entry>,
    /// The licenses of the project and of the crates in the binary.
    pub(super) licenses: Vec<Entry>,
    /// README.
    pub(super) readme: Entry,
}

/// The scripts, by the names that their shells look for.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "endstop.bash"), ("zsh", "_endstop"), ("fish", "endstop.fish")];

impl Content {
    /// Asks the binary for its completions and man pages, and the crates for their licenses.
    pub(super) fn collect(root: &Path, binary: &Binary) -> Result<Self, String> {
        let mut completions = Vec::new();
        for (shell, name) in COMPLETIONS {
            let script = output(Command::new(&binary.path).args(["completions", shell]))?;
            completions.push(Entry::file(format!("completions/{name}"), script));
        }
        let mut licenses = vec![
            own(root, "LICENSE-APACHE")?,
            own(root, "LICENSE-MIT")?,
            Entry::file("THIRD-PARTY-LICENSES.txt", licenses::of_crates(root)?),
        ];
        licenses.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Self {
            completions,
            man: man_pages(root, binary)?,
            licenses,
            readme: own(root, "README.md")?,
        })
    }
}

fn own(root: &Path, name: &str) -> Result<Entry, String> {
    let bytes = fs::read(root.join(name)).map_err(|error| format!("`{name}`: {error}"))?;
    Ok(Entry::file(name, bytes))
}

fn man_pages(root: &Path, binary: &Binary) -> Result<Vec<Entry>, String> {
    let directory = root.join("target/dist-man");
    let failed = |error| format!("`{}`: {error}", directory.display());
    let _ = fs::remove_dir_all(&directory);
    output(Command::new(&binary.path).args(["man", "--out"]).arg(&directory))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = fs::read(entry.path()).map_err(failed)?;
        pages.push(Entry::file(format!("man/man1/{name}"), bytes));
    }
    pages.sort_by(|left, right| left.path.cmp(&right.path));
    let _ = fs::remove_dir_all(&directory);
    Ok(pages)
}

/// The standard output of a command that succeeds.
pub(super) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(format!("`{name}`: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)))
}
