//! Warnings about accounts that runs draw on, in numbers and in words.

use std::fmt;
use std::time::Duration;

use endstop_core::human::Rounding;
use endstop_core::units::{Millis, WallTime};

use super::limit::{AccountLimit, rounded};

/// A warning about accounts: no call is refused for it.
///
/// See the example of [`AccountThreshold`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountWarning {
    /// The spend of a limit has reached the threshold of its account.
    Threshold(AccountThreshold),
    /// The clock is so far behind the time of the store: it was set back, or had been ahead.
    ClockBehind(Duration),
    /// A cost that nothing was held for, such as that of a tool, could not be counted.
    Uncounted {
        /// The refusal or the error, for people.
        why: String,
    },
}

/// A limit whose spend has reached the threshold of its account.
///
/// ```
/// use endstop_core::units::WallTime;
/// use endstop_runtime::account::{AccountThreshold, AccountWarning};
///
/// let reached = AccountThreshold {
///     account: "me".to_owned(),
///     limit: "1000 steps per day".parse()?,
///     spent: 812,
///     threshold: 80,
///     resets_at: Some(WallTime(1_795_651_200_000)),
/// };
/// assert_eq!(reached.percent(), 81);
/// assert_eq!(
///     AccountWarning::Threshold(reached).to_string(),
///     "budget me: 812 steps of 1,000 steps per day spent (warns at 80%)"
/// );
/// # Ok::<(), endstop_runtime::account::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountThreshold {
    /// The name of the account.
    pub account: String,
    /// The limit.
    pub limit: AccountLimit,
    /// The settled amount in its window; money in pico-dollars.
    pub spent: u64,
    /// The percentage at which the account warns.
    pub threshold: u8,
    /// The end of the window; of a rolling one, the time at which the first part of the spend leaves it. `None` if it never does.
    pub resets_at: Option<WallTime>,
}

impl AccountThreshold {
    /// Returns the spend as a percentage of the limit, rounded down; above 100 if a provider charged more than its price.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = (u128::from(self.spent) * 100).checked_div(u128::from(self.limit.amount));
        // All of nothing is spent.
        percent.map_or(100, |percent| u64::try_from(percent).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for AccountThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, limit, spent, threshold, .. } = self;
        let spent = rounded(limit.dimension, *spent, Rounding::Nearest);
        write!(f, "budget {account}: {spent} of {limit} spent (warns at {threshold}%)")
    }
}

impl fmt::Display for AccountWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threshold(reached) => fmt::Display::fmt(reached, f),
            Self::ClockBehind(behind) => write!(
                f,
                "the clock is {} behind the time of the budgets: it was set back, or had been ahead. Windows end later by that",
                Millis::from(*behind)
            ),
            Self::Uncounted { why } => write!(f, "a cost is not counted in the budgets: {why}"),
        }
    }
}
