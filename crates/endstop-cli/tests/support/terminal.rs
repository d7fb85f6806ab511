//! A command under a pseudo-terminal.
#![allow(dead_code, reason = "each test has its part of these")]

use std::io::{Read as _, Write as _};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// The running command, and its output so far.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Begins a command in a separate session, in control of a terminal of 24 rows.
    pub(crate) fn begin(command: Command) -> Self {
        Self::begin_at(command, 100)
    }

    /// The same with a terminal of this width.
    pub(crate) fn begin_at(command: Command, columns: u16) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(24, columns)).unwrap();
        let child = command.env("TERM", "xterm").env_remove("ENV").spawn(pts).unwrap();
        let (pty, seen) = (Arc::new(pty), Arc::new(Mutex::new(String::new())));
        let (reader, into) = (Arc::clone(&pty), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // A terminal that no process has open is an error.
            while let Ok(1..) = (&*reader).read(&mut bytes).inspect(|&length| {
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                into.lock().unwrap().push_str(&text);
            }) {}
        });
        Self { pty, child, seen }
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Types.
    pub(crate) fn send(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// All that was printed until now.
    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until this was printed, after the last text that was found.
    pub(crate) fn expect(&self, text: &str) {
        self.wait_for(text, |seen| seen.contains(text));
        let mut seen = self.seen.lock().unwrap();
        let end = seen.find(text).unwrap() + text.len();
        *seen = seen.split_off(end);
    }

    /// Waits until this was printed, and returns what came before it.
    pub(crate) fn seen_until(&self, text: &str) -> String {
        self.wait_for(text, |seen| seen.contains(text));
        let seen = self.seen();
        seen.split(text).next().unwrap().to_owned()
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(&self.seen()) {
            assert!(Instant::now() < until, "no `{what}` in {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has ended; none where a signal ended it.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.status().code()
    }

    /// Like `code`, with the signal.
    pub(crate) fn status(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // Its last output may be on its way.
                std::thread::sleep(Duration::from_millis(50));
                return status;
            }
            assert!(Instant::now() < until, "it does not end: {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
