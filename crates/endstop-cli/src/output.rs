//! What goes to the terminal: numbers for people, tables, progress, and a standard output that knows
//! when its reader is gone.
//!
//! Numbers here are rounded for reading. Whatever a program reads (`--json`) takes exact values.

mod grid;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use endstop::core::units::{Millis, Money, PICOS_PER_DOLLAR};
use endstop::observe::clean_lines;
use endstop::store::private_file;
use indicatif::{ProgressBar, ProgressStyle};

pub use grid::Grid;

/// Below this many columns a table is drawn in ASCII, whose borders take less room.
pub const NARROW_COLUMNS: u16 = 60;

/// The width used where standard output is not a terminal: files and pipes need no wrapping at the
/// window's edge, and a fixed width keeps the output the same everywhere.
pub const PIPE_COLUMNS: u16 = 120;

/// What the global options ask of the output.
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

/// Whether only data and errors are wanted.
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

/// The text of a model, a tool or a transcript for standard output: on a terminal, without anything that the terminal
/// would obey. In a pipe or a file it is what it was.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { clean_lines(text).into() } else { text.into() }
}

/// Prints a line on standard error, unless `--quiet`.
pub fn note(message: &str) {
    if !is_quiet() {
        // A note that cannot be written must not end the command.
        let _ = writeln!(anstream::stderr(), "{}", clean_lines(message));
    }
}

/// Creates a file that a run is written to, or empties an existing one. A new one has mode 0600 on Unix.
///
/// # Errors
/// The error of the system.
pub fn create_private(path: &Path) -> io::Result<File> {
    private_file().write(true).create(true).truncate(true).open(path)
}

/// Prints a line on standard error, also with `--quiet`: what was run is not what was limited.
pub fn say(message: &str) {
    // As for a note.
    let _ = writeln!(anstream::stderr(), "{message}");
}

/// Buffered standard output, without color codes where they are not wanted.
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

    /// Whether a write failed because nobody reads any more, as after `| head`.
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

/// The width of running text: that of the terminal on standard output, else what COLUMNS says, else
/// [`PIPE_COLUMNS`].
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

/// `text` in lines of at most `columns`, broken between words; lines after the first begin with `hanging`.
/// A word that is longer than a line has one of its own.
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

/// An empty table with this header: UTF-8 borders on a terminal that is wide enough, ASCII where it is
/// narrow or no terminal, and one line a cell where words would have to be broken. The columns named in
/// `right_aligned` (from 0) hold numbers.
#[must_use]
pub fn table(header: &[&str], right_aligned: &[usize]) -> Grid {
    Grid::new(header, right_aligned, io::stdout().is_terminal(), terminal_width())
}

/// A progress bar over `total` of `unit` (`"files"`), drawn on standard error; hidden where that is not
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

/// A whole number with separators: `1,234`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its noun, which takes an `s` unless the number is 1: `1 run`, `1,234 runs`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A large number in at most four digits: `999`, `12.3k`, `4.6M`. Rounded half up.
#[must_use]
pub fn short(number: u64) -> String {
    let scales: [(u64, &str); 4] =
        [(1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T")];
    if number < 1_000 {
        return number.to_string();
    }
    for (scale, letter) in scales {
        let tenths = (u128::from(number) * 10 + u128::from(scale / 2)) / u128::from(scale);
        if tenths < 10_000 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
    }
    count(number)
}

/// Tokens for people: `12.3k tokens`.
#[must_use]
pub fn tokens(number: u64) -> String {
    format!("{} token{}", short(number), if number == 1 { "" } else { "s" })
}

/// Money for people: `$19.50`, `$1,234.00`; below a cent, two digits that say something: `$0.0046`.
/// Rounded half up. Exact is `Money`'s own text.
#[must_use]
pub fn money(amount: Money) -> String {
    let picos = u128::from(amount.picos());
    let dollar = u128::from(PICOS_PER_DOLLAR);
    let cent = dollar / 100;
    let mut step = cent;
    if picos > 0 && picos < cent {
        // One digit less than the leading one, and never finer than a pico-dollar.
        step = 1;
        while step * 100 <= picos {
            step *= 10;
        }
    }
    let rounded = (picos + step / 2) / step * step;
    let whole = u64::try_from(rounded / dollar).unwrap_or(u64::MAX);
    let decimals = format!("{:012}", rounded % dollar);
    let shown = decimals.trim_end_matches('0').len().max(2);
    format!("${}.{}", count(whole), decimals.get(..shown).unwrap_or("00"))
}

/// A duration for people, in its two largest units: `850ms`, `12s`, `1m30s`, `2h5m`. Cut, not rounded.
#[must_use]
pub fn duration(span: Millis) -> String {
    let fine = match span.0 {
        0..1_000 => 1,
        1_000..3_600_000 => 1_000,
        3_600_000..86_400_000 => 60_000,
        _ => 3_600_000,
    };
    Millis(span.0 / fine * fine).to_string()
}

#[cfg(test)]
mod tests;
