//! The files of the project, as git knows them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// Files above this many bytes are data, not written text; they are not read.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Why the files of the project could not be read.
#[derive(Debug, Error)]
pub(crate) enum TreeError {
    #[error("cannot run `git`: {0}")]
    Git(io::Error),
    #[error("`git ls-files` failed: {0}")]
    GitFailed(String),
    #[error("cannot read `{path}`: {source}")]
    Read { path: String, source: io::Error },
}

/// The text files of the project, by path from the root with `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every text file that git tracks or would track, so that a new file is checked before it is
    /// committed. Binary and very large files are left out.
    pub(crate) fn read(root: &Path) -> Result<Self, TreeError> {
        let mut texts = BTreeMap::new();
        for path in git_files(root, &["--cached", "--others", "--exclude-standard"])? {
            let file = root.join(&path);
            let failed = |source| TreeError::Read { path: path.clone(), source };
            match fs::metadata(&file) {
                Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_TEXT_BYTES => {}
                // Deleted in the work tree and not yet in the index.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
                Ok(_) => continue,
            }
            let bytes = fs::read(&file).map_err(failed)?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.insert(path, text);
            }
        }
        Ok(Self { root: root.to_path_buf(), texts })
    }

    /// The files whose path ends in `ending`.
    pub(crate) fn ending_in<'a>(
        &'a self,
        ending: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

/// Whether git tracks the file.
pub(crate) fn is_tracked(root: &Path, path: &str) -> Result<bool, TreeError> {
    Ok(!git_files(root, &["--cached", "--", path])?.is_empty())
}

/// The files that match a pattern as they are staged, by path. One in a conflict of a merge is left out.
pub(crate) fn staged(
    root: &Path,
    patterns: &[&str],
) -> Result<BTreeMap<String, String>, TreeError> {
    let mut texts = BTreeMap::new();
    for path in git_files(root, &[&["--cached", "--"][..], patterns].concat())? {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(["show", &format!(":./{path}")])
            .output()
            .map_err(TreeError::Git)?;
        if output.status.success() {
            texts.insert(path, String::from_utf8_lossy(&output.stdout).into_owned());
        }
    }
    Ok(texts)
}

fn git_files(root: &Path, arguments: &[&str]) -> Result<Vec<String>, TreeError> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z"])
        .args(arguments)
        .output()
        .map_err(TreeError::Git)?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TreeError::GitFailed(reason));
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    Ok(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}
