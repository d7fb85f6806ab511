//! Ctrl-C in stages: the first asks the run to stop, the second aborts calls in flight, the third ends the process.

use std::future::pending;
use std::io;

use endstop_core::signal::{StopReason, StopSignal};

use super::{CancelToken, Urgency};

/// The exit code of a process that was interrupted: 128 and the number of SIGINT.
pub const EXIT_CODE: i32 = 130;

/// The meaning of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Stop: nothing more begins.
    Stop,
    /// Abort calls in flight.
    Abort,
    /// Leave the process.
    Exit,
}

impl Stage {
    /// Returns the cancellation of this stage; `None` if the process ends.
    #[must_use]
    pub fn cancellation(self) -> Option<(StopSignal, Urgency)> {
        let (message, urgency) = match self {
            Self::Stop => ("interrupted; once more to stop immediately", Urgency::Graceful),
            Self::Abort => ("interrupted again; once more to exit", Urgency::Now),
            Self::Exit => return None,
        };
        let signal = StopSignal::new(StopReason::UserRequested).with_message(message);
        Some((signal.with_source("interrupt"), urgency))
    }
}

/// Counts interrupts.
///
/// ```
/// use endstop_runtime::cancel::interrupt::{Interrupts, Stage};
///
/// let mut interrupts = Interrupts::new();
/// assert_eq!(interrupts.interrupt(), Stage::Stop);
/// assert_eq!(interrupts.interrupt(), Stage::Abort);
/// assert_eq!(interrupts.interrupt(), Stage::Exit);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    last: Option<Stage>,
}

impl Interrupts {
    /// Creates a counter without an interrupt so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// Counts one more and says what it means. From the third on it is always [`Stage::Exit`].
    pub const fn interrupt(&mut self) -> Stage {
        let stage = match self.last {
            None => Stage::Stop,
            Some(Stage::Stop) => Stage::Abort,
            Some(Stage::Abort | Stage::Exit) => Stage::Exit,
        };
        self.last = Some(stage);
        stage
    }
}

/// Cancels `token` on Ctrl-C, and on Unix on SIGTERM, in the stages of [`Interrupts`]; the third ends the
/// process with [`EXIT_CODE`], without running destructors. It never returns.
///
/// To be spawned once for the life of the process: signals are heard from the first poll on. If the system does not let
/// the process listen, an interrupt does what it does by default.
///
/// # Panics
///
/// Outside a tokio runtime with I/O.
///
/// # Cancel safety
///
/// Not cancel safe: once this was polled, the first signals no longer end the process, even after this is dropped. A
/// second call counts the interrupts from one again.
pub async fn cancel_on_interrupt(token: CancelToken) {
    let Ok(mut listener) = Listener::new() else {
        return pending().await;
    };
    let mut interrupts = Interrupts::new();
    loop {
        listener.next().await;
        match interrupts.interrupt().cancellation() {
            Some((signal, urgency)) => token.cancel(signal, urgency),
            None => std::process::exit(EXIT_CODE),
        };
    }
}

#[cfg(unix)]
struct Listener {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Listener {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            Some(()) = self.interrupt.recv() => {}
            Some(()) = self.terminate.recv() => {}
            else => pending().await,
        }
    }
}

#[cfg(windows)]
struct Listener {
    ctrl_c: tokio::signal::windows::CtrlC,
    ctrl_break: tokio::signal::windows::CtrlBreak,
}

#[cfg(windows)]
impl Listener {
    fn new() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c};
        Ok(Self { ctrl_c: ctrl_c()?, ctrl_break: ctrl_break()? })
    }

    async fn next(&mut self) {
        tokio::select! {
            Some(()) = self.ctrl_c.recv() => {}
            Some(()) = self.ctrl_break.recv() => {}
            else => pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
