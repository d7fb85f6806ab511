//! The directives of a run, and its status.

use serde::{Deserialize, Serialize};

use crate::signal::StopReason;

/// The next act of the driver.
///
/// See the example of [`Run`](crate::Run).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Directive {
    /// Continue; the announced act has begun.
    Proceed,
    /// The announced thing does not start and gets a typed result; the run continues. It is a separate directive,
    /// because a sub-agent that is too deep, or a tool call in the wrap-up, must not end the run.
    Refuse,
    /// Drop the response and ask the model again, within the same step.
    Retry,
    /// Begin the announced step as the last one: tools off, and the driver asks the model for a final answer.
    Finish,
    /// Save and wait for a person: what was announced does not begin.
    Pause,
    /// Stop: what was announced does not begin.
    Stop,
    /// Stop, and abort calls in flight.
    Abort,
}

impl Directive {
    /// Returns whether what was announced begins.
    #[must_use]
    pub const fn admits(self) -> bool {
        matches!(self, Self::Proceed | Self::Finish | Self::Retry)
    }

    /// Returns whether the run must stop.
    #[must_use]
    pub const fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::Abort)
    }
}

/// The status of a run (docs/semantics.md, section 6).
///
/// ```
/// use endstop_core::Status;
/// use endstop_core::signal::StopReason;
///
/// assert_eq!(Status::after(StopReason::CostLimitReached), Status::Stopped);
/// assert_eq!(Status::after(StopReason::ConditionMet), Status::Completed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The run has not begun.
    #[default]
    Pending,
    /// Steps are taken.
    InProgress,
    /// A person decides.
    Paused,
    /// Ended naturally, or at a condition that means "done".
    Completed,
    /// Made to stop.
    Stopped,
    /// Ended by an error.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: &'static [Self] = &[
        Self::Pending,
        Self::InProgress,
        Self::Paused,
        Self::Completed,
        Self::Stopped,
        Self::Failed,
    ];

    /// Returns the stored and printed form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Returns the status of a run that ended for `reason`.
    #[must_use]
    pub const fn after(reason: StopReason) -> Self {
        match reason {
            StopReason::ErrorForbade => Self::Failed,
            other if other.is_forced() => Self::Stopped,
            _ => Self::Completed,
        }
    }
}
