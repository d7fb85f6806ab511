//! Units: exact money, disjoint token classes, durations, wall time.
//!
//! Everything is an unsigned integer with checked arithmetic; nothing here is a float.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::MAX_READ_DOLLARS;

/// Pico-dollars in one dollar.
pub const PICOS_PER_DOLLAR: u64 = 1_000_000_000_000;
/// Pico-dollars in one cent.
pub const PICOS_PER_CENT: u64 = PICOS_PER_DOLLAR / 100;

/// An exact amount of money in pico-dollars (10⁻¹² USD).
///
/// ```
/// use endstop_core::units::Money;
///
/// let cent: Money = "0.01".parse()?;
/// assert_eq!(cent, Money::from_picos(10_000_000_000));
/// assert_eq!(cent.checked_add(cent).map(|sum| sum.to_string()), Some("$0.02".to_owned()));
/// assert!("0.0000000000001".parse::<Money>().is_err(), "finer than a pico-dollar");
/// # Ok::<(), endstop_core::units::MoneyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u64);

/// Why a text is not an amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MoneyError {
    /// Not a plain decimal number of dollars.
    #[error("not an amount of dollars")]
    NotANumber,
    /// More than twelve decimals: finer than a pico-dollar.
    #[error("finer than a pico-dollar (at most 12 decimals)")]
    TooFine,
    /// Above [`MAX_READ_DOLLARS`].
    #[error("more than $9,000,000")]
    TooLarge,
}

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// Creates an amount of `picos` pico-dollars.
    #[must_use]
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// Returns the amount in pico-dollars.
    #[must_use]
    pub const fn picos(self) -> u64 {
        self.0
    }

    /// Returns the sum, or `None` if it passes `u64::MAX` pico-dollars ($18.4M).
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the sum, at most the largest amount.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns whether it is nothing.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Returns the difference, or zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the exact decimal number of dollars without a sign: `0.5`, `19.502722`, `2`.
    #[must_use]
    pub fn to_decimal(self) -> String {
        let (whole, rest) = (self.0 / PICOS_PER_DOLLAR, self.0 % PICOS_PER_DOLLAR);
        if rest == 0 {
            return format!("{whole}");
        }
        let digits = format!("{rest:012}");
        format!("{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl fmt::Display for Money {
    /// `$2.00`, `$0.004596`: exact, with at least two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / PICOS_PER_DOLLAR, self.0 % PICOS_PER_DOLLAR);
        let digits = format!("{rest:012}");
        let shown = digits.trim_end_matches('0').len().max(2);
        f.pad(&format!("${whole}.{}", digits.split_at(shown).0))
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    /// Reads a plain decimal number of dollars, with or without a leading `$`: `2`, `2.00`, `$0.5`.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let text = text.strip_prefix('$').unwrap_or(text);
        let picos = scaled_decimal(text, 12)?;
        let max = u128::from(MAX_READ_DOLLARS) * u128::from(PICOS_PER_DOLLAR);
        if picos > max {
            return Err(MoneyError::TooLarge);
        }
        u64::try_from(picos).map(Self).map_err(|_| MoneyError::TooLarge)
    }
}

/// Reads a decimal text such as `1.5` as an integer of 10^-`digits`; underscores between digits are
/// allowed. The whole part holds at most 20 digits.
pub(crate) fn scaled_decimal(text: &str, digits: u32) -> Result<u128, MoneyError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let dotted = text.contains('.');
    if whole.is_empty() || (dotted && fraction.is_empty()) {
        return Err(MoneyError::NotANumber);
    }
    let mut value: u128 = 0;
    let mut whole_digits = 0u32;
    for byte in whole.bytes().filter(|&b| b != b'_') {
        if !byte.is_ascii_digit() {
            return Err(MoneyError::NotANumber);
        }
        whole_digits += 1;
        if whole_digits > 20 {
            return Err(MoneyError::TooLarge);
        }
        value = value * 10 + u128::from(byte - b'0');
    }
    let mut read = 0;
    for byte in fraction.bytes() {
        if !byte.is_ascii_digit() {
            return Err(MoneyError::NotANumber);
        }
        if read == digits {
            if byte != b'0' {
                return Err(MoneyError::TooFine);
            }
            continue;
        }
        read += 1;
        value = value * 10 + u128::from(byte - b'0');
    }
    Ok(value * 10u128.pow(digits - read))
}

