//! Three values: the possible states of a condition.

use serde::{Deserialize, Serialize};

/// True, false, or not known yet.
///
/// ```
/// use endstop_core::Truth;
///
/// assert_eq!(Truth::known(true).or(Truth::Unknown), Truth::True);
/// assert_eq!(Truth::known(true).and(Truth::Unknown), Truth::Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// It is not met.
    False,
    /// It holds.
    True,
    /// It is not known yet, or the reading is missing.
    Unknown,
}

impl Truth {
    /// Returns Kleene's negation.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::False => Self::True,
            Self::True => Self::False,
            Self::Unknown => Self::Unknown,
        }
    }

    /// Returns Kleene's conjunction.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// Returns Kleene's disjunction.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    /// Returns a known `true` or `false`.
    #[must_use]
    pub const fn known(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }

    /// Returns `true`, `false` or `unknown` as text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::False => "false",
            Self::True => "true",
            Self::Unknown => "unknown",
        }
    }
}
