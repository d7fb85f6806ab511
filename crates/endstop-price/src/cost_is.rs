//! Where the cost of a run comes from.

/// The kind of a run's cost.
///
/// ```
/// use endstop_price::CostIs;
///
/// assert_eq!(CostIs::LowerBound.value(), "lower_bound");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostIs {
    /// The sum of what the provider says it billed.
    Billed,
    /// Some or all of it through the price table.
    Computed,
    /// At least this: the transcript reports fewer tokens than were used.
    LowerBound,
    /// Some call has no price, or the format does not record money.
    Unknown,
}

impl CostIs {
    /// Returns the one whose [`value`](Self::value) a file declares; `None` if it declares none. A value that is not
    /// known here says nothing about the cost, so it is [`CostIs::Unknown`].
    #[must_use]
    pub fn declared(value: Option<&str>) -> Option<Self> {
        let all = [Self::Billed, Self::Computed, Self::LowerBound];
        let of = |value| all.into_iter().find(|cost_is| cost_is.value() == value);
        value.map(|value| of(value).unwrap_or(Self::Unknown))
    }

    /// Returns the stable name: `billed`, `computed`, `lower_bound`, `unknown`.
    #[must_use]
    pub const fn value(self) -> &'static str {
        match self {
            Self::Billed => "billed",
            Self::Computed => "computed",
            Self::LowerBound => "lower_bound",
            Self::Unknown => "unknown",
        }
    }
}
