//! `read_file`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::output::whole_characters;
use super::{Abandoned, Workspace, abandoned, blocking, cannot};
use crate::limits::{DEFAULT_READ_LINES, MAX_READ_BYTES};
use crate::tool::{FunctionTool, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
struct ReadArguments {
    /// Path of the file, relative to the directory.
    path: String,
    /// Number of the first line to read, beginning with 1. Default: 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// The most lines to read. Default: 2000.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

pub(super) fn tool(workspace: Workspace) -> FunctionTool {
    let description = "Reads a text file, or some lines of it. At most 64 KiB are returned; the last line of \
                       the result then says how much is left and where to continue.";
    FunctionTool::new("read_file", description, move |arguments: ReadArguments, _: ToolContext| {
        let workspace = workspace.clone();
        blocking(move |abandoned| read(&workspace, &arguments, abandoned))
    })
}

fn read(
    workspace: &Workspace,
    arguments: &ReadArguments,
    is_abandoned: &Abandoned,
) -> Result<String, ToolError> {
    let path = workspace.resolve(&arguments.path)?;
    let (file, size) = open(workspace, &path)?;
    let first = arguments.offset.unwrap_or(1).max(1);
    let mut reader = FileReader { file: BufReader::new(file), position: 0, is_abandoned };
    let failed = |error| cannot("read", &path, workspace, &error);
    for line in 1..first {
        if !reader.skip_line().map_err(failed)? {
            let lines = line.saturating_sub(1);
            return Err(ToolError::Failed(format!(
                "`{}` has only {lines} lines, there is no line {first}",
                workspace.shown(&path)
            )));
        }
    }
    let page = reader.page(arguments.limit.unwrap_or(DEFAULT_READ_LINES).max(1)).map_err(failed)?;
    if is_abandoned.is_set() {
        return Err(abandoned());
    }
    if page.bytes.contains(&0) {
        return Err(ToolError::Failed(format!(
            "`{}` is no text: it is a binary file of {size} bytes",
            workspace.shown(&path)
        )));
    }
    Ok(page.into_text(first, size.saturating_sub(reader.position)))
}

/// Opens a regular file: a pipe or a device might never end.
pub(super) fn open(workspace: &Workspace, path: &Path) -> Result<(File, u64), ToolError> {
    let failed = |error| cannot("read", path, workspace, &error);
    let about = path.metadata().map_err(failed)?;
    if about.is_dir() {
        let shown = workspace.shown(path);
        return Err(ToolError::Failed(format!("`{shown}` is a directory; list it instead")));
    }
    if !about.is_file() {
        let shown = workspace.shown(path);
        return Err(ToolError::Failed(format!("`{shown}` is no regular file")));
    }
    Ok((File::open(path).map_err(failed)?, about.len()))
}

struct FileReader<'a> {
    file: BufReader<File>,
    /// Bytes read.
    position: u64,
    is_abandoned: &'a Abandoned,
}

impl FileReader<'_> {
    /// Whether there was one.
    fn skip_line(&mut self) -> std::io::Result<bool> {
        let mut is_begun = false;
        while !self.is_abandoned.is_set() {
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                return Ok(is_begun);
            }
            is_begun = true;
            let end = memchr::memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |end| end.saturating_add(1));
            self.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// As many whole lines as fit, or the beginning of a single line that does not.
    fn page(&mut self, lines: u64) -> std::io::Result<Page> {
        let mut page = Page::default();
        while page.lines < lines && !self.is_abandoned.is_set() {
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                page.lines = page.lines.saturating_add(u64::from(page.has_open_line()));
                return Ok(page);
            }
            let end = memchr::memchr(b'\n', buffer);
            let used = end.map_or(buffer.len(), |end| end.saturating_add(1));
            let room = MAX_READ_BYTES.saturating_sub(page.bytes.len());
            page.bytes.extend(buffer.iter().take(used.min(room)));
            if used > room {
                self.consume(room);
                self.give_back(&mut page);
                return Ok(page);
            }
            self.consume(used);
            page.lines = page.lines.saturating_add(u64::from(end.is_some()));
            page.open_line = if end.is_some() { page.bytes.len() } else { page.open_line };
        }
        Ok(page)
    }

    /// The line that does not fit is left for the next call, unless it is the only one.
    fn give_back(&mut self, page: &mut Page) {
        page.is_cut = page.open_line == 0;
        if page.is_cut {
            let whole = whole_characters(&page.bytes).len();
            page.bytes.truncate(whole);
        } else {
            let back = page.bytes.len().saturating_sub(page.open_line);
            self.position = self.position.saturating_sub(u64::try_from(back).unwrap_or(0));
            page.bytes.truncate(page.open_line);
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.file.consume(bytes);
        self.position = self.position.saturating_add(u64::try_from(bytes).unwrap_or(0));
    }
}

#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    lines: u64,
    /// The start of the line whose end was not seen yet.
    open_line: usize,
    /// The first line alone is too long.
    is_cut: bool,
}

impl Page {
    const fn has_open_line(&self) -> bool {
        self.bytes.len() > self.open_line
    }

    fn into_text(self, first: u64, left: u64) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if text.is_empty() && left == 0 {
            return "[the file has nothing there]".to_owned();
        }
        if left == 0 {
            return text;
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let next = first.saturating_add(self.lines);
        if self.is_cut {
            let after = next.saturating_add(1);
            text.push_str(&format!(
                "[line {next} is longer than {MAX_READ_BYTES} bytes and cut here; {left} bytes of the file are left; \
                 the next line is offset {after}]"
            ));
        } else {
            text.push_str(&format!(
                "[{left} bytes of the file are left; continue with offset {next}]"
            ));
        }
        text
    }
}
