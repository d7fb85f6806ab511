//! Why a reservation was refused, in numbers and in words.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::amounts::Dimension;

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
/// let text = "cost: $0.50 asked, $0.40 left of $1.00 ($0.60 settled, $0.00 held)";
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

impl fmt::Display for Refused {
    /// `cost: $0.60 asked, $0.40 left of $1.00 ($0.30 settled, $0.30 held)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |number| self.dimension.show(number);
        write!(f, "{}: {} asked, ", self.dimension, show(self.asked))?;
        if self.settled == u64::MAX {
            return f.write_str("nothing is admitted, because the spend is too large to count");
        }
        if self.limit == u64::MAX {
            return f.write_str("more than can be counted");
        }
        write!(f, "{} left of {} ", show(self.left()), show(self.limit))?;
        write!(f, "({} settled, {} held)", show(self.settled), show(self.held))
    }
}

impl std::error::Error for Refused {}
