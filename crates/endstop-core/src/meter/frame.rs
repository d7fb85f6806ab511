//! The frame: the numbers as they are compared, and the bits that follow from them. No recursion, no
//! allocation.
//!
//! A count inside a step is brought up to date here only when one more of it would begin (docs/semantics.md,
//! section 2); the tallies themselves are always exact.

use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::ops::{Moment, Operators};
use super::project::{Projection, Reach};
use super::reading::Reading;
use super::{Meter, Truth};
use crate::program::{Class, Compare, Fold, Masks, Names, Program, carried};
use crate::table::{Bits, CompareIx, GaugeIx, Slot, Table};

/// The inputs for evaluating a frame: the run's limits and operators, and the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'m> {
    pub(crate) program: &'m Program,
    pub(crate) compares: &'m Table<CompareIx, Compare>,
    pub(crate) operators: &'m Operators,
    pub(crate) now: Moment,
}

/// Numbers, how they are known, and bits. A trial is made on a copy.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Frame {
    numbers: Table<GaugeIx, u64>,
    readings: Table<GaugeIx, Reading>,
    #[serde(skip)]
    truth: Bits,
    /// The amounts added to the settled ones while an act is judged.
    #[serde(skip)]
    projection: Option<Projection>,
    #[serde(skip)]
    behind: Behind,
}

/// The changes since the bits were last brought up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Behind {
    #[default]
    Nothing,
    /// Numbers of clocks.
    Clocks,
    /// Any number, reading or fact.
    Anything,
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        Self {
            numbers: self.numbers.clone(),
            readings: self.readings.clone(),
            truth: self.truth.clone(),
            projection: self.projection,
            behind: self.behind,
        }
    }

    /// Allocates nothing for a frame of the same program.
    fn clone_from(&mut self, other: &Self) {
        self.numbers.clone_from(&other.numbers);
        self.readings.clone_from(&other.readings);
        self.truth.clone_from(&other.truth);
        self.projection = other.projection;
        self.behind = other.behind;
    }
}

impl Frame {
    pub(crate) fn new(program: &Program) -> Self {
        Self {
            numbers: program.gauges().rows().iter().map(|_| 0).collect(),
            readings: program.gauges().rows().iter().map(|_| Reading::Known).collect(),
            truth: program.bits(),
            projection: None,
            behind: Behind::Anything,
        }
    }

    /// The same with the gauges of some classes as they are now, whenever they were compared last.
    pub(crate) fn as_now(
        &self,
        meter: &Meter,
        program: &Program,
        concerned: impl Fn(Class) -> bool,
    ) -> Self {
        let mut frame = self.clone();
        for (gauge, slot) in program.gauges().iter().filter(|(_, slot)| concerned(slot.class)) {
            let reading = meter.reading(program, slot.class, slot.read);
            frame.set(gauge, meter.read(slot.read), reading);
        }
        frame.evaluate(&meter.inputs(program));
        frame
    }

    /// Takes over what was saved of the gauges that are not compared at every event: they keep the value that was
    /// compared last.
    pub(crate) fn restore(&mut self, program: &Program, saved: Vec<Option<(u64, Reading)>>) {
        for ((gauge, slot), saved) in program.gauges().iter().zip(saved) {
            let Some((number, reading)) = saved else { continue };
            match slot.class {
                Class::NextCost => self.set(gauge, number, reading),
                // The present policy says what a missing price means.
                Class::Settled if reading != Reading::Unpriced => self.set(gauge, number, reading),
                class if class.is_count() || class == Class::Settled => {
                    self.set_number(gauge, number);
                }
                _ => {}
            }
        }
    }

    #[inline]
    pub(crate) fn number(&self, gauge: GaugeIx) -> u64 {
        *self.numbers.at(gauge)
    }

    #[inline]
    pub(crate) fn reading(&self, gauge: GaugeIx) -> Reading {
        *self.readings.at(gauge)
    }

    /// Every number with how it is known.
    pub(crate) fn gauges(&self) -> impl Iterator<Item = (GaugeIx, u64, Reading)> {
        let pairs = self.numbers.iter().zip(self.readings.rows());
        pairs.map(|((gauge, number), reading)| (gauge, *number, *reading))
    }

    /// Leaves only what is saved.
    pub(crate) fn drop_derived(&mut self) {
        (self.truth, self.projection, self.behind) = (Bits::default(), None, Behind::Nothing);
    }

