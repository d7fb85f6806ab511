//! Why a reservation was refused, in numbers and in words.

use std::fmt;

use endstop_core::human;
use endstop_core::units::{Money, PICOS_PER_CENT};
use serde::{Deserialize, Serialize};

use super::amounts::Dimension;

/// A requested amount shows at least two digits that count.
const TOLD_UNITS: u64 = 10;

/// A reservation that was refused. Amounts of money are in pico-dollars.
///
/// ```
/// use endstop_core::units::Money;
/// use endstop_runtime::ledger::{Amounts, Budget, Limits};
///
/// let cents = |n: u64| Money::from_picos(n * 10_000_000_000);
/// let budget = Budget::root(Limits { cost: Some(cents(100)), ..Limits::unlimited() });
/// budget.charge(Amounts { cost: cents(60), ..Amounts::ZERO });
/// let refused = budget.reserve(Amounts { cost: cents(50), ..Amounts::ZERO }).unwrap_err();
/// let text = "this budget has used $0.60 of $1.00, and this call could cost $0.50";
/// assert_eq!(refused.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The node that refused: the outermost, where several would have.
    pub budget: u32,
    /// The first dimension that had too little room there.
    pub dimension: Dimension,
    /// The limit of that node, `u64::MAX` if it has none.
    pub limit: u64,
    /// The amount settled there; `u64::MAX` if amounts overflowed.
    pub settled: u64,
    /// The amount held there.
    pub held: u64,
    /// The amount requested.
    pub asked: u64,
}

impl Refused {
    /// Returns the remaining amount: 0 if committed amounts were at or above the limit.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.settled).saturating_sub(self.held)
    }
}

impl Refused {
    /// Returns the refusal as a sentence, with what the limit belongs to and its verb: `all runs have`.
    pub(crate) fn text_of(&self, owner: &str) -> String {
        if self.settled == u64::MAX {
            return format!("{owner} a spend that is too large to count");
        }
        if self.limit == u64::MAX {
            return format!("{owner} no limit, and the call needs more than can be counted");
        }
        let limit = match self.dimension {
            Dimension::Cost => exact(self.limit),
            Dimension::Tokens => human::tokens(self.limit),
            dimension => format!("{} {dimension}", human::count(self.limit)),
        };
        self.text_with_limit(owner, &limit)
    }

    /// Like [`Refused::text_of`], with the limit in words: `$5.00 per day`.
    pub(crate) fn text_with_limit(&self, owner: &str, limit: &str) -> String {
        let (used, asked) = self.used_and_asked();
        let held = match self.held {
            0 => String::new(),
            held => format!(" ({} of it held)", self.dimension.show(held)),
        };
        let could = match self.dimension {
            Dimension::Cost => format!(", and this call could cost {asked}"),
            Dimension::Tokens => format!(", and this call could use {asked}"),
            _ => String::new(),
        };
        format!("{owner} used {used} of {limit}{held}{could}")
    }

    /// The committed and the requested amount for people. Money has as many digits as it takes to see that it does not fit.
    fn used_and_asked(&self) -> (String, String) {
        let used = self.settled.saturating_add(self.held);
        if self.dimension != Dimension::Cost {
            return (human::count(used), human::count(self.asked));
        }
        let mut unit = PICOS_PER_CENT;
        loop {
            let used_units = used.saturating_add(unit / 2).div_euclid(unit);
            let (shown, asked) = (used_units.saturating_mul(unit), self.asked.div_ceil(unit));
            let is_told = asked >= TOLD_UNITS;
            let asked = asked.saturating_mul(unit);
            let is_below = shown < self.limit || used >= self.limit;
            if unit == 1 || is_told && is_below && shown.saturating_add(asked) > self.limit {
                return (exact(shown), exact(asked));
            }
            unit /= 10;
        }
    }
}

fn exact(picos: u64) -> String {
    human::money_exact(Money::from_picos(picos))
}

impl fmt::Display for Refused {
    /// `this budget has used $0.60 of $1.00 ($0.30 of it held), and this call could cost $0.60`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text_of("this budget has"))
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests;
