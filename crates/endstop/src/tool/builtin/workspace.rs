//! The directory that tools for files do not leave.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::limits::MAX_PATH_BYTES;

/// A directory that paths are confined to.
///
/// A path is resolved before it is used: `..`, absolute paths and symbolic links may lead anywhere inside
/// the directory and nowhere else. Between that check and the use of the path another process could put a link
/// in place of a directory and so lead a tool out: where the directory is shared with processes that are not
/// trusted, `bash` among them, run the agent as a user or in a container that can reach nothing else.
///
/// ```
/// use endstop::tool::builtin::{Workspace, WorkspaceError};
///
/// let workspace = Workspace::new(".")?;
/// assert_eq!(workspace.resolve("src/../notes.txt")?, workspace.root().join("notes.txt"));
/// assert!(matches!(workspace.resolve("../secrets"), Err(WorkspaceError::Outside { .. })));
/// # Ok::<(), WorkspaceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    root: Arc<Path>,
}

/// Why a path is not used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The directory itself cannot be used.
    #[error("`{directory}` cannot be the directory of the tools: {error}")]
    Directory {
        /// As given.
        directory: String,
        /// Why.
        error: io::Error,
    },
    /// Nothing, a NUL, or longer than [`MAX_PATH_BYTES`].
    #[error("the path is empty, longer than {MAX_PATH_BYTES} bytes, or contains a NUL")]
    NoPath,
    /// It leads out of the directory.
    #[error(
        "`{path}` leads out of the directory that the tools are confined to; give a path inside it, relative to it"
    )]
    Outside {
        /// As given.
        path: String,
    },
    /// A symbolic link to a missing file.
    #[error("`{path}` goes through a broken symbolic link")]
    Dangling {
        /// As given.
        path: String,
    },
    /// `..` behind a missing directory.
    #[error("`{path}` has `..` after a directory that does not exist")]
    Backwards {
        /// As given.
        path: String,
    },
    /// The file system refuses it.
    #[error("`{path}` cannot be reached: {error}")]
    Unreachable {
        /// As given.
        path: String,
        /// Why.
        error: io::Error,
    },
}

impl Workspace {
    /// Confines tools to a directory, which must exist.
    ///
    /// # Errors
    ///
    /// Returns [`WorkspaceError::Directory`] if it does not exist, cannot be entered or is not a directory.
    pub fn new(directory: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let directory = directory.as_ref();
        let failed =
            |error| WorkspaceError::Directory { directory: directory.display().to_string(), error };
        let root = directory.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { root: root.into() })
    }

    /// Returns the directory, without links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path without links, whether or not anything exists there yet.
    ///
    /// # Errors
    ///
    /// Returns the error says why it is refused. It reveals nothing about files outside the directory, not even whether
    /// they exist, beyond the refusal itself.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(WorkspaceError::NoPath);
        }
        let given = || path.to_owned();
        // Slashes and dots at the end would make a link look like what it leads to.
        let joined: PathBuf = self.root.join(path).components().collect();
        // The longest beginning that exists decides; what comes after it is only names.
        for beginning in joined.ancestors() {
            let real = match beginning.canonicalize() {
                Ok(real) => real,
                Err(error) if is_absent(&error) && beginning.is_symlink() => {
                    // A link that leads out says no more than one that leads nowhere.
                    return Err(WorkspaceError::Dangling { path: given() });
                }
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(self.unreachable(beginning, path, error)),
            };
            if !real.starts_with(&self.root) {
                return Err(WorkspaceError::Outside { path: given() });
            }
            let rest = joined.strip_prefix(beginning).unwrap_or(Path::new(""));
            let is_name = |part| matches!(part, Component::Normal(_));
            if !rest.components().all(is_name) {
                return Err(WorkspaceError::Backwards { path: given() });
            }
            return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
        }
        Err(WorkspaceError::Outside { path: given() })
    }

    /// Returns a resolved path as the model may know it: relative to the directory.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// The contents of a directory that may not be entered are revealed only for paths inside.
    fn unreachable(&self, beginning: &Path, path: &str, error: io::Error) -> WorkspaceError {
        let inside = beginning.ancestors().find_map(|directory| directory.canonicalize().ok());
        if inside.is_some_and(|directory| directory.starts_with(&self.root)) {
            WorkspaceError::Unreachable { path: path.to_owned(), error }
        } else {
            WorkspaceError::Outside { path: path.to_owned() }
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
