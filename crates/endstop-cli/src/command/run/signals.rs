//! The signals that this process hears while the command runs.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something happened to a child.
    Child,
    /// This process was stopped and goes on, or came into the foreground.
    Continue,
    /// A person approves a pause.
    Approve,
    /// For the command.
    Forward(Signal),
}

/// They are heard from when this is made until the process ends.
#[derive(Debug)]
pub(super) struct Signals {
    child: unix::Signal,
    proceed: unix::Signal,
    approve: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    interrupt: unix::Signal,
    quit: unix::Signal,
    window: unix::Signal,
}

impl Signals {
    /// Begins to hear them.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            child: unix::signal(SignalKind::child())?,
            proceed: unix::signal(SignalKind::from_raw(Signal::SIGCONT as i32))?,
            approve: unix::signal(SignalKind::user_defined1())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up: unix::signal(SignalKind::hangup())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            quit: unix::signal(SignalKind::quit())?,
            window: unix::signal(SignalKind::window_change())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Heard {
        tokio::select! {
            _ = self.child.recv() => Heard::Child,
            _ = self.proceed.recv() => Heard::Continue,
            _ = self.approve.recv() => Heard::Approve,
            _ = self.terminate.recv() => Heard::Forward(Signal::SIGTERM),
            _ = self.hang_up.recv() => Heard::Forward(Signal::SIGHUP),
            _ = self.interrupt.recv() => Heard::Forward(Signal::SIGINT),
            _ = self.quit.recv() => Heard::Forward(Signal::SIGQUIT),
            _ = self.window.recv() => Heard::Forward(Signal::SIGWINCH),
        }
    }
}
