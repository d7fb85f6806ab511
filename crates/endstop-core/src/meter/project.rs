//! What is judged before it is spent: settled amounts with a worst case on top (docs/semantics.md, section 2).

use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::policy::OnUnpriced;
use crate::program::{Part, Program, Projected};
use crate::units::{Cost, Money, TokenUsage};

/// The most that a model request, or a call of a tool with a cost, may spend, as a driver announces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WorstCase {
    input_tokens: u64,
    output_tokens: u64,
    /// `None` if unknown.
    cost_picos: Option<u64>,
}

impl WorstCase {
    /// The announced amounts, if the event is of that kind.
    pub(crate) const fn of(kind: &EventKind<'_>) -> Option<Self> {
        match *kind {
            EventKind::Reserve { input_tokens, output_tokens, cost } => {
                let cost_picos = match cost {
                    Some(Cost::Known(cost)) => Some(cost.picos()),
                    Some(Cost::Unpriced) | None => None,
                };
                Some(Self { input_tokens, output_tokens, cost_picos })
            }
            EventKind::ToolReserve { cost, held, .. } => {
                let cost_picos = Some(cost.saturating_add(held).picos());
                Some(Self { input_tokens: 0, output_tokens: 0, cost_picos })
            }
            _ => None,
        }
    }

    /// The money, if it is known under a policy.
    fn picos(&self, program: &Program) -> Option<u64> {
        match (self.cost_picos, program.unpriced()) {
            (Some(picos), _) => Some(picos),
            (None, OnUnpriced::Ignore) => Some(0),
            (None, OnUnpriced::Rates(rates)) => {
                let (input, output) = (self.input_tokens, self.output_tokens);
                let usage = TokenUsage { input, output, ..TokenUsage::default() };
                rates.cost(&usage).map(Money::picos)
            }
            (None, OnUnpriced::Stop) => None,
        }
    }
}

/// The amounts added to the settled ones while an act is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Projection {
    /// In the order of [`Part::ALL`]; `None` if unknown.
    amounts: [Option<u64>; 4],
    own: bool,
    finish: bool,
}

/// A number plus the possible spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The number to compare with a limit: one less than it may become, because a limit admits exactly itself.
    pub(crate) compared: u64,
    /// The number that it may become.
    pub(crate) whole: u64,
}

impl Projection {
    /// The projection for stop rules. `own` says whether the run itself would spend it.
    pub(crate) fn new(program: &Program, worst: &WorstCase, own: bool) -> Self {
        let (input, output) = (worst.input_tokens, worst.output_tokens);
        let tokens = [Some(input.saturating_add(output)), Some(input), Some(output)];
        let [tokens, input, output] = tokens;
        Self { amounts: [worst.picos(program), tokens, input, output], own, finish: false }
    }

    /// The projection for stop and finish rules, of the parts for which `is_wanted` holds.
    pub(crate) fn with_finish(self, mut is_wanted: impl FnMut(Part) -> bool) -> Self {
        let mut wanted = self;
        wanted.finish = true;
        for (part, amount) in Part::ALL.into_iter().zip(&mut wanted.amounts) {
            *amount = if is_wanted(part) { *amount } else { Some(0) };
        }
        wanted
    }

    /// Whether a comparison sees it.
    pub(crate) const fn is_seen_by(&self, leaf: &Projected) -> bool {
        (self.own || !leaf.own) && (self.finish || !leaf.finish)
    }

    /// The highest value of a settled number; `None` if that is unknown.
    #[expect(clippy::indexing_slicing, reason = "one row for each part")]
    pub(crate) fn reach(&self, part: Part, settled: u64) -> Option<Reach> {
        let amount = self.amounts[part as usize]?;
        Some(Reach {
            compared: settled.saturating_add(amount.saturating_sub(1)),
            whole: settled.saturating_add(amount),
        })
    }
}
