//! Leaves that see money and tokens before they are spent (docs/semantics.md, section 2).
//!
//! Only a lower bound of a stop or a finish rule does: what may be spent can bring those nearer and nothing
//! else. Every other leaf reads what is settled.
//!
//! Pause rules are among those: they read settled amounts only, because a person decides about money that was spent
//! and not about worst cases.

use alloc::vec::Vec;

use super::program::{Compare, GaugeSlot, Read};
use super::{Action, Policy};
use crate::meter::counters::Counter;

/// What may be spent, in parts: each moves one gauge.
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
    pub(crate) const fn of(counter: usize) -> Option<Self> {
        const COST: usize = Counter::Cost as usize;
        const TOKENS: usize = Counter::Tokens as usize;
        const INPUT: usize = Counter::InputTokens as usize;
        const OUTPUT: usize = Counter::OutputTokens as usize;
        match counter {
            COST => Some(Self::Cost),
            TOKENS => Some(Self::Tokens),
            INPUT => Some(Self::Input),
            OUTPUT => Some(Self::Output),
            _ => None,
        }
    }
}

/// A comparison that sees what may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Projected {
    pub(crate) compare: usize,
    pub(crate) part: Part,
    /// It reads the run's own share.
    pub(crate) own: bool,
    /// Its rule wraps up; else it stops.
    pub(crate) finish: bool,
}

/// The comparisons of a policy that do, in their order.
pub(super) fn projected(
    policy: &Policy,
    compares: &[Compare],
    gauges: &[GaugeSlot],
) -> Vec<Projected> {
    let of = |(index, compare): (usize, &Compare)| {
        let finish = match policy.rules.get(compare.rule)?.action {
            Action::Stop => false,
            Action::Finish => true,
            Action::Pause | Action::Retry | Action::Warn => return None,
        };
        let Read::Counter { index: counter, own } = gauges.get(compare.gauge)?.read else {
            return None;
        };
        let part = Part::of(counter)?;
        let sees = compare.range.is_lower_bound();
        sees.then_some(Projected { compare: index, part, own, finish })
    };
    compares.iter().enumerate().filter_map(of).collect()
}
