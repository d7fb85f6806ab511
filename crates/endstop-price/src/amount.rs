//! Amounts before they are rounded.

use std::fmt;

use endstop_core::units::{Money, PICOS_PER_DOLLAR};

use super::decimal;

/// Parts in one dollar. Every rate has at most 18 decimals and is per 10³, 10⁶, 10⁹ or 3.6 × 10⁶ counts;
/// all of these divide 9 × 10⁹, so every product of a count and a rate is a whole number of parts.
const PARTS_PER_DOLLAR: u128 = 9 * 10u128.pow(27);

/// Parts in one pico-dollar.
const PARTS_PER_PICO: u128 = PARTS_PER_DOLLAR / PICOS_PER_DOLLAR as u128;

/// The counts that a rate may be for divide this.
pub(crate) const PER_MULTIPLE: u64 = 9_000_000_000;

/// An exact amount of dollars, in parts of 1 / (9 × 10²⁷): what a line of a price is before rounding.
///
/// Sums are exact whatever their order. At most $3.7 × 10¹⁰ fit.
///
/// [`Priced`](crate::Priced) has such amounts, see the example of [`PriceTable`](crate::PriceTable).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExactUsd(u128);

impl ExactUsd {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// `count` × `attos` (10⁻¹⁸ USD) / `per`, or `None` if it does not fit.
    ///
    /// `per` divides [`PER_MULTIPLE`]: the unit registry refuses others.
    pub(crate) fn of(count: u64, attos: u128, per: u64) -> Option<Self> {
        let parts_per_atto = u128::from(PER_MULTIPLE.checked_div(per)?);
        let parts = u128::from(count).checked_mul(attos)?.checked_mul(parts_per_atto)?;
        Some(Self(parts))
    }

    /// Returns the sum, or `None` if it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the amount rounded up to a pico-dollar, or `None` above what [`Money`] holds ($18.4M).
    ///
    /// Rounding happens once for a whole call, never for a line.
    #[must_use]
    pub fn round_up(self) -> Option<Money> {
        u64::try_from(self.0.div_ceil(PARTS_PER_PICO)).ok().map(Money::from_picos)
    }

    /// Returns the exact number of dollars as plain decimal text.
    ///
    /// A rate per hour can give a ninth of something: then 27 decimals, the last repeated forever, which the text
    /// shows with `…`.
    #[must_use]
    pub fn to_decimal(self) -> String {
        let (digits, ninths) = (self.0 / 9, self.0 % 9);
        if ninths == 0 {
            return decimal::plain(digits, 27);
        }
        let scale = 10u128.pow(27);
        format!("{}.{:027}{ninths}…", digits / scale, digits % scale)
    }
}

impl fmt::Display for ExactUsd {
    /// `$0.004596`: exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("${}", self.to_decimal()))
    }
}

#[cfg(test)]
mod tests;