    /// The numbers of a saved frame for the gauges of `to`; `None` inside if the saved one had no such gauge.
    /// `None` in all if they do not go with `from`.
    pub(crate) fn carried(self, from: &Names, to: &Names) -> Option<Vec<Option<(u64, Reading)>>> {
        let numbers = carried(self.numbers, &from.gauges, &to.gauges, |_, _| false)?;
        let readings = carried(self.readings, &from.gauges, &to.gauges, |_, _| false)?;
        Some(
            numbers
                .into_iter()
                .zip(readings)
                .map(|(number, reading)| number.zip(reading))
                .collect(),
        )
    }

    #[inline]
    pub(crate) fn set(&mut self, gauge: GaugeIx, number: u64, reading: Reading) {
        let (known, known_reading) = (self.numbers.at_mut(gauge), self.readings.at_mut(gauge));
        if *known != number || *known_reading != reading {
            self.behind = Behind::Anything;
        }
        *known = number;
        *known_reading = reading;
    }

    #[inline]
    pub(crate) fn set_number(&mut self, gauge: GaugeIx, number: u64) {
        let known = self.numbers.at_mut(gauge);
        if *known != number {
            self.behind = Behind::Anything;
        }
        *known = number;
    }

    /// Like [`Frame::set_number`], for a gauge of [`Class::Time`].
    #[inline]
    pub(crate) fn set_clock(&mut self, gauge: GaugeIx, number: u64) {
        let known = self.numbers.at_mut(gauge);
        if *known != number {
            self.behind = self.behind.max(Behind::Clocks);
        }
        *known = number;
    }

    /// Begins or ends to judge by what may be spent.
    pub(crate) fn project(&mut self, projection: Option<Projection>) {
        if self.projection != projection {
            self.behind = Behind::Anything;
        }
        self.projection = projection;
    }

    pub(crate) const fn is_projected(&self) -> bool {
        self.projection.is_some()
    }

    /// The limits, or something else outside the frame, have changed.
    pub(crate) const fn fall_behind(&mut self) {
        self.behind = Behind::Anything;
    }

    /// Sets the bits of every fact.
    pub(crate) fn write_facts(&mut self, program: &Program, facts: &Facts) {
        for (fact, truth) in facts.truths() {
            self.behind = Behind::Anything;
            self.truth.set(program.slot_of_fact(fact, true), truth == Truth::True);
            self.truth.set(program.slot_of_fact(fact, false), truth == Truth::False);
        }
    }

    #[inline]
    pub(crate) fn bit(&self, slot: Slot) -> bool {
        self.truth.get(slot)
    }

    #[inline]
    pub(crate) fn any(&self, masks: &Masks) -> bool {
        masks.any(&self.truth)
    }

    /// Brings every bit up to date. Returns whether any can have changed. Operators over time may change without any
    /// change in their operands.
    #[inline]
    pub(crate) fn evaluate(&mut self, inputs: &Inputs<'_>) -> bool {
        let leaves_changed = match core::mem::take(&mut self.behind) {
            Behind::Nothing => false,
            Behind::Clocks => self.compare_clocks(inputs),
            Behind::Anything => {
                self.compare_all(inputs);
                self.project_all(inputs);
                true
            }
        };
        let changed = leaves_changed || !inputs.program.ops().is_empty();
        if changed {
            self.fold_all(inputs, 0..inputs.program.folds().len());
        }
        changed
    }

    /// Brings the groups of one rule up to date, whose leaves are.
    #[inline]
    pub(crate) fn fold_all(&mut self, inputs: &Inputs<'_>, places: Range<usize>) {
        let program = inputs.program;
        let folds = program.folds().iter().enumerate().take(places.end).skip(places.start);
        for (place, fold) in folds {
            let value = self.fold(inputs, fold);
            self.truth.set(program.slot_of_fold(place), value);
        }
    }

    /// Brings one comparison up to date; whether that changed it.
    pub(crate) fn evaluate_compare(&mut self, inputs: &Inputs<'_>, index: CompareIx) -> bool {
        let compare = inputs.compares.at(index);
        let met = match self.reach(inputs.program, inputs.compares, index) {
            None => self.is_met(compare, self.number(compare.gauge)),
            Some(reach) => reach.is_none_or(|reach| self.is_met(compare, reach.compared)),
        };
        let slot = Program::slot_of_compare(index);
        let changed = self.truth.get(slot) != met;
        self.truth.set(slot, met);
        changed
    }

