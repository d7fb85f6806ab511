//! Leaves that see money and tokens before they are spent (docs/semantics.md, section 2).
//!
//! Only a lower bound of a stop or a finish rule does: possible spend can bring those closer and nothing else. Every
//! other leaf reads settled amounts.
//!
//! Pause rules are among those: they read settled amounts only, because a person decides about money that was spent
//! and not about worst cases.

use alloc::vec::Vec;

use super::rows::{Compare, GaugeSlot, Read};
use crate::counter::Counter;
use crate::policy::{Action, Policy};
use crate::table::{CompareIx, GaugeIx, Index as _, Table};

/// The possible spend, in parts: each moves one gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Cost,
    Tokens,
    Input,
    Output,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Cost, Self::Tokens, Self::Input, Self::Output];

    /// The part that moves a counter.
    pub(crate) const fn of(counter: Counter) -> Option<Self> {
        match counter {
            Counter::Cost => Some(Self::Cost),
            Counter::Tokens => Some(Self::Tokens),
            Counter::InputTokens => Some(Self::Input),
            Counter::OutputTokens => Some(Self::Output),
            _ => None,
        }
    }
}

/// A comparison that sees what may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Projected {
    pub(crate) compare: CompareIx,
    pub(crate) part: Part,
    /// It reads the run's own share.
    pub(crate) own: bool,
    /// Its rule wraps up; otherwise it stops.
    pub(crate) finish: bool,
}

/// The comparisons of a policy that do, in their order.
#[expect(clippy::indexing_slicing, reason = "each comparison belongs to a rule of the policy")]
pub(super) fn projected(
    policy: &Policy,
    compares: &Table<CompareIx, Compare>,
    gauges: &Table<GaugeIx, GaugeSlot>,
) -> Vec<Projected> {
    let of = |(index, compare): (CompareIx, &Compare)| {
        let finish = match policy.rules[compare.rule.place()].action {
            Action::Stop => false,
            Action::Finish => true,
            Action::Pause | Action::Retry | Action::Warn => return None,
        };
        let Read::Counter { counter, own } = gauges.at(compare.gauge).read else { return None };
        let part = Part::of(counter)?;
        let sees = compare.range.is_lower_bound();
        sees.then_some(Projected { compare: index, part, own, finish })
    };
    compares.iter().filter_map(of).collect()
}
