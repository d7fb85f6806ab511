//! Runs a command, shows its output as it arrives, and keeps the end of it.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Enough for the names of the tests that failed and the last words of some; a log is often cut to less.
const KEPT_BYTES: usize = 8 * 1024;

/// How often the command is asked whether it has ended, while it prints nothing.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The last lines of what a command printed.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Tail {
    fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > KEPT_BYTES && self.lines.len() > 1 {
            self.bytes -= self.lines.pop_front().map_or(0, |first| first.len());
        }
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| formatter.write_str(&String::from_utf8_lossy(line)))
    }
}

/// Runs the command in `root`, with its output passed on and its end kept.
///
/// # Errors
/// Where it cannot be started or waited for.
pub(super) fn run(root: &Path, words: &[String], kept: &mut Tail) -> io::Result<ExitStatus> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(ExitStatus::default());
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).stdout(Stdio::piped()).stderr(Stdio::piped());
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.spawn()?;
    let (sender, receiver) = channel();
    if let Some(out) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || pass_on(out, &mut io::stdout(), &sender));
    }
    if let Some(err) = child.stderr.take() {
        thread::spawn(move || pass_on(err, &mut io::stderr(), &sender));
    }
    // Processes that the command left in the background may hold the pipes open: this does not wait for them.
    let status = loop {
        match (receiver.recv_timeout(LOOK_EVERY), child.try_wait()?) {
            (Ok(line), _) => kept.push(line),
            (Err(RecvTimeoutError::Timeout), Some(status)) => break status,
            (Err(RecvTimeoutError::Timeout), None) => {}
            (Err(RecvTimeoutError::Disconnected), _) => break child.wait()?,
        }
    };
    Ok(status)
}

/// A line that cannot be shown, because the reader has gone, is still kept.
fn pass_on(pipe: impl Read, shown: &mut impl Write, kept: &Sender<Vec<u8>>) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match pipe.by_ref().take(KEPT_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let _ = shown.write_all(&line).and_then(|()| shown.flush());
        if kept.send(line).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
