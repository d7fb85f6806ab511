//! Numbers for people: one form of money, tokens, counts and times on every screen.
//!
//! These are rounded for reading. Programs read the exact forms: [`Money::to_decimal`] and the integers in JSON.

use alloc::format;
use alloc::string::{String, ToString};

use crate::condition::gauge::Unit;
use crate::expr::amount_text;
use crate::units::{Millis, Money, PICOS_PER_CENT, PICOS_PER_DOLLAR};

/// Smaller amounts show two digits that count, larger ones whole cents.
const IN_CENTS: u64 = 10 * PICOS_PER_CENT;

/// The direction in which an amount of money is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up: what something can cost at most.
    Up,
    /// To the nearest, half up.
    Nearest,
    /// Down: what is left.
    Down,
}

/// Returns money in cents, and amounts under $0.10 with two significant digits: `$1.75`, `$1,234.50`, `$0.0046`.
///
/// ```
/// use endstop_core::human::money;
///
/// assert_eq!(money("1.754931".parse()?), "$1.75");
/// assert_eq!(money("0.004596".parse()?), "$0.0046");
/// # Ok::<(), endstop_core::units::MoneyError>(())
/// ```
#[must_use]
pub fn money(amount: Money) -> String {
    money_rounded(amount, Rounding::Nearest)
}

/// Like [`money`], rounded in another direction.
#[must_use]
pub fn money_rounded(amount: Money, rounding: Rounding) -> String {
    let picos = u128::from(amount.picos());
    let mut step = u128::from(PICOS_PER_CENT);
    if amount.picos() < IN_CENTS {
        // Never finer than a pico-dollar.
        step = 1;
        while step * 100 <= picos {
            step *= 10;
        }
    }
    let steps = match rounding {
        Rounding::Up => picos.div_ceil(step),
        Rounding::Nearest => (picos + step / 2) / step,
        Rounding::Down => picos / step,
    };
    let rounded = steps * step;
    let dollar = u128::from(PICOS_PER_DOLLAR);
    let whole = u64::try_from(rounded / dollar).unwrap_or(u64::MAX);
    let decimals = format!("{:012}", rounded % dollar);
    let shown = decimals.trim_end_matches('0').len().max(2);
    format!("${}.{}", count(whole), decimals.get(..shown).unwrap_or("00"))
}

/// Returns money with all of its digits: `$1,234.5678`.
///
/// ```
/// use endstop_core::human::money_exact;
///
/// assert_eq!(money_exact("1234.5678".parse()?), "$1,234.5678");
/// assert_eq!(money_exact("3".parse()?), "$3.00");
/// # Ok::<(), endstop_core::units::MoneyError>(())
/// ```
#[must_use]
pub fn money_exact(amount: Money) -> String {
    let text = amount.to_string();
    let (_, cents) = text.split_once('.').unwrap_or_default();
    format!("${}.{cents}", count(amount.picos() / PICOS_PER_DOLLAR))
}

/// Returns a whole number with separators: `1,150`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number and its noun, which takes an `s` unless the number is 1: `1 run`, `1,150 runs`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Returns a large number in at most four digits, rounded half up: `999`, `584.4k`, `2M`.
#[must_use]
pub fn short(number: u64) -> String {
    let scales: [(u64, &str); 4] =
        [(1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T")];
    if number < 1_000 {
        return number.to_string();
    }
    for (scale, letter) in scales {
        let tenths = (u128::from(number) * 10 + u128::from(scale / 2)) / u128::from(scale);
        if tenths < 10_000 {
            return match tenths % 10 {
                0 => format!("{}{letter}", tenths / 10),
                tenth => format!("{}.{tenth}{letter}", tenths / 10),
            };
        }
    }
    count(number)
}

/// Returns tokens with their noun: `584.4k tokens`.
#[must_use]
pub fn tokens(number: u64) -> String {
    format!("{} token{}", short(number), if number == 1 { "" } else { "s" })
}

/// Returns a time in its two largest units, cut and not rounded: `96ms`, `3.2s`, `54s`, `9m 54s`, `1h 2m`, `2d 3h`.
#[must_use]
pub fn duration(span: Millis) -> String {
    let (ms, seconds) = (span.0, span.0 / 1_000);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    match seconds {
        0 if ms > 0 => format!("{ms}ms"),
        0..10 if ms / 100 % 10 > 0 => format!("{seconds}.{}s", ms / 100 % 10),
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// Returns a number in the unit of a gauge, without a noun. Percentages and wall times are as the language has them.
#[must_use]
pub fn amount(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Count => count(value),
        Unit::Tokens => short(value),
        Unit::Money => money(Money::from_picos(value)),
        Unit::Duration => duration(Millis(value)),
        Unit::WallTime | Unit::Percent => amount_text(value, unit),
    }
}

#[cfg(test)]
mod tests;