    /// Where the number of a comparison may get to, if it sees what may be spent: `None` inside if that
    /// is not known.
    pub(crate) fn reach(
        &self,
        program: &Program,
        compares: &Table<CompareIx, Compare>,
        compare: CompareIx,
    ) -> Option<Option<Reach>> {
        let projection = self.projection.as_ref()?;
        let leaf = program.projected_of(compare).filter(|leaf| projection.is_seen_by(leaf))?;
        let settled = self.number(compares.at(compare).gauge);
        Some(projection.reach(leaf.part, settled))
            .filter(|reach| reach.is_none_or(|reach| reach.whole > settled))
    }

    /// Brings the comparisons of clocks up to date; whether that changed any.
    #[inline]
    fn compare_clocks(&mut self, inputs: &Inputs<'_>) -> bool {
        let mut changed = false;
        for clock in inputs.program.clocks() {
            changed |= self.evaluate_compare(inputs, *clock);
        }
        changed
    }

    #[inline]
    fn compare_all(&mut self, inputs: &Inputs<'_>) {
        let words = self.truth.words_mut().iter_mut();
        for (chunk, word) in inputs.compares.rows().chunks(64).zip(words) {
            let mut bits = 0u64;
            for (place, compare) in chunk.iter().enumerate() {
                let number = *self.numbers.at(compare.gauge);
                bits |= u64::from(compare.range.is_met(number)) << place;
            }
            // The last word is shared with the facts, whose bits stay.
            let mask = if chunk.len() == 64 { u64::MAX } else { (1 << chunk.len()) - 1 };
            *word = (*word & !mask) | bits;
        }
        for &index in inputs.program.irregular() {
            let compare = inputs.compares.at(index);
            if self.reading(compare.gauge) != Reading::Known {
                let met = self.is_met(compare, self.number(compare.gauge));
                self.truth.set(Program::slot_of_compare(index), met);
            }
        }
    }

    /// Leaves that see the possible spend; if that is unknown, they are met.
    fn project_all(&mut self, inputs: &Inputs<'_>) {
        let Some(projection) = self.projection else { return };
        let leaves = inputs.program.projected().iter();
        for leaf in leaves.filter(|leaf| projection.is_seen_by(leaf)) {
            let compare = inputs.compares.at(leaf.compare);
            let reach = projection.reach(leaf.part, self.number(compare.gauge));
            let met = reach.is_none_or(|reach| self.is_met(compare, reach.compared));
            self.truth.set(Program::slot_of_compare(leaf.compare), met);
        }
    }

    fn is_met(&self, compare: &Compare, number: u64) -> bool {
        match self.reading(compare.gauge) {
            Reading::Known => compare.range.is_met(number),
            // An unknown leaf never helps its rule to trip, except when a price is missing.
            Reading::Unpriced => compare.range.is_met_from(number) != Some(false),
            Reading::AtLeast => compare.range.is_met_from(number) == Some(true),
            Reading::Absent | Reading::Unknown => false,
        }
    }

    #[inline]
    fn fold(&self, inputs: &Inputs<'_>, fold: &Fold) -> bool {
        let (operators, now) = (inputs.operators, &inputs.now);
        match fold {
            Fold::Any(masks) => masks.any(&self.truth),
            Fold::All(masks) => masks.all(&self.truth),
            Fold::Ever { op, operand } => operators.at(*op).has_held() || self.bit(*operand),
            Fold::Always { op, operand } => {
                let state = operators.at(*op);
                !state.has_held() && !state.is_unknown() && self.bit(*operand)
            }
            Fold::Within { op, operand, window } => {
                self.bit(*operand) || operators.at(*op).is_within(*window, now)
            }
            Fold::NotWithin { op, operand, window } => {
                let state = operators.at(*op);
                self.bit(*operand) && !state.is_unknown() && !state.is_within(*window, now)
            }
            Fold::Then { op, next } => operators.at(*op).held_before(now) && self.bit(*next),
            Fold::NotThen { op, next } => {
                let state = operators.at(*op);
                self.bit(*next) || (!state.is_unknown() && !state.held_before(now))
            }
        }
    }
}
