//! Output for the terminal: tables, progress, and a standard output that knows when its reader is gone.
//!
//! Numbers are those of `endstop::core::human`, rounded for reading. Whatever a program reads (`--json`) takes exact values.

mod grid;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use endstop::observe::clean_lines;
use endstop::store::{create_private_directory, private_file};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

pub use endstop::core::human::{count, counted, duration, money, short, tokens};
pub use grid::Grid;

/// Below this many columns a table is drawn in ASCII, whose borders take less room.
pub const NARROW_COLUMNS: u16 = 60;

/// The width used where standard output is not a terminal: files and pipes need no wrapping at the
/// window's edge, and a fixed width keeps the output the same everywhere.
pub const PIPE_COLUMNS: u16 = 120;

/// The widest line of help. Through a pipe to a pager it has this width too.
pub const HELP_COLUMNS: usize = 80;

/// The global options for the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// No progress, notes or warnings on standard error.
    pub quiet: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Keeps the settings for the rest of the process; only the first call counts.
pub fn init(settings: Settings) {
    SETTINGS.get_or_init(|| settings);
}

/// Returns whether only data and errors are wanted.
#[must_use]
pub fn is_quiet() -> bool {
    SETTINGS.get().is_some_and(|settings| settings.quiet)
}

/// Sets when standard output and standard error are colored. `auto` colors a terminal, unless
/// `NO_COLOR` is set.
pub fn set_color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Prints `warning: …` on standard error, unless `--quiet`.
pub fn warn(message: &str) {
    if is_quiet() {
        return;
    }
    let yellow = Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()));
    // A warning that cannot be written must not end the command.
    let _ = writeln!(anstream::stderr(), "{yellow}warning:{yellow:#} {}", clean_lines(message));
}

/// Returns the text of a model, a tool or a transcript for standard output: on a terminal, without anything that the
/// terminal would obey. In a pipe or a file it is what it was.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { clean_lines(text).into() } else { text.into() }
}

/// A value as JSON with sorted keys, which all JSON of the command has.
pub(crate) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value)
        .unwrap_or_else(|error| unreachable!("the command's own types are JSON: {error}"))
}

/// Prints a line on standard error, unless `--quiet`.
pub fn note(message: &str) {
    if !is_quiet() {
        // A note that cannot be written must not end the command.
        let _ = writeln!(anstream::stderr(), "{}", clean_lines(message));
    }
}

/// Creates a file that a run is written to, or empties an existing one. Missing directories are created too. A new file
/// has mode 0600 on Unix, a new directory 0700.
///
/// # Errors
/// Returns the error of the system.
pub fn create_private(path: &Path) -> io::Result<File> {
    let open = || private_file().write(true).create(true).truncate(true).open(path);
    match (open(), path.parent()) {
        (Err(error), Some(directory)) if error.kind() == io::ErrorKind::NotFound => {
            create_private_directory(directory)?;
            open()
        }
        (opened, _) => opened,
    }
}

/// Prints a line on standard error, also with `--quiet`: what was run is not what was limited.
pub fn say(message: &str) {
    // As for a note.
    let _ = writeln!(anstream::stderr(), "{message}");
}

/// Buffered standard output, without color codes if they are not wanted.
#[derive(Debug)]
pub struct Stdout {
    inner: BufWriter<anstream::AutoStream<io::Stdout>>,
    reader_is_gone: bool,
}

impl Stdout {
    /// Standard output under the color choice that holds now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: BufWriter::new(anstream::AutoStream::auto(io::stdout())),
            reader_is_gone: false,
        }
    }

    /// Returns whether a write failed because the reader has gone, as after `| head`.
    #[must_use]
    pub fn reader_is_gone(&self) -> bool {
        self.reader_is_gone
    }

    fn noting_a_closed_pipe<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.reader_is_gone |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        result
    }
}

impl Default for Stdout {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.noting_a_closed_pipe(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.noting_a_closed_pipe(result)
    }
}

/// Columns of the terminal on standard output, or [`PIPE_COLUMNS`].
#[must_use]
pub fn terminal_width() -> u16 {
    terminal_size::terminal_size_of(io::stdout()).map_or(PIPE_COLUMNS, |(width, _)| width.0)
}

/// Returns the width of running text: that of the terminal on standard output, or that of COLUMNS, or [`PIPE_COLUMNS`].
#[must_use]
pub fn page_width() -> usize {
    /// Below this no line of text is readable.
    const LEAST: usize = 20;
    let said = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns >= LEAST);
    let terminal = terminal_size::terminal_size_of(io::stdout());
    let terminal = terminal.map(|(width, _)| usize::from(width.0));
    terminal.or_else(said).unwrap_or(usize::from(PIPE_COLUMNS))
}

/// Columns of the terminal on standard error, or 80.
#[must_use]
pub fn error_width() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

/// `text` in lines of at most `columns`, broken between words; lines after the first begin with `hanging`. A word
/// that is longer than a line gets a separate one.
#[must_use]
pub fn wrapped(text: &str, columns: usize, hanging: &str) -> String {
    let indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut all = String::new();
    let (mut line, mut is_empty) = (indent.clone(), true);
    for word in text.trim_start().split(' ') {
        let width = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if width > columns && !is_empty {
            all.push_str(line.trim_end());
            all.push('\n');
            hanging.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    all.push_str(line.trim_end());
    all.push('\n');
    all
}

/// Returns an empty table with this header: UTF-8 borders on a terminal that is wide enough, ASCII if it is
/// narrow or no terminal, and one line a cell where words would have to be broken. The columns named in
/// `right_aligned` (from 0) hold numbers.
#[must_use]
pub fn table(header: &[&str], right_aligned: &[usize]) -> Grid {
    Grid::new(header, right_aligned, io::stdout().is_terminal(), terminal_width())
}

/// Returns a progress bar over `total` of `unit` (`"files"`), drawn on standard error; hidden if that is not
/// a terminal or under `--quiet`.
#[must_use]
pub fn progress(total: u64, unit: &'static str) -> ProgressBar {
    if is_quiet() || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} {msg} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style).with_message(unit)
}

#[cfg(test)]
mod tests;
