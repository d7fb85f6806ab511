//! Finds transcripts: in files and directories that are named, or where the known tools keep theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::head::ends_of;
use super::limits::MAX_DIRECTORY_DEPTH;
use super::warning::{WarningKind, Warnings};
use super::{FORMATS, Format, Head, Home, Part, Transcript, Warning};

/// What [`walk`] found.
///
/// ```
/// use endstop_transcript::walk;
///
/// # let directory = std::env::temp_dir().join(format!("endstop-walk-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let text = "{\"endstop_trace\":1,\"run\":\"nightly-17\"}\n";
/// # std::fs::write(directory.join("nightly.jsonl"), text)?;
/// // The directory has one Endstop trace.
/// let found = walk(&[directory.clone()])?;
/// assert!(found.warnings.is_empty());
/// assert_eq!(found.transcripts[0].format.id(), "endstop");
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Found {
    /// The transcripts, in order of their paths within each path that was named.
    pub transcripts: Vec<Transcript>,
    /// Files and directories that could not be looked at.
    pub warnings: Vec<Warning>,
}

/// Why a path that was named cannot be read.
#[derive(Debug, Error)]
pub enum DiscoverError {
    /// It is not there, or may not be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The path.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is a file of no known format.
    #[error("`{path}` is no transcript that is known; known are {known}")]
    NotATranscript {
        /// The path.
        path: String,
        /// The formats, by name.
        known: String,
    },
}

/// Finds the transcripts in files and directories. Directories are searched to their ends, in order of names; what
/// is no transcript there is passed over. Files of one run become one transcript.
///
/// # Errors
///
/// [`DiscoverError`] where a path that is named is absent, or a file that is named is no transcript.
pub fn walk(paths: &[PathBuf]) -> Result<Found, DiscoverError> {
    let mut walk = Walk::default();
    for path in paths {
        let unreadable =
            |source| DiscoverError::Unreadable { path: path.display().to_string(), source };
        let metadata = path.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            walk.directory(path, 0);
            continue;
        }
        let Some(format) = walk.file(path).map_err(unreadable)? else {
            let known: Vec<&str> = FORMATS.iter().map(|format| format.id()).collect();
            let (path, known) = (path.display().to_string(), known.join(", "));
            return Err(DiscoverError::NotATranscript { path, known });
        };
        for companion in format.companions(path) {
            walk.companion(&companion, path);
        }
    }
    Ok(walk.group())
}

/// Where the known tools keep transcripts on this machine: directories that exist.
#[must_use]
pub fn default_homes() -> Vec<PathBuf> {
    let homes = homes_from(|name| env::var_os(name));
    homes.into_iter().filter(|home| home.is_dir()).collect()
}

fn homes_from(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let user = variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
    let mut homes = Vec::new();
    for Home { variable: name, otherwise, below } in FORMATS.iter().flat_map(|f| f.homes()) {
        let set = variable(name).filter(|value| !value.is_empty());
        let roots: Vec<PathBuf> = match set {
            Some(value) => {
                let value = value.to_string_lossy().into_owned();
                value.split(',').map(|root| PathBuf::from(root.trim())).collect()
            }
            None => user.iter().flat_map(|user| otherwise.iter().map(|o| user.join(o))).collect(),
        };
        for root in roots.iter().filter(|root| !root.as_os_str().is_empty()) {
            homes.extend(below.iter().map(|directory| root.join(directory)));
        }
    }
    homes
}

/// A file whose format is known.
struct Item {
    path: PathBuf,
    format: &'static Format,
    /// The file that this one is a part of.
    parent: Option<PathBuf>,
}

#[derive(Default)]
struct Walk {
    items: Vec<Item>,
    /// Files that were seen, by their real paths.
    seen: BTreeSet<PathBuf>,
    warnings: Warnings,
}

impl Walk {
    fn directory(&mut self, path: &Path, depth: usize) {
        let is_new = path.canonicalize().is_ok_and(|real| self.seen.insert(real));
        if !is_new || depth > MAX_DIRECTORY_DEPTH {
            return;
        }
        let entries = match path.read_dir() {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(path, &error),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                self.directory(&path, depth + 1);
            } else if path.is_file()
                && let Err(error) = self.file(&path)
            {
                self.unreadable(&path, &error);
            }
        }
    }

    /// Looks at a file; its format, or `None` where it is of none.
    fn file(&mut self, path: &Path) -> io::Result<Option<&'static Format>> {
        let (head, tail) = ends_of(&Part::file(path))?;
        let head = Head::new(&head, &tail);
        let format = FORMATS.iter().find(|format| format.detect(&head));
        if let Some(format) = format
            && self.seen.insert(path.canonicalize()?)
        {
            let parent = format.parent(path, &head);
            self.items.push(Item { path: path.to_owned(), format, parent });
        }
        Ok(format)
    }

    /// Looks at what may belong to a file that was named, and keeps only what does.
    fn companion(&mut self, companion: &Path, main: &Path) {
        let before = self.items.len();
        if companion.is_dir() {
            self.directory(companion, 0);
        } else if companion.is_file()
            && let Err(error) = self.file(companion)
        {
            self.unreadable(companion, &error);
        }
        let found = self.items.split_off(before.min(self.items.len()));
        let (ours, others): (Vec<Item>, Vec<Item>) =
            found.into_iter().partition(|item| item.parent.as_deref() == Some(main));
        self.items.extend(ours);
        for other in others {
            // It may still be named itself.
            if let Ok(real) = other.path.canonicalize() {
                self.seen.remove(&real);
            }
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        let name = path.display().to_string();
        let message = || format!("cannot be read: {error}");
        self.warnings.add(WarningKind::Unreadable, &name, None, message);
    }

    fn group(self) -> Found {
        let paths: BTreeSet<PathBuf> = self.items.iter().map(|item| item.path.clone()).collect();
        let mut children: BTreeMap<PathBuf, Vec<Part>> = BTreeMap::new();
        let mut mains = Vec::new();
        for item in self.items {
            let shadow = item.format.shadowed_by(&item.path);
            if shadow.is_some_and(|shadow| paths.contains(&shadow)) {
                continue;
            }
            match item.parent.filter(|parent| paths.contains(parent)) {
                Some(parent) => children.entry(parent).or_default().push(Part::file(item.path)),
                None => mains.push((item.path, item.format)),
            }
        }
        let transcripts = mains.into_iter().map(|(path, format)| {
            let children = children.remove(&path).unwrap_or_default();
            Transcript { format, main: Part::file(path), children }
        });
        Found { transcripts: transcripts.collect(), warnings: self.warnings.into_list() }
    }
}

#[cfg(test)]
mod tests;
