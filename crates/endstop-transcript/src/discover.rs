//! Finds transcripts: in files and directories that are named, or where the known tools keep theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::head::ends_of;
use super::limits::MAX_DIRECTORY_DEPTH;
use super::opencode::DATABASE;
use super::{FORMATS, Format, Head, Home, Part, Transcript, Warning};

/// The result of [`walk`].
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
    /// Paths that could not be read, or have no known format.
    pub warnings: Vec<Warning>,
}

/// Nothing that was named can be read: no path holds a transcript.
///
/// ```
/// use endstop_transcript::walk;
///
/// let error = walk(&["/nonexistent.jsonl".into()]).unwrap_err();
/// assert!(error.to_string().starts_with("/nonexistent.jsonl: cannot be read"));
/// ```
#[derive(Debug, Error)]
#[error("{}", self.text())]
pub struct DiscoverError {
    /// Why, at least one for each path.
    pub warnings: Vec<Warning>,
}

impl DiscoverError {
    fn text(&self) -> String {
        let all: Vec<String> = self.warnings.iter().map(ToString::to_string).collect();
        if all.is_empty() { "no path is named".to_owned() } else { all.join("; ") }
    }
}

/// Finds the transcripts in files and directories. Directories are searched to their ends, in order of names, except
/// those in of version control and of dependencies. Files of one run become one transcript.
///
/// A path that cannot be read and a named file of no known format are warnings, because the other paths are read
/// anyway. The same applies to files of unknown formats in directories: those whose names or first bytes make them
/// look like records, as one warning with their number.
///
/// # Errors
///
/// Returns [`DiscoverError`] if no path holds a transcript.
pub fn walk(paths: &[PathBuf]) -> Result<Found, DiscoverError> {
    let mut walk = Walk::default();
    paths.iter().for_each(|path| walk.named(path));
    let found = walk.group();
    if found.transcripts.is_empty() {
        return Err(DiscoverError { warnings: found.warnings });
    }
    Ok(found)
}

/// Returns the directories and files of known tools with transcripts that exist on this machine.
#[must_use]
pub fn default_homes() -> Vec<PathBuf> {
    let homes = homes_from(|name| env::var_os(name));
    homes.into_iter().filter(|home| home.exists()).collect()
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

/// Directories that are not entered: what programs keep there is never a transcript, and there is much of it.
const PASSED_OVER: [&str; 6] = [".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"];

fn is_passed_over(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| PASSED_OVER.contains(&name))
}

/// The endings of record names of agents and their tools.
const ENDINGS: [&str; 10] =
    ["json", "jsonl", "ndjson", "eval", "traj", "log", "db", "sqlite", "sqlite3", "vscdb"];

/// Whether a file of no known format might be a transcript anyway: by its name, or because it begins as JSON does.
/// Sources, prose, pictures and programs are not.
fn might_be_transcript(path: &Path, head: &[u8]) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let is_json = match head.split_first() {
        Some((b'{', rest)) => rest.trim_ascii_start().first() == Some(&b'"'),
        Some((b'[', rest)) => rest.trim_ascii_start().first() == Some(&b'{'),
        _ => false,
    };
    is_json || ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
}

/// Whether a tool whose transcripts are read keeps this file next to them.
fn is_beside(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = format!("/{name}");
    FORMATS.iter().flat_map(|format| format.beside()).any(|ending| name.ends_with(ending))
}

/// The format of a file that begins and ends like this.
fn format_of(head: &[u8], tail: &[u8]) -> Option<&'static Format> {
    let head = Head::new(head, tail);
    FORMATS.iter().find(|format| format.detect(&head))
}

/// Returns the format of a part outside the file system, such as data from a pipe; `None` if it has none.
///
/// # Errors
///
/// Returns an error if the part cannot be read.
///
/// ```
/// use endstop_transcript::{Part, detect};
///
/// let part = Part::bytes("-", &b"{\"endstop_trace\":1,\"run\":\"nightly-17\"}\n"[..]);
/// assert_eq!(detect(&part)?.map(|format| format.id()), Some("endstop"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn detect(part: &Part) -> io::Result<Option<&'static Format>> {
    let (head, tail) = ends_of(part)?;
    Ok(format_of(&head, &tail))
}

