//! Limits of accounts: an amount, and the window that it holds for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use endstop_core::condition::gauge::Unit;
use endstop_core::expr::parse_amount;
use endstop_core::human::{self, Rounding};
use endstop_core::units::{Millis, Money};
use thiserror::Error;

use crate::ledger::Dimension;
use crate::limits::{MAX_ACCOUNT_AMOUNT, MAX_ROLLING, MIN_ROLLING};

/// The dimensions that accounts count, in the order of their counters. A set of accounts refuses limits on others.
pub(super) const COUNTED: [Dimension; 3] = [Dimension::Steps, Dimension::Tokens, Dimension::Cost];

/// The time that one limit of an account holds for.
///
/// See the example of [`AccountLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// Forever.
    Ever,
    /// An hour of the clock.
    Hour,
    /// A calendar day, from midnight to midnight in the time zone of the account.
    Day,
    /// A calendar week, from Monday.
    Week,
    /// A calendar month.
    Month,
    /// Any span of this length: at no moment is more spent in the time behind it than the limit.
    Rolling(Duration),
}

/// One limit of an account: an amount of money, tokens or steps per window.
///
/// ```
/// use endstop_runtime::account::{AccountLimit, Window};
/// use endstop_runtime::ledger::Dimension;
///
/// let limit: AccountLimit = "$5 per day".parse()?;
/// assert_eq!((limit.dimension, limit.window), (Dimension::Cost, Window::Day));
/// assert_eq!(limit.to_string(), "$5.00 per day");
///
/// for text in ["2M tokens per hour", "1000 steps per day", "$20", "$3,000 per month", "$10 per rolling 5h"] {
///     let limit: AccountLimit = text.parse()?;
///     assert_eq!(limit.to_string().parse::<AccountLimit>()?, limit);
/// }
/// assert!("5 per day".parse::<AccountLimit>().is_err(), "5 of what");
/// # Ok::<(), endstop_runtime::account::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountLimit {
    /// The unit: [`Dimension::Cost`], [`Dimension::Tokens`] or [`Dimension::Steps`]. A set of accounts refuses others.
    pub dimension: Dimension,
    /// The amount; money in pico-dollars.
    pub amount: u64,
    /// The window.
    pub window: Window,
}

/// Why a text is not a limit of an account.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The amount or its unit.
    #[error("`{0}` is not an amount: write `$5 per day`, `2M tokens per hour` or `1000 steps`")]
    Amount(String),
    /// The amount is too large to be counted.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// The window.
    #[error("`{0}` is not a window: write `hour`, `day`, `week`, `month` or `rolling 5h`")]
    Window(String),
    /// A rolling window that is too short or too long.
    #[error("a rolling window has 1 minute to 366 days, not `{0}`")]
    Rolling(String),
}

impl AccountLimit {
    /// Returns the amount as people read it, and exact: `$3,000.00`, `2M tokens`.
    #[must_use]
    pub fn amount_text(&self) -> String {
        exact(self.dimension, self.amount)
    }
}

/// An amount that was used or is left, rounded for reading.
pub(super) fn rounded(dimension: Dimension, amount: u64, rounding: Rounding) -> String {
    match dimension {
        Dimension::Cost => human::money_rounded(Money::from_picos(amount), rounding),
        Dimension::Tokens => human::tokens(amount),
        Dimension::Steps => human::counted(amount, "step"),
        dimension => format!("{} {dimension}", human::count(amount)),
    }
}

/// A limit: exact, because it can be read again.
fn exact(dimension: Dimension, amount: u64) -> String {
    match dimension {
        Dimension::Cost => human::money_exact(Money::from_picos(amount)),
        Dimension::Tokens => {
            let short = human::short(amount);
            let is_exact = parse_amount(&short, Unit::Tokens) == Ok(amount);
            format!("{} tokens", if is_exact { short } else { human::count(amount) })
        }
        dimension => format!("{} {dimension}", human::count(amount)),
    }
}

/// A number without the commas between its thousands; `None` if one is elsewhere.
fn without_separators(number: &str) -> Option<String> {
    if !number.contains(',') {
        return Some(number.to_owned());
    }
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('$');
    let digits: u64 = whole.replace(',', "").parse().ok()?;
    (human::count(digits) == whole && !decimals.contains(',')).then(|| number.replace(',', ""))
}

impl FromStr for AccountLimit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let (amount, window) = match text.split_once(" per ") {
            Some((amount, window)) => (amount.trim(), window.trim().parse()?),
            None => (text.trim(), Window::Ever),
        };
        let bad = || LimitError::Amount(amount.to_owned());
        let (dimension, unit, number) = match amount.split_once(' ') {
            None if amount.starts_with('$') => (Dimension::Cost, Unit::Money, amount),
            Some((number, "tokens" | "token")) => (Dimension::Tokens, Unit::Tokens, number),
            Some((number, "steps" | "step")) => (Dimension::Steps, Unit::Count, number),
            _ => return Err(bad()),
        };
        let number = without_separators(number).ok_or_else(bad)?;
        let read = parse_amount(&number, unit).map_err(|_| bad())?;
        if read > MAX_ACCOUNT_AMOUNT {
            return Err(LimitError::TooLarge(amount.to_owned()));
        }
        Ok(Self { dimension, amount: read, window })
    }
}

impl FromStr for Window {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        match text {
            "hour" => Ok(Self::Hour),
            "day" => Ok(Self::Day),
            "week" => Ok(Self::Week),
            "month" => Ok(Self::Month),
            _ => {
                let length = text.strip_prefix("rolling ").map(str::trim);
                let length = length.ok_or_else(|| LimitError::Window(text.to_owned()))?;
                let millis = parse_amount(length, Unit::Duration)
                    .map_err(|_| LimitError::Window(text.to_owned()))?;
                let length = Duration::from_millis(millis);
                if length < MIN_ROLLING || length > MAX_ROLLING {
                    return Err(LimitError::Rolling(text.to_owned()));
                }
                Ok(Self::Rolling(length))
            }
        }
    }
}

impl fmt::Display for AccountLimit {
    /// `$3,000.00 per month`, `2M tokens per hour`, `$20.00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.amount_text())?;
        match self.window {
            Window::Ever => Ok(()),
            window => write!(f, " per {window}"),
        }
    }
}

impl fmt::Display for Window {
    /// `day`, `rolling 5h`, `ever`. Counters are stored under this text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ever => f.write_str("ever"),
            Self::Hour => f.write_str("hour"),
            Self::Day => f.write_str("day"),
            Self::Week => f.write_str("week"),
            Self::Month => f.write_str("month"),
            Self::Rolling(length) => write!(f, "rolling {}", Millis::from(*length)),
        }
    }
}

#[cfg(test)]
mod tests;
