//! The signals that this process hears while the command runs.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalMeaning {
    /// Something happened to a child.
    Child,
    /// This process was stopped and continues, or moved into the foreground.
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
    window: unix::Signal,
    terminate: Option<unix::Signal>,
    hang_up: Option<unix::Signal>,
    interrupt: Option<unix::Signal>,
    quit: Option<unix::Signal>,
    second_user: Option<unix::Signal>,
    alarm: Option<unix::Signal>,
}

impl Signals {
    /// Starts to receive them. Signals that this process ignores, as under `nohup`, stay ignored, and the command,
    /// which starts later, ignores them too.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(super) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let unless_ignored = |signal: Signal| {
            let is_ignored = ignored >> (signal as i32 - 1) & 1 == 1;
            let kind = SignalKind::from_raw(signal as i32);
            if is_ignored { Ok(None) } else { unix::signal(kind).map(Some) }
        };
        Ok(Self {
            child: unix::signal(SignalKind::child())?,
            proceed: unix::signal(SignalKind::from_raw(Signal::SIGCONT as i32))?,
            approve: unix::signal(SignalKind::user_defined1())?,
            window: unix::signal(SignalKind::window_change())?,
            terminate: unless_ignored(Signal::SIGTERM)?,
            hang_up: unless_ignored(Signal::SIGHUP)?,
            interrupt: unless_ignored(Signal::SIGINT)?,
            quit: unless_ignored(Signal::SIGQUIT)?,
            // They would end this process, and leave the command without its gateway.
            second_user: unless_ignored(Signal::SIGUSR2)?,
            alarm: unless_ignored(Signal::SIGALRM)?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> SignalMeaning {
        tokio::select! {
            _ = self.child.recv() => SignalMeaning::Child,
            _ = self.proceed.recv() => SignalMeaning::Continue,
            _ = self.approve.recv() => SignalMeaning::Approve,
            () = next(&mut self.terminate) => SignalMeaning::Forward(Signal::SIGTERM),
            () = next(&mut self.hang_up) => SignalMeaning::Forward(Signal::SIGHUP),
            () = next(&mut self.interrupt) => SignalMeaning::Forward(Signal::SIGINT),
            () = next(&mut self.quit) => SignalMeaning::Forward(Signal::SIGQUIT),
            () = next(&mut self.second_user) => SignalMeaning::Forward(Signal::SIGUSR2),
            () = next(&mut self.alarm) => SignalMeaning::Forward(Signal::SIGALRM),
            _ = self.window.recv() => SignalMeaning::Forward(Signal::SIGWINCH),
        }
    }
}

/// The next signal of a kind; never one of a kind that is ignored.
async fn next(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// The signals that this process ignores, one bit each; 0 if the system does not report them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
