//! Decimal text to integers, without a float in between.

use thiserror::Error;

use super::limits::MAX_EXPONENT;

/// What to do with digits beyond the wanted scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// They make the text unreadable.
    Refuse,
    /// They round the value up, away from zero.
    RoundUp,
}

/// Why a text is not a number of the wanted scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecimalError {
    /// Not a decimal number.
    #[error("not a decimal number")]
    NotANumber,
    /// Below zero.
    #[error("negative")]
    Negative,
    /// More digits after the point than can be kept.
    #[error("too many decimals")]
    TooFine,
    /// More than 128 bits hold.
    #[error("too large")]
    TooLarge,
}

/// Reads `text`, plain (`0.25`) or with an exponent (`2.5e-1`), as an integer of 10^-`digits`.
pub(crate) fn scaled(text: &str, digits: u32, beyond: Beyond) -> Result<u128, DecimalError> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || (mantissa.contains('.') && fraction.is_empty()) {
        return Err(DecimalError::NotANumber);
    }
    let mut value: u128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if !byte.is_ascii_digit() {
            return Err(DecimalError::NotANumber);
        }
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u128::from(byte - b'0')));
        value = next.ok_or(DecimalError::TooLarge)?;
    }
    if negative && value != 0 {
        return Err(DecimalError::Negative);
    }
    let fraction = i32::try_from(fraction.len()).map_err(|_| DecimalError::TooLarge)?;
    let digits = i32::try_from(digits).map_err(|_| DecimalError::TooLarge)?;
    shift(value, digits + exponent - fraction, beyond)
}

fn read_exponent(text: &str) -> Result<i32, DecimalError> {
    let exponent: i32 = text.parse().map_err(|_| DecimalError::NotANumber)?;
    if (-MAX_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
        Ok(exponent)
    } else {
        Err(DecimalError::TooLarge)
    }
}

/// `value` × 10^`places`, rounded as `beyond` says where `places` is negative.
fn shift(value: u128, places: i32, beyond: Beyond) -> Result<u128, DecimalError> {
    if value == 0 {
        return Ok(0);
    }
    let power = 10u128.checked_pow(places.unsigned_abs());
    if places >= 0 {
        return power.and_then(|p| value.checked_mul(p)).ok_or(DecimalError::TooLarge);
    }
    let (quotient, rest) = power.map_or((0, value), |p| (value / p, value % p));
    match (rest, beyond) {
        (0, _) => Ok(quotient),
        (_, Beyond::RoundUp) => Ok(quotient + 1),
        (_, Beyond::Refuse) => Err(DecimalError::TooFine),
    }
}

/// The shortest plain decimal text of `value` × 10^-`digits`: `2`, `0.125`.
pub(crate) fn plain(value: u128, digits: u32) -> String {
    let scale = 10u128.pow(digits);
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(digits).unwrap_or(0);
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
