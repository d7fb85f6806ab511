//! Lines for people who watch a long task: what begins and ends, after which time, and the total.

use std::time::{Duration, Instant};

use super::install::NotRun;

/// The rows of a task, and how those ended that have.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    rows: usize,
    passed: usize,
    /// The client and the fault of each row that failed.
    failed: Vec<String>,
    missing: usize,
    /// The clients that were not run, and why.
    not_run: Vec<String>,
}

impl Progress {
    /// A task of this number of rows, which begins now.
    pub(super) fn new(rows: usize) -> Self {
        Self {
            begun: Instant::now(),
            rows,
            passed: 0,
            failed: Vec::new(),
            missing: 0,
            not_run: Vec::new(),
        }
    }

    /// Prints that something begins.
    pub(super) fn begins(&self, what: &str) {
        println!("{} begins {what}", self.stamp());
    }

    /// Prints how a row ended, and the end of its output if it has a fault.
    pub(super) fn ends(&mut self, name: &str, line: &str, fault: Option<&str>, output: &str) {
        match fault {
            None => self.passed = self.passed.saturating_add(1),
            Some(fault) => self.failed.push(format!("{name}: {fault}")),
        }
        println!("{} {line}", self.stamp());
        if let Some(fault) = fault {
            eprintln!("failed: {name}: {fault}\n{output}");
        }
    }

    /// Prints that the rows of a client were not run. Where the reason is in this repository, the client has failed.
    pub(super) fn is_not_run(&mut self, name: &str, rows: usize, why: &NotRun) {
        let (what, list, why) = match why {
            NotRun::Skipped(why) => ("not run", &mut self.not_run, why),
            NotRun::Broken(why) => ("failed", &mut self.failed, why),
        };
        list.push(format!("{name}: {why}"));
        // One failure stands for all rows of the client, so the others are missing.
        let missing = if what == "failed" { rows.saturating_sub(1) } else { rows };
        self.missing = self.missing.saturating_add(missing);
        println!("{} {what}: {name}: {why}", self.stamp());
    }

    /// Returns `Ok` if all rows passed that were run.
    ///
    /// # Errors
    /// The number of rows that failed.
    pub(super) fn result(&self) -> Result<(), String> {
        match self.failed.len() {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} rows failed", self.rows)),
        }
    }

    /// Each row that failed, each client that was not run, and the total.
    pub(super) fn total(&self) -> String {
        let failed = self.failed.iter().map(|row| format!("failed: {}\n", first_line(row)));
        let not_run = self.not_run.iter().map(|row| format!("not run: {}\n", first_line(row)));
        let lines: String = failed.chain(not_run).collect();
        let (passed, failed) = (self.passed, self.failed.len());
        format!("{lines}total: {passed} passed, {failed} failed, {} not run", self.missing)
    }

    /// The time since the beginning, and how many rows have ended: `[12m 5s, 7/160]`.
    fn stamp(&self) -> String {
        let ended = self.passed.saturating_add(self.failed.len()).saturating_add(self.missing);
        format!("[{}, {ended}/{}]", in_words(self.begun.elapsed()), self.rows)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A time in whole seconds.
fn in_words(time: Duration) -> String {
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m {seconds}s"),
        (hours, minutes) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests;