/// The kind of a file.
enum Look {
    Known(&'static Format),
    /// It might be a transcript of a format that is not known.
    MightBe,
    Other,
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
    listing: Listing,
    /// The number of files of known formats.
    known: u64,
    /// Files in directories that might be transcripts of unknown formats.
    unknown: Unknown,
    warnings: Vec<Warning>,
}

/// The directory that was listed last, and its first file: a directory that is one run has many files, and is listed once.
#[derive(Default)]
struct Listing {
    directory: Option<PathBuf>,
    first: Option<PathBuf>,
}

impl Listing {
    /// The first of the files that `list` finds in the directory of this one, if that is another.
    fn first_beside(
        &mut self,
        path: &Path,
        list: impl FnOnce(&Path) -> Vec<PathBuf>,
    ) -> Option<PathBuf> {
        let directory = path.parent()?;
        if self.directory.as_deref() != Some(directory) {
            self.first = list(path).into_iter().min();
            self.directory = Some(directory.to_owned());
        }
        self.first.clone().filter(|first| first != path)
    }
}

/// How many there are, and the largest: it is what a reader of the warning would miss most.
#[derive(Default)]
struct Unknown {
    count: u64,
    largest: Option<(u64, PathBuf)>,
}

impl Unknown {
    fn add(&mut self, path: &Path) {
        self.count += 1;
        let length = path.metadata().map_or(0, |metadata| metadata.len());
        if self.largest.as_ref().is_none_or(|(most, _)| length > *most) {
            self.largest = Some((length, path.to_owned()));
        }
    }

    fn warning(&self) -> Option<Warning> {
        let (_, path) = self.largest.as_ref()?;
        let warning = unknown_format(path);
        Some(Warning { count: self.count, ..warning })
    }
}

/// The warning of a file of no known format. A new version of OpenCode may have other tables, and can still export.
fn unknown_format(path: &Path) -> Warning {
    let mut warning = Warning::unknown_format(&path.display().to_string());
    if path.file_name().is_some_and(|name| name == DATABASE) {
        warning
            .message
            .push_str("; `opencode export SESSION > session.json` writes a file that is");
    }
    warning
}

impl Walk {
    /// A path that the caller named: every problem with it is reported.
    fn named(&mut self, path: &Path) {
        let name = path.display().to_string();
        match path.metadata() {
            Err(error) => self.warnings.push(Warning::unreadable(&name, &error)),
            Ok(metadata) if metadata.is_dir() => {
                let (before, warned) = (self.known, self.warnings.len());
                let is_new = self.directory(path, 0);
                if is_new && self.known == before && self.warnings.len() == warned {
                    self.warnings.push(Warning::no_transcripts(&name));
                }
            }
            Ok(_) => match self.file(path) {
                Err(error) => self.warnings.push(Warning::unreadable(&name, &error)),
                Ok(Look::Known(format)) => {
                    // One that another name has brought along has brought its run along.
                    if self.items.last().is_none_or(|item| item.path != path) {
                        return;
                    }
                    self.whole_of(path, format);
                    for companion in format.companions(path) {
                        self.companion(&companion, path);
                    }
                }
                Ok(_) => self.warnings.push(unknown_format(path)),
            },
        }
    }

    /// A file that is read as a part of another one wherever that is there brings it along, with its other parts.
    fn whole_of(&mut self, path: &Path, format: &Format) {
        let parent = self.items.last().filter(|item| item.path == path && format.joins());
        let Some(parent) = parent.and_then(|item| item.parent.clone()) else { return };
        if let Ok(Look::Known(format)) = self.file(&parent) {
            for companion in format.companions(&parent) {
                self.companion(&companion, &parent);
            }
        }
    }

    /// False if it was searched before.
    fn directory(&mut self, path: &Path, depth: usize) -> bool {
        let is_new = path.canonicalize().is_ok_and(|real| self.seen.insert(real));
        if is_new && depth <= MAX_DIRECTORY_DEPTH {
            self.entries(path, depth);
        }
        is_new
    }

    fn entries(&mut self, path: &Path, depth: usize) {
        let entries = match path.read_dir() {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(path, &error),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                if !is_passed_over(&path) {
                    self.directory(&path, depth + 1);
                }
            } else if path.is_file() {
                match self.file(&path) {
                    Ok(Look::MightBe) => self.unknown.add(&path),
                    Ok(_) => {}
                    Err(error) => self.unreadable(&path, &error),
                }
            }
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<Look> {
        let (head, tail) = ends_of(&Part::file(path))?;
        let Some(format) = format_of(&head, &tail) else {
            let might_be = might_be_transcript(path, &head) && !is_beside(path);
            return Ok(if might_be { Look::MightBe } else { Look::Other });
        };
        self.known += 1;
        if self.seen.insert(path.canonicalize()?) {
            let parent = if format.is_directory() {
                self.listing.first_beside(path, |path| format.companions(path))
            } else {
                format.parent(path, &Head::new(&head, &tail))
            };
            self.items.push(Item { path: path.to_owned(), format, parent });
        }
        Ok(Look::Known(format))
    }

    /// Reads other files of a transcript that was named, and keeps only those that belong to it.
    fn companion(&mut self, companion: &Path, main: &Path) {
        // The user did not name the other files there.
        let unknown = std::mem::take(&mut self.unknown);
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
        self.unknown = unknown;
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.warnings.push(Warning::unreadable(&path.display().to_string(), error));
    }

    fn group(mut self) -> Found {
        self.warnings.extend(self.unknown.warning());
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
        Found { transcripts: transcripts.collect(), warnings: self.warnings }
    }
}

#[cfg(test)]
mod tests;
