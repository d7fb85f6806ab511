//! Evaluation: numbers to bits, bits to groups. No recursion, no allocation.

use core::ops::Range;

use super::ops::OpState;
use super::project::Projection;
use super::{Meter, Reading, bit, set_bit};
use crate::policy::program::{Compare, Fold, Program};
use crate::units::Millis;

/// What evaluation reads. A trial at another point of the run has numbers and clocks of its own.
pub(crate) struct Inputs<'m> {
    pub(crate) view: &'m [u64],
    pub(crate) readings: &'m [Reading],
    pub(crate) compares: &'m [Compare],
    pub(crate) projection: Option<&'m Projection>,
    pub(crate) ops: &'m [OpState],
    pub(crate) at: Millis,
    pub(crate) begun: u64,
    pub(crate) closed: u64,
}

impl Meter {
    /// Brings every bit up to date. Operators over time may change without anything that they look at.
    #[inline]
    pub(crate) fn evaluate(&mut self, program: &Program) {
        self.sync_clocks(program);
        if !self.is_behind && program.ops.is_empty() {
            return;
        }
        self.is_behind = false;
        let (inputs, truth) = self.inputs();
        inputs.evaluate(program, truth);
    }

    /// Brings the groups of one rule up to date, whose leaves are.
    pub(crate) fn evaluate_rule(&mut self, program: &Program, folds: Range<usize>) {
        let (inputs, truth) = self.inputs();
        inputs.fold_all(program, folds, truth);
    }

    /// Brings one comparison up to date; whether that changed it.
    pub(crate) fn evaluate_compare(&mut self, program: &Program, index: usize) -> bool {
        let reach = self.reach(program, index);
        let (inputs, truth) = self.inputs();
        let Some(compare) = inputs.compares.get(index) else { return false };
        let holds = match reach {
            None => inputs.compare(compare),
            Some(reach) => reach.is_none_or(|reach| inputs.compare_at(compare, reach.compared)),
        };
        let changed = bit(truth, index) != holds;
        set_bit(truth, index, holds);
        changed
    }

    fn inputs(&mut self) -> (Inputs<'_>, &mut [u64]) {
        let inputs = Inputs {
            view: &self.view,
            readings: &self.readings,
            compares: &self.compares,
            projection: self.projection.as_ref(),
            ops: &self.ops,
            at: self.clocks.at,
            begun: self.step.begun,
            closed: self.step.closed,
        };
        (inputs, &mut self.truth)
    }
}

impl Inputs<'_> {
    /// Writes the bits of comparisons and groups; those of facts stay as they are.
    #[inline]
    pub(crate) fn evaluate(&self, program: &Program, truth: &mut [u64]) {
        self.compare_all(program, truth);
        if let Some(projection) = self.projection {
            self.project_all(program, projection, truth);
        }
        self.fold_all(program, 0..program.folds.len(), truth);
    }

    #[inline]
    fn fold_all(&self, program: &Program, which: Range<usize>, truth: &mut [u64]) {
        let first = program.first_fold() + which.start;
        for (offset, fold) in program.folds.get(which).unwrap_or(&[]).iter().enumerate() {
            let value = self.fold(fold, truth);
            set_bit(truth, first + offset, value);
        }
    }

    #[inline]
    fn compare_all(&self, program: &Program, truth: &mut [u64]) {
        for (chunk, slot) in self.compares.chunks(64).zip(truth.iter_mut()) {
            let mut bits = 0u64;
            for (place, compare) in chunk.iter().enumerate() {
                let value = self.view.get(compare.gauge).copied().unwrap_or(0);
                bits |= u64::from(compare.range.holds(value)) << place;
            }
            // The last word is shared with the facts, whose bits stay.
            let mask = if chunk.len() == 64 { u64::MAX } else { (1 << chunk.len()) - 1 };
            *slot = (*slot & !mask) | bits;
        }
        for &index in &program.irregular {
            let Some(compare) = self.compares.get(index) else { continue };
            if self.readings.get(compare.gauge).is_some_and(|reading| *reading != Reading::Known) {
                set_bit(truth, index, self.compare(compare));
            }
        }
    }

    /// Leaves that see what may be spent; where that is not known, they hold.
    fn project_all(&self, program: &Program, projection: &Projection, truth: &mut [u64]) {
        for leaf in program.projected.iter().filter(|leaf| projection.is_seen_by(leaf)) {
            let Some(compare) = self.compares.get(leaf.compare) else { continue };
            let settled = self.view.get(compare.gauge).copied().unwrap_or(0);
            let reach = projection.reach(leaf.part, settled);
            let holds = reach.is_none_or(|reach| self.compare_at(compare, reach.compared));
            set_bit(truth, leaf.compare, holds);
        }
    }

    fn compare(&self, compare: &Compare) -> bool {
        self.compare_at(compare, self.view.get(compare.gauge).copied().unwrap_or(0))
    }

    fn compare_at(&self, compare: &Compare, known: u64) -> bool {
        match self.readings.get(compare.gauge).copied().unwrap_or(Reading::Known) {
            Reading::Known => compare.range.holds(known),
            // An unknown leaf never helps its rule to trip, but for a missing price.
            Reading::Unpriced => compare.range.holds_from(known) != Some(false),
            Reading::AtLeast => compare.range.holds_from(known) == Some(true),
            Reading::Absent | Reading::Unknown => false,
        }
    }

    #[inline]
    fn fold(&self, fold: &Fold, truth: &[u64]) -> bool {
        let state = |op: usize| self.ops.get(op);
        let holds = |slot: usize| bit(truth, slot);
        let (at, closed) = (self.at, self.closed);
        match fold {
            Fold::Any(masks) => masks.any(truth),
            Fold::All(masks) => masks.all(truth),
            Fold::Ever { op, operand } => state(*op).is_some_and(|s| s.set) || holds(*operand),
            Fold::Always { op, operand } => {
                state(*op).is_some_and(|s| !s.set && !s.unknown) && holds(*operand)
            }
            Fold::Within { op, operand, window } => {
                holds(*operand) || state(*op).is_some_and(|s| s.is_within(*window, at, closed))
            }
            Fold::NotWithin { op, operand, window } => {
                holds(*operand)
                    && state(*op).is_some_and(|s| !s.unknown && !s.is_within(*window, at, closed))
            }
            Fold::Then { op, next } => {
                state(*op).is_some_and(|s| s.held_before(self.begun)) && holds(*next)
            }
            Fold::NotThen { op, next } => {
                holds(*next) || state(*op).is_some_and(|s| !s.unknown && !s.held_before(self.begun))
            }
        }
    }
}
