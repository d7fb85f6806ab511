//! Lines that are printed while the command has the terminal, each on a separate line. A screen that the command draws gets
//! only those that its user must know at once.

use std::io::{IsTerminal as _, Write as _};

use endstop::observe::clean_lines;

use super::terminal::Terminal;
use crate::output;

/// A terminal without a known width.
const COLUMNS: u16 = 80;

#[derive(Debug)]
enum DeferredLine {
    Note(String),
    Warning(String),
    /// Also with `--quiet`.
    Always(String),
}

impl DeferredLine {
    fn say(&self) {
        match self {
            Self::Note(text) => output::note(text),
            Self::Warning(text) => output::warn(text),
            Self::Always(text) => output::say(text),
        }
    }
}

/// Prints lines, or keeps them until the command has ended.
#[derive(Debug)]
pub(super) struct DeferredPrinter {
    /// Standard error is a terminal that understands a carriage return.
    is_terminal: bool,
    held: Vec<DeferredLine>,
}

impl DeferredPrinter {
    pub(super) fn new() -> Self {
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        Self { is_terminal: !is_dumb && std::io::stderr().is_terminal(), held: Vec::new() }
    }

    /// Prints a line, unless `--quiet`; later if the command draws the screen.
    pub(super) fn note(&mut self, text: &str, terminal: Option<&Terminal>) {
        self.take(DeferredLine::Note(text.to_owned()), terminal);
    }

    /// Like `note`, for `warning: ..`.
    pub(super) fn warn(&mut self, text: &str, terminal: Option<&Terminal>) {
        self.take(DeferredLine::Warning(text.to_owned()), terminal);
    }

    /// Prints what the user of a screen must know at once, since the command is about to be ended or waits; also at the end,
    /// because the command may draw over it.
    pub(super) fn announce(&mut self, text: &str, terminal: Option<&Terminal>) {
        if !output::is_quiet() {
            self.write_into_screen(text, terminal);
        }
        self.note(text, terminal);
    }

    /// Like `announce`, also with `--quiet`.
    pub(super) fn say(&mut self, text: &str, terminal: Option<&Terminal>) {
        self.write_into_screen(text, terminal);
        self.take(DeferredLine::Always(text.to_owned()), terminal);
    }

    /// Writes a text into the screen that the command draws, if it draws one.
    fn write_into_screen(&self, text: &str, terminal: Option<&Terminal>) {
        if !self.is_terminal || !terminal.is_some_and(Terminal::is_raw) {
            return;
        }
        // On a separate line, whatever mode the terminal is in and whatever colors are on.
        let columns = columns();
        let lines = output::wrapped(&clean_lines(text), usize::from(columns), "  ");
        let mut screen = String::from("\r\n");
        for line in lines.lines() {
            screen.push_str(&format!("\u{1b}[0m\u{1b}[K{line}\r\n"));
        }
        write(&screen);
    }

    fn take(&mut self, line: DeferredLine, terminal: Option<&Terminal>) {
        // Once something is held the rest waits too, so that it is read in order.
        if self.is_terminal && (!self.held.is_empty() || terminal.is_some_and(Terminal::is_raw)) {
            self.held.push(line);
            return;
        }
        self.begin_a_line();
        line.say();
    }

    /// Prints the kept lines. Output from then on begins on a new line.
    pub(super) fn say_what_was_held(&mut self) {
        self.begin_a_line();
        for line in self.held.drain(..) {
            line.say();
        }
    }

    /// The command may have left the cursor in the middle of a line, and its position is unknown. As many blanks as
    /// there are columns reach the next line from there, but not from the beginning of a line.
    fn begin_a_line(&self) {
        if !self.is_terminal || output::is_quiet() {
            return;
        }
        write(&format!("{}\r", " ".repeat(usize::from(columns()))));
    }
}

fn columns() -> u16 {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(COLUMNS, |(width, _)| width.0)
}

fn write(text: &str) {
    let mut err = std::io::stderr().lock();
    // A failed write must not end the command.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
