//! The output for people: whole lines, one write each, around a status line below them.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Goes to the beginning of the line and clears it.
const CLEAR: &str = "\r\u{1b}[K";

/// A place for lines, shared by sinks that print to it. On a terminal it also shows one status line, which stays
/// below the printed lines.
///
/// ```
/// use std::sync::Arc;
/// use endstop::observe::{ConsoleObserver, Screen, StatusLine};
///
/// // Lines of the console stay above the status line.
/// let screen = Arc::new(Screen::new(std::io::sink(), true));
/// let (console, status) = (ConsoleObserver::on(screen.clone()), StatusLine::on(screen.clone()));
/// screen.line("ready");
/// assert_eq!((screen.is_terminal(), screen.failed_writes()), (true, 0));
/// # let _ = (console, status);
/// ```
pub struct Screen {
    is_terminal: bool,
    state: Mutex<ScreenState>,
}

struct ScreenState {
    out: Box<dyn Write + Send>,
    status: String,
    failed: u64,
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").field("is_terminal", &self.is_terminal).finish_non_exhaustive()
    }
}

impl Screen {
    /// Creates a screen on standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(io::stderr(), io::stderr().is_terminal())
    }

    /// Creates a screen on any writer, such as a file; not a terminal.
    pub fn writer(out: impl Write + Send + 'static) -> Self {
        Self::new(out, false)
    }

    /// Creates a screen on any writer. `is_terminal` says whether it understands escape sequences.
    pub fn new(out: impl Write + Send + 'static, is_terminal: bool) -> Self {
        let state = ScreenState { out: Box::new(out), status: String::new(), failed: 0 };
        Self { is_terminal, state: Mutex::new(state) }
    }

    /// Returns whether a status line can be shown.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns how many writes failed. A failed write ends nothing.
    #[must_use]
    pub fn failed_writes(&self) -> u64 {
        self.lock().failed
    }

    /// Prints `line`, which holds no line feed, in one write.
    pub fn line(&self, line: &str) {
        let mut state = self.lock();
        let text = if state.status.is_empty() {
            format!("{line}\n")
        } else {
            format!("{CLEAR}{line}\n{}", state.status)
        };
        state.write(&text);
    }

    /// Shows `status` in place of the previous status line. Does nothing without a terminal, or if the text is the
    /// same.
    pub fn status(&self, status: &str) {
        let mut state = self.lock();
        if !self.is_terminal || state.status == status {
            return;
        }
        status.clone_into(&mut state.status);
        state.write(&format!("{CLEAR}{status}"));
    }

    /// Removes the status line.
    pub fn clear(&self) {
        self.status("");
    }

    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScreenState {
    fn write(&mut self, text: &str) {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        self.failed = self.failed.saturating_add(u64::from(written.is_err()));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}
