//! How sure a share is that was counted on a few runs.

use serde::Serialize;

/// The normal quantile of a two-sided interval that holds 95 times in 100.
const Z: f64 = 1.959_963_984_540_054;

/// A share of counted things, with its Wilson score interval at 95% (E. B. Wilson, 1927): unlike the textbook
/// interval it stays honest if nothing or everything was counted, and if little was.
///
/// ```
/// use endstop_replay::Interval;
///
/// let none_of_ten = Interval::of(0, 10).unwrap();
/// assert_eq!(none_of_ten.low, 0.0);
/// assert!(none_of_ten.high > 0.2, "ten runs do not show that it never happens");
/// assert_eq!(Interval::of(0, 0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The number of successes.
    pub count: u64,
    /// The number of trials; never 0.
    pub of: u64,
    /// The lower end, from 0 to 1.
    pub low: f64,
    /// The upper end, from 0 to 1.
    pub high: f64,
}

impl Interval {
    /// Returns the interval of `count` in `of`; `None` if `of` is 0.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
    pub fn of(count: u64, of: u64) -> Option<Self> {
        if of == 0 {
            return None;
        }
        let (k, n) = (count.min(of) as f64, of as f64);
        let share = k / n;
        let square = Z * Z;
        let middle = (share + square / (2.0 * n)) / (1.0 + square / n);
        let spread =
            Z / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
        // At the ends the formula is exact, its rounding is not.
        let low = if count == 0 { 0.0 } else { (middle - spread).max(0.0) };
        let high = if count >= of { 1.0 } else { (middle + spread).min(1.0) };
        Some(Self { count, of, low, high })
    }

    /// Returns the share itself, from 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
    pub fn share(&self) -> f64 {
        self.count as f64 / self.of as f64
    }
}

#[cfg(test)]
mod tests;