/// The cost of a model call, if known.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_usd, probe::Probes};
/// use endstop_core::units::{Cost, Millis, Money};
/// use endstop_core::{Event, EventKind, Run};
///
/// # let mut run = Run::new(Arc::new(Program::new(&Policy::from(max_usd("1")?), &Probes::new())?));
/// let mut fail = |cost| {
///     run.observe(&Event::new(Millis(0), EventKind::AttemptFailed { usage: None, cost: Some(cost) }));
///     run.cost()
/// };
/// assert_eq!(fail(Cost::Known(Money::from_picos(7))), Some(Money::from_picos(7)));
/// assert_eq!(fail(Cost::Unpriced), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// The exact amount, as the provider reported it or as the price table computes it.
    Known(Money),
    /// No price for this model: the cost is unknown, which is not zero.
    Unpriced,
}

/// Tokens of one model call in disjoint classes: no token is counted in two of them.
///
/// ```
/// use endstop_core::units::TokenUsage;
///
/// let usage = TokenUsage { input: 1_000, cache_read: 9_000, output: 500, ..TokenUsage::default() };
/// assert_eq!((usage.total_input(), usage.total()), (10_000, 10_500));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TokenUsage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache that lives five minutes, or of unknown life.
    pub cache_write: u64,
    /// Input tokens written to a cache that lives one hour.
    pub cache_write_1h: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
}

impl TokenUsage {
    /// Returns all input of the call: uncached, cached and written. Saturates.
    #[must_use]
    pub const fn total_input(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_write_1h)
    }

    /// Returns all tokens of the call. Saturates.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total_input().saturating_add(self.output)
    }

    /// Returns the sum class by class, or `None` if a class overflows.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_add(other.input)?,
            cache_read: self.cache_read.checked_add(other.cache_read)?,
            cache_write: self.cache_write.checked_add(other.cache_write)?,
            cache_write_1h: self.cache_write_1h.checked_add(other.cache_write_1h)?,
            output: self.output.checked_add(other.output)?,
        })
    }
}

/// A duration, or a monotonic offset from the start of a run, in milliseconds.
///
/// ```
/// use endstop_core::units::Millis;
///
/// assert_eq!(Millis::from_secs(90).to_string(), "1m30s");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Creates a duration of `seconds` seconds. Saturates.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }
}

impl From<core::time::Duration> for Millis {
    /// In whole milliseconds, rounded up: a limit of less than one admits something. Saturates.
    fn from(duration: core::time::Duration) -> Self {
        let nanos = duration.as_nanos().div_ceil(1_000_000);
        Self(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Millis {
    /// `1h30m`, `90s` as `1m30s`, `250ms`: the form that the expression language reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest == 0 {
            return f.pad("0s");
        }
        let mut text = String::new();
        for (unit, size) in
            [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
        {
            if rest >= size {
                text.push_str(&format!("{}{unit}", rest / size));
                rest %= size;
            }
        }
        f.pad(&text)
    }
}

/// Wall time in milliseconds since 1970-01-01T00:00Z. Only `now` and `deadline` read it.
///
/// ```
/// use endstop_core::{condition::named::deadline, expr::parse, units::WallTime};
///
/// let end = WallTime(1_796_040_000_000);
/// assert_eq!(deadline(end), parse("now >= \"2026-11-30T12:00Z\"")?);
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallTime(pub u64);

#[cfg(test)]
mod tests;
