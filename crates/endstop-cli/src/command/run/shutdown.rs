//! Stopping in phases: the command gets stop responses to its model calls first, then a signal, then it is killed.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::limits::{KILL_AGAIN, KILL_ROUNDS, TERM_TO_KILL};

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownAction {
    /// Ask the processes to end.
    Terminate,
    /// End them.
    Kill,
    /// They cannot be ended.
    GiveUp,
}

/// The signals that Endstop sent to end processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentSignals {
    /// The last one before the command ended. `None` if it ended on its own.
    pub(super) command: Option<Signal>,
    /// The last one to processes that the command left behind.
    pub(super) left_behind: Option<Signal>,
}

impl SentSignals {
    /// Notes a signal to all processes. `has_ended` is whether the command has ended.
    pub(super) const fn note(&mut self, signal: Signal, has_ended: bool) {
        match has_ended {
            false => self.command = Some(signal),
            true => self.left_behind = Some(signal),
        }
    }
}

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// Nothing is stopped.
    Going,
    /// Model calls get stop responses; the command may end on its own.
    Answered { until: Instant },
    /// The processes were asked to end.
    Terminated { until: Instant },
    /// They are being ended.
    Killed { again: Instant, rounds: u32 },
}

impl ShutdownPhase {
    /// The run was stopped; the command has `grace` to end on its own. Only the first stop counts.
    pub(super) fn stop(&mut self, now: Instant, grace: Duration) {
        if *self == Self::Going {
            *self = Self::Answered { until: now + grace };
        }
    }

    /// When there is something to do.
    pub(super) const fn due(&self) -> Option<Instant> {
        match self {
            Self::Going => None,
            Self::Answered { until } | Self::Terminated { until } => Some(*until),
            Self::Killed { again, .. } => Some(*again),
        }
    }

    /// The action that is due now, which counts as done.
    pub(super) fn act(&mut self, now: Instant) -> Option<ShutdownAction> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        let (next, act) = match *self {
            Self::Going => return None,
            Self::Answered { .. } => {
                (Self::Terminated { until: now + TERM_TO_KILL }, ShutdownAction::Terminate)
            }
            Self::Terminated { .. } => {
                (Self::Killed { again: now + KILL_AGAIN, rounds: 1 }, ShutdownAction::Kill)
            }
            Self::Killed { rounds: KILL_ROUNDS.., .. } => return Some(ShutdownAction::GiveUp),
            Self::Killed { rounds, .. } => {
                (Self::Killed { again: now + KILL_AGAIN, rounds: rounds + 1 }, ShutdownAction::Kill)
            }
        };
        *self = next;
        Some(act)
    }

    /// Whether signals were sent.
    pub(super) const fn has_signalled(&self) -> bool {
        matches!(self, Self::Terminated { .. } | Self::Killed { .. })
    }
}

#[cfg(test)]
mod tests;
