//! Calls whose cost is not exactly known.

use endstop_core::event::EventKind;
use endstop_core::units::{Cost, Money};

/// Calls of a run whose cost is not exactly known, descendants' included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostUncertainty {
    /// Without a price.
    pub unpriced: u64,
    /// Whose tokens no provider told.
    pub estimated: u64,
    /// Calls of models and tools with an amount that was not confirmed. Those of models are among the estimated.
    pub unconfirmed_calls: u64,
    /// The sum of these amounts.
    pub unconfirmed: Money,
}

impl CostUncertainty {
    /// The sum of both.
    #[must_use]
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            unpriced: self.unpriced.saturating_add(other.unpriced),
            estimated: self.estimated.saturating_add(other.estimated),
            unconfirmed_calls: self.unconfirmed_calls.saturating_add(other.unconfirmed_calls),
            unconfirmed: self.unconfirmed.saturating_add(other.unconfirmed),
        }
    }

    /// Records an event; `is_estimate` and `unconfirmed` are those of its [`Detail`](super::Detail).
    pub(crate) fn take(&mut self, kind: &EventKind<'_>, is_estimate: bool, unconfirmed: Money) {
        let is_unpriced = match kind {
            EventKind::Reply { cost, .. } => !matches!(cost, Some(Cost::Known(_))),
            EventKind::AttemptFailed { cost, .. } => *cost == Some(Cost::Unpriced),
            EventKind::ToolCost { .. } => false,
            _ => return,
        };
        self.unpriced = self.unpriced.saturating_add(u64::from(is_unpriced));
        self.estimated = self.estimated.saturating_add(u64::from(is_estimate));
        let is_unconfirmed = u64::from(unconfirmed > Money::ZERO);
        self.unconfirmed_calls = self.unconfirmed_calls.saturating_add(is_unconfirmed);
        self.unconfirmed = self.unconfirmed.saturating_add(unconfirmed);
    }
}
