//! The screens of a terminal, step by step.

use avt::Terminal;

use super::{COLUMNS, ROWS};

/// Begins the status line of a run that was stopped.
const STOPPED: &str = "stopped \u{b7} ";
/// Between the parts of a status line and of a summary.
const DOT: &str = " \u{b7} ";
/// Ends each drawing of the status line: the cursor is put back.
const PUT_BACK: &str = "\u{1b}8";

/// The screens of a run, in order: the typed command, one for each step, the stop, the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) screens: Vec<Vec<String>>,
    /// The command and its whole output, without the status line.
    pub(super) transcript: Vec<String>,
}

impl Frames {
    /// Reads what `command` wrote to its terminal.
    ///
    /// # Errors
    /// If a step was never shown, because the machine was too busy, or something is shown that the picture cannot draw.
    pub(super) fn of(command: &str, written: &str) -> Result<Self, String> {
        let written = with_times_of_steps(written);
        let size = (usize::from(COLUMNS), usize::from(ROWS));
        let mut terminal = Terminal::new(size.0, size.1).map_err(|error| error.to_string())?;
        terminal.feed(format!("$ {command}\r\n").as_str());
        let mut screens = vec![screen(&terminal)?];
        let mut is_stopped = false;
        for part in written.split_inclusive(PUT_BACK) {
            terminal.feed(part);
            let now = screen(&terminal)?;
            let status = now.last().map_or("", String::as_str);
            let is_settled = step(status) == Some(screens.len()) && !status.contains("held ");
            if is_settled && !status.starts_with(STOPPED) {
                screens.push(now);
            } else if status.starts_with(STOPPED) && !is_stopped {
                if step(status) != Some(screens.len()) {
                    return Err(format!(
                        "no screen shows step {} at rest; run it again",
                        screens.len()
                    ));
                }
                is_stopped = true;
                screens.push(now);
            }
        }
        if !is_stopped {
            return Err("the status line never said that the run has stopped".to_owned());
        }
        screens.push(screen(&terminal)?);
        Ok(Self { screens, transcript: transcript(command, &written) })
    }
}

/// The rows of a terminal.
fn screen(terminal: &Terminal) -> Result<Vec<String>, String> {
    let lines = terminal.screen();
    if lines.visible_lines().any(|line| line.cells().iter().any(|cell| !cell.pen().is_default())) {
        return Err("the output has colors, which the picture does not draw".to_owned());
    }
    Ok(lines.visible_lines().map(|line| line.text().trim_end().to_owned()).collect())
}

/// The step that a status line names.
fn step(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("step ")?;
    rest.split_once('/')?.0.parse().ok()
}

/// The same with one second per step where it says how long the run took.
fn with_times_of_steps(written: &str) -> String {
    let mut reached = 0;
    let parts = written.split(DOT).enumerate().map(|(index, part)| {
        if let Some(step) = part.rfind("step ").and_then(|at| step(part.get(at..)?)) {
            reached = step;
        }
        let end = part.find(|c: char| c.is_control()).unwrap_or(part.len());
        match part.split_at_checked(end) {
            Some((time, rest)) if index > 0 && is_time(time) => format!("{reached}s{rest}"),
            _ => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(DOT)
}

/// Whether this is a time such as `9s` or `1m 2s`.
fn is_time(text: &str) -> bool {
    let is_part = |word: &str| {
        word.strip_suffix(['h', 'm', 's'])
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    text.split(' ').all(is_part)
}

/// Lines without what only steers a terminal.
fn transcript(command: &str, written: &str) -> Vec<String> {
    // Between these the status line is drawn.
    let mut plain = String::new();
    for part in written.split(PUT_BACK) {
        plain.push_str(part.split("\u{1b}7").next().unwrap_or_default());
    }
    let plain = plain.replace("\u{1b}D\u{1b}[1A", "");
    // Text after a carriage return replaces the line; blanks end an unfinished one.
    let lines = plain.split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or_default().trim_end().to_owned()
    });
    let mut all: Vec<String> = [format!("$ {command}")].into_iter().chain(lines).collect();
    while all.last().is_some_and(String::is_empty) {
        all.pop();
    }
    all
}

#[cfg(test)]
mod tests;
