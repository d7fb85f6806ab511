//! The expression language: `steps >= 25 or cost >= $2.00`.
//!
//! Tightest first: comparison; `within`; `not`; `then` (left-associative); `and` or `or`, which never mix
//! without parentheses. `|`, `&`, `!` and their doubled forms read as `or`, `and`, `not`.

mod lex;
mod parse;
mod print;

pub use crate::diagnostic::{Diagnostic, did_you_mean};
pub use parse::parse;

use alloc::string::String;
use core::fmt::{self, Display, Formatter};
use core::ops::Range;

use crate::condition::gauge::Unit;
use crate::condition::literal::{self, quoted, wall_text};
use crate::units::{Millis, Money, WallTime};

/// A number in a gauge's unit, printed as the language reads it.
///
/// ```
/// use endstop_core::condition::gauge::Unit;
/// use endstop_core::expr::{Amount, parse_amount};
///
/// let amount = Amount { unit: Unit::Tokens, value: 50_000 };
/// assert_eq!(amount.to_string(), "50k");
/// assert_eq!(parse_amount("50k", Unit::Tokens)?, amount.value);
/// # Ok::<(), endstop_core::expr::Diagnostic>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The unit.
    pub unit: Unit,
    /// The number in that unit.
    pub value: u64,
}

/// Hundredths of a percent, without needless zeros.
struct Percent(u64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}%"),
            _ if rest.is_multiple_of(10) => write!(f, "{whole}.{}%", rest / 10),
            _ => write!(f, "{whole}.{rest:02}%"),
        }
    }
}

impl Display for Amount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Money => write!(f, "{}", Money::from_picos(self.value)),
            Unit::Duration => write!(f, "{}", Millis(self.value)),
            Unit::WallTime => f.write_str(&quoted(&wall_text(WallTime(self.value)))),
            Unit::Percent => write!(f, "{}", Percent(self.value)),
            Unit::Tokens if self.value >= 1_000_000 && self.value.is_multiple_of(100_000) => {
                match (self.value / 1_000_000, self.value / 100_000 % 10) {
                    (millions, 0) => write!(f, "{millions}M"),
                    (millions, tenth) => write!(f, "{millions}.{tenth}M"),
                }
            }
            Unit::Tokens if self.value > 0 && self.value.is_multiple_of(1_000) => {
                write!(f, "{}k", self.value / 1_000)
            }
            Unit::Tokens | Unit::Count => write!(f, "{}", self.value),
        }
    }
}

/// Reads one amount in `unit`, such as a grant in a policy file, for the thing called `name`.
///
/// # Errors
/// Returns a [`Diagnostic`] at `span` if the text is no amount of that unit.
pub(crate) fn amount(
    text: &str,
    unit: Unit,
    name: &str,
    span: Range<usize>,
) -> Result<u64, Diagnostic> {
    let at_span = |error: Diagnostic| Diagnostic { span: span.clone(), ..error };
    let (literal, length) = literal::amount(text, 0).map_err(at_span)?;
    if length != text.len() {
        return Err(Diagnostic::new(alloc::format!("`{text}` is not an amount"), span.clone()));
    }
    literal.amount(unit, name, span.clone()).map_err(at_span)
}

/// Returns a value that the new limit of an approval may have: `$3.00`, `40`, `10m`.
///
/// # Errors
/// Returns the error that the expression language has for an amount of that unit.
pub fn parse_amount(text: &str, unit: Unit) -> Result<u64, Diagnostic> {
    amount(text, unit, "limit", 0..text.len())
}

/// Returns the text of a condition's amount in `unit`.
#[must_use]
pub fn amount_text(value: u64, unit: Unit) -> String {
    alloc::format!("{}", Amount { unit, value })
}
