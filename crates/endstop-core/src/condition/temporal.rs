//! Operators over time. Each is one bounded counter or ring in the meter; all advance at a step's end.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::{CompareOp, Condition};
use crate::units::Millis;

/// An operator over time.
///
/// ```
/// use endstop_core::condition::{Condition, Fact, Window};
/// use endstop_core::expr::parse;
///
/// let failed = Condition::Fact(Fact::ToolFailed("shell".to_owned()));
/// assert_eq!(failed.clone().streak_at_least(3), parse("streak(tool_failed(\"shell\")) >= 3")?);
/// let often = failed.count_at_least(5, Some(Window::Steps(10)));
/// assert_eq!(often, parse("count(tool_failed(\"shell\"), 10 steps) >= 5")?);
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Temporal {
    /// `ever(c)`: has held since the run began.
    Ever(Box<Condition>),
    /// `streak(c) >= n`: steps in a row, up to the last closed one, in which `c` held.
    Streak {
        /// The condition.
        of: Box<Condition>,
        /// The comparison.
        op: CompareOp,
        /// The number of steps.
        n: u64,
    },
    /// `count(c) >= n`, `count(c, 5m) >= n`, `count(c, 10 steps) >= n`: closed steps in which `c` held.
    Count {
        /// The condition.
        of: Box<Condition>,
        /// Only steps in this window; the whole run if absent.
        window: Option<Window>,
        /// The comparison.
        op: CompareOp,
        /// The number of steps; at most [`MAX_COUNT`](crate::limits::MAX_COUNT) with a window.
        n: u64,
    },
    /// `c within w`: holds now, or held at the end of a step in the window.
    Within {
        /// The condition.
        of: Box<Condition>,
        /// How far back.
        window: Window,
    },
    /// `a then b`: `b` now, `a` at an earlier step.
    Then {
        /// The condition that is met first.
        first: Box<Condition>,
        /// The condition that is met now.
        next: Box<Condition>,
    },
}

impl Temporal {
    /// What it is about: of `then`, what comes first.
    pub(crate) const fn operand(&self) -> &Condition {
        match self {
            Self::Ever(of)
            | Self::Streak { of, .. }
            | Self::Count { of, .. }
            | Self::Within { of, .. }
            | Self::Then { first: of, .. } => of,
        }
    }

    /// Returns the conditions it is made of.
    #[must_use]
    pub fn parts(&self) -> Vec<&Condition> {
        match self {
            Self::Ever(of)
            | Self::Streak { of, .. }
            | Self::Count { of, .. }
            | Self::Within { of, .. } => vec![of],
            Self::Then { first, next } => vec![first, next],
        }
    }
}

/// The part of the past that an operator covers.
///
/// See the example of [`Temporal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// The last so many milliseconds of elapsed time; an event exactly that long ago is inside.
    Time(Millis),
    /// The last so many closed steps.
    Steps(u64),
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(duration) => write!(f, "{duration}"),
            Self::Steps(steps) => write!(f, "{steps} steps"),
        }
    }
}
