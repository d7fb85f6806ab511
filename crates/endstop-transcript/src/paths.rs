//! Where the files of one run lie: in a directory of a known name, next to each other, or in one that the run is named by.
//! A separate file because most tools that keep a run in several files are read by these few functions.

use std::path::{Path, PathBuf};

/// The directory that a file or a directory is in, if that has this name.
pub(super) fn directory_named<'p>(path: &'p Path, name: &str) -> Option<&'p Path> {
    path.parent().filter(|directory| directory.file_name().is_some_and(|it| it == name))
}

/// The files and directories in a directory. One that cannot be read has none.
pub(super) fn entries_of(directory: Option<&Path>) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = directory.and_then(|directory| directory.read_dir().ok());
    entries.into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The JSON documents in a directory.
pub(super) fn documents_in(directory: Option<&Path>) -> impl Iterator<Item = PathBuf> + use<> {
    entries_of(directory).filter(|path| path.extension().is_some_and(|ending| ending == "json"))
}

/// The name of a file or a directory; empty if it is not UTF-8.
pub(super) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The name of the directory that a file of this name is in.
pub(super) fn directory_of(file: &str) -> Option<String> {
    let mut parts = file.rsplit(['/', '\\']).skip(1);
    parts.next().filter(|directory| !directory.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
