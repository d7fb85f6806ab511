//! Calls whose cost is not exactly known.

use endstop_core::event::EventKind;
use endstop_core::units::Cost;

/// Calls of a run whose cost is not exactly known, descendants' included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostUncertainty {
    /// Without a price.
    pub unpriced: u64,
    /// Whose tokens no provider told.
    pub estimated: u64,
}

impl CostUncertainty {
    /// Takes in an event; `is_estimate` as [`Detail::is_estimate`] says.
    pub(crate) fn take(&mut self, kind: &EventKind<'_>, is_estimate: bool) {
        let is_unpriced = match kind {
            EventKind::Reply { cost, .. } => !matches!(cost, Some(Cost::Known(_))),
            EventKind::AttemptFailed { cost, .. } => *cost == Some(Cost::Unpriced),
            _ => return,
        };
        self.unpriced = self.unpriced.saturating_add(u64::from(is_unpriced));
        self.estimated = self.estimated.saturating_add(u64::from(is_estimate));
    }
}
