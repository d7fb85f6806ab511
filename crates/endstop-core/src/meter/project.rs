//! Money and tokens judged before they are spent: settled amounts plus a worst case (docs/semantics.md, section 2).

use super::Meter;
use crate::event::EventKind;
use crate::policy::OnUnpriced;
use crate::policy::program::Program;
use crate::policy::projected::{Part, Projected};
use crate::units::{Cost, TokenUsage};

/// What may be spent, as a driver announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost: Option<Cost>,
}

impl Ahead {
    /// What the event announces, if it is of that kind.
    pub(crate) const fn of(kind: &EventKind<'_>) -> Option<Self> {
        match *kind {
            EventKind::Reserve { input_tokens, output_tokens, cost } => {
                Some(Self { input_tokens, output_tokens, cost })
            }
            _ => None,
        }
    }

    /// The money, where it is known under a policy.
    fn picos(&self, program: &Program) -> Option<u64> {
        match (self.cost, program.policy.unpriced()) {
            (Some(Cost::Known(cost)), _) => Some(cost.picos()),
            (_, OnUnpriced::Ignore) => Some(0),
            (_, OnUnpriced::Rates(rates)) => {
                let (input, output) = (self.input_tokens, self.output_tokens);
                let usage = TokenUsage { input, output, ..TokenUsage::default() };
                rates.cost(&usage).map(crate::units::Money::picos)
            }
            _ => None,
        }
    }
}

/// What is on top of the settled amounts while something is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Projection {
    /// In the order of [`Part::ALL`]; none where it is not known.
    amounts: [Option<u64>; 4],
    own: bool,
    finish: bool,
}

/// A number with what may be spent on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// What is compared with a limit: one less than it may become, because a limit admits exactly itself.
    pub(crate) compared: u64,
    /// What it may become.
    pub(crate) whole: u64,
}

impl Projection {
    /// What stop rules see. `own` says whether the run itself would spend it.
    pub(crate) fn new(program: &Program, ahead: &Ahead, own: bool) -> Self {
        let (input, output) = (ahead.input_tokens, ahead.output_tokens);
        let tokens = [Some(input.saturating_add(output)), Some(input), Some(output)];
        let [tokens, input, output] = tokens;
        Self { amounts: [ahead.picos(program), tokens, input, output], own, finish: false }
    }

    /// What stop and finish rules see, of the parts for which `is_wanted` holds.
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

    /// Where a settled number may get to; none where that is not known.
    pub(crate) fn reach(&self, part: Part, settled: u64) -> Option<Reach> {
        let amount = self.amounts.get(part as usize).copied().flatten()?;
        Some(Reach {
            compared: settled.saturating_add(amount.saturating_sub(1)),
            whole: settled.saturating_add(amount),
        })
    }
}

impl Meter {
    /// Begins or ends to judge by what may be spent.
    pub(crate) fn project(&mut self, projection: Option<Projection>) {
        self.is_behind |= self.projection != projection;
        self.projection = projection;
    }

    /// Where the number of a comparison may get to, if it sees what may be spent: none inside where that
    /// is not known.
    pub(crate) fn reach(&self, program: &Program, compare: usize) -> Option<Option<Reach>> {
        let projection = self.projection.as_ref()?;
        let place = program.projected.binary_search_by_key(&compare, |leaf| leaf.compare).ok()?;
        let leaf = program.projected.get(place).filter(|leaf| projection.is_seen_by(leaf))?;
        let gauge = self.compares.get(compare)?.gauge;
        let settled = self.view.get(gauge).copied().unwrap_or(0);
        Some(projection.reach(leaf.part, settled))
            .filter(|reach| reach.is_none_or(|reach| reach.whole > settled))
    }

    /// Keeps what is compared, to be taken back after a trial. A second call forgets the first.
    pub(crate) fn set_aside(&mut self) {
        self.spare_view.clone_from(&self.view);
        self.spare_readings.clone_from(&self.readings);
    }

    /// Takes back what was set aside. Bits are brought up to date by the next evaluation.
    pub(crate) fn take_back(&mut self) {
        self.view.clone_from(&self.spare_view);
        self.readings.clone_from(&self.spare_readings);
        self.is_behind = true;
    }
}
