//! `search`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::output::whole_characters;
use super::{Abandoned, Workspace, abandoned, blocking, cannot};
use crate::limits::{
    MAX_MATCH_BYTES, MAX_MATCHES, MAX_PATTERN_BYTES, MAX_SEARCH_DEPTH, MAX_SEARCHED_FILE_BYTES,
    MAX_SEARCHED_FILES,
};
use crate::tool::{FunctionTool, ToolContext, ToolError};

/// Directories with generated contents.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

#[derive(Deserialize, JsonSchema)]
struct SearchArguments {
    /// Regular expression, searched in each line; `(?i)` in front ignores case. No look-around.
    pattern: String,
    /// File or directory to search, relative to the directory of the tools. Default: that directory itself.
    path: Option<String>,
    /// Only files whose name ends so, such as `.rs`.
    suffix: Option<String>,
}

pub(super) fn tool(workspace: Workspace) -> FunctionTool {
    let description = "Finds the lines of text files below a directory that match a regular expression, as \
                       `path:line: text`. Skips binary files, files over 8 MiB, symbolic links, and directories \
                       named .git, target and node_modules. At most 200 lines are returned.";
    FunctionTool::new("search", description, move |arguments: SearchArguments, _: ToolContext| {
        let workspace = workspace.clone();
        blocking(move |abandoned| run(&workspace, &arguments, abandoned))
    })
}

fn run(
    workspace: &Workspace,
    arguments: &SearchArguments,
    is_abandoned: &Abandoned,
) -> Result<String, ToolError> {
    let pattern = RegexBuilder::new(&arguments.pattern).size_limit(MAX_PATTERN_BYTES).build()?;
    let path = workspace.resolve(arguments.path.as_deref().unwrap_or("."))?;
    let failed = |error| cannot("search", &path, workspace, &error);
    let is_directory = path.metadata().map_err(failed)?.is_dir();
    let suffix = arguments.suffix.as_deref().unwrap_or_default();
    let mut search = Search { workspace, pattern, suffix, is_abandoned, found: Found::default() };
    if is_directory {
        search.below(path.clone())?;
    } else {
        search.file(&path);
    }
    Ok(search.found.into_text())
}

struct Search<'a> {
    workspace: &'a Workspace,
    pattern: Regex,
    suffix: &'a str,
    is_abandoned: &'a Abandoned,
    found: Found,
}

#[derive(Default)]
struct Found {
    lines: Vec<String>,
    files: usize,
    too_large: usize,
    unreadable: usize,
    is_cut: bool,
}

impl Search<'_> {
    /// Depth first, in order of the names.
    fn below(&mut self, directory: PathBuf) -> Result<(), ToolError> {
        let mut open = vec![(directory, 0_usize)];
        while let Some((path, depth)) = open.pop() {
            if self.is_abandoned.is_set() {
                return Err(abandoned());
            }
            if self.is_full() {
                break;
            }
            // Never follows a link, so that nothing outside is reached.
            let Ok(about) = path.symlink_metadata() else {
                self.found.unreadable = self.found.unreadable.saturating_add(1);
                continue;
            };
            if about.is_file() {
                if path.as_os_str().as_encoded_bytes().ends_with(self.suffix.as_bytes()) {
                    self.file(&path);
                }
            } else if about.is_dir() && depth < MAX_SEARCH_DEPTH {
                self.entries(&path, depth, &mut open);
            }
        }
        Ok(())
    }

    fn entries(&mut self, directory: &Path, depth: usize, open: &mut Vec<(PathBuf, usize)>) {
        let Ok(entries) = directory.read_dir() else {
            self.found.unreadable = self.found.unreadable.saturating_add(1);
            return;
        };
        let is_skipped = |path: &PathBuf| {
            path.is_dir() && path.file_name().is_some_and(|name| SKIPPED.iter().any(|s| name == *s))
        };
        let entries = entries.flatten().map(|entry| entry.path()).take(MAX_SEARCHED_FILES);
        let mut paths: Vec<PathBuf> = entries.filter(|path| !is_skipped(path)).collect();
        paths.sort_unstable_by(|a, b| b.cmp(a));
        open.extend(paths.into_iter().map(|path| (path, depth.saturating_add(1))));
    }

    fn is_full(&mut self) -> bool {
        self.found.is_cut |=
            self.found.lines.len() >= MAX_MATCHES || self.found.files >= MAX_SEARCHED_FILES;
        self.found.is_cut
    }

    fn file(&mut self, path: &Path) {
        self.found.files = self.found.files.saturating_add(1);
        let bytes = match contents(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                self.found.too_large = self.found.too_large.saturating_add(1);
                return;
            }
            Err(_) => {
                self.found.unreadable = self.found.unreadable.saturating_add(1);
                return;
            }
        };
        if memchr::memchr(0, &bytes).is_some() {
            return;
        }
        let shown = self.workspace.shown(path);
        for (number, line) in (1_u64..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !self.pattern.is_match(line) {
                continue;
            }
            if self.found.lines.len() >= MAX_MATCHES {
                self.found.is_cut = true;
                return;
            }
            self.found.lines.push(format!("{shown}:{number}: {}", beginning(line)));
        }
    }
}

/// `None`: too large.
fn contents(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    if !path.symlink_metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    // It may have grown since its size was read.
    File::open(path)?.take(MAX_SEARCHED_FILE_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    let is_small = u64::try_from(bytes.len()).is_ok_and(|len| len <= MAX_SEARCHED_FILE_BYTES);
    Ok(is_small.then_some(bytes))
}

fn beginning(line: &[u8]) -> String {
    match line.get(..MAX_MATCH_BYTES) {
        Some(begin) if line.len() > MAX_MATCH_BYTES => {
            format!("{} …", String::from_utf8_lossy(whole_characters(begin)))
        }
        _ => String::from_utf8_lossy(line).into_owned(),
    }
}

impl Found {
    fn into_text(mut self) -> String {
        let files =
            if self.files == 1 { "1 file".to_owned() } else { format!("{} files", self.files) };
        if self.lines.is_empty() {
            self.lines.push(format!("[no match in {files}]"));
        }
        if self.is_cut {
            let matches = self.lines.len();
            self.lines.push(format!(
                "[stopped after {matches} lines in {files}; narrow the pattern or the path to see more]"
            ));
        }
        if self.too_large > 0 {
            self.lines.push(format!("[larger than 8 MiB and skipped: {}]", self.too_large));
        }
        if self.unreadable > 0 {
            self.lines.push(format!("[could not be read: {}]", self.unreadable));
        }
        self.lines.join("\n")
    }
}
