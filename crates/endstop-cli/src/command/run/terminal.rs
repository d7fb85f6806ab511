//! The terminal that the command and this process share: who is in the foreground, and in which mode it is.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{self, LocalFlags, SetArg, Termios};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that controls this process.
pub(super) struct Terminal {
    tty: File,
    own: Pid,
    /// How it was before the command began.
    before: Option<Termios>,
    is_given: bool,
}

impl Terminal {
    /// The terminal, if there is one.
    pub(super) fn of_process() -> Option<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        tcgetpgrp(&tty).ok()?;
        let before = termios::tcgetattr(&tty).ok();
        Some(Self { tty, own: getpgrp(), before, is_given: false })
    }

    /// Whether the command gets the foreground at once. Where only a part of the standard streams is the
    /// terminal, another command of the pipeline may read from it (`| less`): then it gets it when it asks.
    pub(super) fn is_all_ours() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Whether this process's group, or the command, is in the foreground.
    pub(super) fn is_foreground(&self) -> bool {
        self.is_given || tcgetpgrp(&self.tty) == Ok(self.own)
    }

    /// Brings a group into the foreground, if this process's group is in the foreground.
    pub(super) fn give(&mut self, group: Pid) {
        if self.is_foreground() && tcsetpgrp(&self.tty, group).is_ok() {
            self.is_given = true;
        }
    }

    /// Takes the foreground back, if it was given.
    pub(super) fn take(&mut self) {
        if self.is_given {
            // Where the terminal is gone there is nothing to take.
            let _ = tcsetpgrp(&self.tty, self.own);
            self.is_given = false;
        }
    }

    /// Whether the command reads keys one by one: it draws the screen itself.
    pub(super) fn is_raw(&self) -> bool {
        termios::tcgetattr(&self.tty)
            .is_ok_and(|mode| !mode.local_flags.contains(LocalFlags::ICANON))
    }

    /// Puts the mode back that a command had no time to put back itself.
    pub(super) fn restore(&self) {
        if let Some(before) = self.before.as_ref().filter(|_| self.is_foreground()) {
            let _ = termios::tcsetattr(&self.tty, SetArg::TCSADRAIN, before);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take();
    }
}

/// Lets this thread write to a terminal, and hand it on, from the background. Later children would inherit that, so
/// this comes after the command.
pub(super) fn write_from_the_background() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    // It fails for signals that there are not.
    let _ = signals.thread_block();
}
