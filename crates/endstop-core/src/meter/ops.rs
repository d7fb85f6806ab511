//! The state of operators over time.

use alloc::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::reading::Reading;
use crate::condition::Window;
use crate::program::{Names, Op, OpKind, Program, carried};
use crate::table::{GaugeIx, OpIx, Slot, Table};
use crate::units::Millis;

/// The state of one operator, by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OpMemory {
    /// Whether the operand has held.
    Latch(bool),
    /// Steps in a row.
    Streak(u64),
    /// Steps in all.
    Count(u64),
    /// The stamps of a window, oldest first.
    Ring(VecDeque<u64>),
    /// When the operand last held.
    Stamp(Option<u64>),
    /// The first step in which it held.
    First(Option<u64>),
}

/// The state of one operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpState {
    memory: OpMemory,
    /// The operator is new to a run that had already begun, or its operand was unknown in a step that
    /// was not counted: the number is a lower bound.
    unknown: bool,
}

/// Where a run is: what windows are measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Millis,
    pub(crate) begun: u64,
    pub(crate) closed: u64,
}

impl Moment {
    /// Whether a stamp has left the window: longer ago than the duration, or not among the last closed steps.
    const fn is_past(&self, stamp: u64, window: Window) -> bool {
        match window {
            Window::Time(duration) => self.at.0.saturating_sub(stamp) > duration.0,
            Window::Steps(steps) => self.closed.saturating_sub(stamp) >= steps,
        }
    }

    const fn stamp(&self, window: Window) -> u64 {
        match window {
            Window::Time(_) => self.at.0,
            Window::Steps(_) => self.closed,
        }
    }
}

impl OpState {
    fn new(op: &Op) -> Self {
        let memory = match op.kind {
            OpKind::Latch => OpMemory::Latch(false),
            OpKind::Streak => OpMemory::Streak(0),
            OpKind::Count => OpMemory::Count(0),
            OpKind::Ring { capacity, .. } => OpMemory::Ring(VecDeque::with_capacity(capacity)),
            OpKind::Stamp(_) => OpMemory::Stamp(None),
            OpKind::First => OpMemory::First(None),
        };
        Self { memory, unknown: false }
    }

    pub(crate) const fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// The number that `streak` and `count` compare; of other operators 0, which no condition compares.
    pub(crate) fn number(&self) -> u64 {
        match &self.memory {
            OpMemory::Streak(steps) | OpMemory::Count(steps) => *steps,
            OpMemory::Ring(stamps) => stamps.len() as u64,
            OpMemory::Latch(_) | OpMemory::Stamp(_) | OpMemory::First(_) => 0,
        }
    }

    /// Whether the operand has held.
    pub(crate) const fn has_held(&self) -> bool {
        matches!(self.memory, OpMemory::Latch(true))
    }

    /// Whether the operand last held in the window.
    pub(crate) const fn is_within(&self, window: Window, now: &Moment) -> bool {
        matches!(self.memory, OpMemory::Stamp(Some(stamp)) if !now.is_past(stamp, window))
    }

    /// Whether the operand first held in a step before this one.
    pub(crate) const fn held_before(&self, now: &Moment) -> bool {
        matches!(self.memory, OpMemory::First(Some(step)) if step < now.begun)
    }

    /// The stamps that leave a window one day.
    pub(crate) fn stamps(&self) -> impl Iterator<Item = u64> {
        let (single, many) = match &self.memory {
            OpMemory::Stamp(stamp) => (*stamp, None),
            OpMemory::Ring(stamps) => (None, Some(stamps)),
            _ => (None, None),
        };
        single.into_iter().chain(many.into_iter().flatten().copied())
    }

    fn advance(&mut self, op: &Op, held: bool, now: &Moment) {
        match (&mut self.memory, op.kind) {
            (OpMemory::Latch(has_held), _) => *has_held |= held,
            (OpMemory::Streak(steps), _) => {
                *steps = if held { steps.saturating_add(1) } else { 0 };
                // A streak that is broken, or began here, is known from here on.
                self.unknown &= held;
            }
            (OpMemory::Count(steps), _) => *steps = steps.saturating_add(u64::from(held)),
            (OpMemory::Ring(stamps), OpKind::Ring { window, capacity }) if held => {
                if stamps.len() >= capacity {
                    stamps.pop_front();
                }
                stamps.push_back(now.stamp(window));
            }
            (OpMemory::Stamp(stamp), OpKind::Stamp(window)) if held => {
                *stamp = Some(now.stamp(window));
            }
            (OpMemory::First(step), _) if held => {
                step.get_or_insert(now.begun);
            }
            (OpMemory::Ring(_) | OpMemory::Stamp(_) | OpMemory::First(_), _) => {}
        }
    }

    /// Lets go of the stamps that left the window.
    fn let_go(&mut self, op: &Op, now: &Moment) {
        if let (OpMemory::Ring(stamps), OpKind::Ring { window, .. }) = (&mut self.memory, op.kind) {
            while stamps.front().is_some_and(|stamp| now.is_past(*stamp, window)) {
                stamps.pop_front();
            }
        }
    }

    /// The state under an operator of the same name, whose limit may be another. `None` if it is of another kind.
    fn fit(mut self, op: &Op) -> Option<Self> {
        match (&mut self.memory, op.kind) {
            (OpMemory::Ring(stamps), OpKind::Ring { capacity, .. }) => {
                stamps.drain(..stamps.len().saturating_sub(capacity));
                stamps.reserve(capacity.saturating_sub(stamps.len()));
            }
            (OpMemory::Latch(_), OpKind::Latch)
            | (OpMemory::Streak(_), OpKind::Streak)
            | (OpMemory::Count(_), OpKind::Count)
            | (OpMemory::Stamp(_), OpKind::Stamp(_))
            | (OpMemory::First(_), OpKind::First) => {}
            _ => return None,
        }
        Some(self)
    }
}

/// The operators over time of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Operators(Table<OpIx, OpState>);

impl Operators {
    pub(crate) fn new(program: &Program) -> Self {
        Self(program.ops().rows().iter().map(OpState::new).collect())
    }

    #[inline]
    pub(crate) fn at(&self, op: OpIx) -> &OpState {
        self.0.at(op)
    }

    pub(crate) fn rows(&self) -> &[OpState] {
        self.0.rows()
    }

    /// The number of an operator, without the stamps that have left its window.
    pub(crate) fn recount(&mut self, program: &Program, op: OpIx, now: &Moment) -> u64 {
        let state = self.0.at_mut(op);
        state.let_go(program.ops().at(op), now);
        state.number()
    }

    /// The number that a ring of stamps in time would have later; `None` for other operators.
    pub(crate) fn counted_later(&self, program: &Program, op: OpIx, at: Millis) -> Option<u64> {
        let OpKind::Ring { window: Window::Time(duration), .. } = program.ops().at(op).kind else {
            return None;
        };
        let is_in = |stamp: &u64| at.0.saturating_sub(*stamp) <= duration.0;
        Some(self.at(op).stamps().filter(is_in).count() as u64)
    }

    /// Whether something in the operand is unknown. That an unpriced call counts as met is decided elsewhere.
    fn is_doubtful(&self, op: &Op, reading: impl Fn(GaugeIx) -> Reading) -> bool {
        let is_unknown = |gauge: &GaugeIx| {
            matches!(reading(*gauge), Reading::AtLeast | Reading::Unknown | Reading::Absent)
        };
        op.doubtful.iter().any(is_unknown)
            || self.0.slice(op.inner.clone()).iter().any(OpState::is_unknown)
    }

    /// Advances the operators of one level over the step that has just closed, by the bits and the readings that the
    /// frame has now.
    pub(crate) fn advance_level(
        &mut self,
        program: &Program,
        level: usize,
        now: &Moment,
        bit: impl Fn(Slot) -> bool,
        reading: impl Fn(GaugeIx) -> Reading,
    ) {
        for (index, op) in program.ops().iter().filter(|(_, op)| op.level == level) {
            let held = bit(op.operand) != op.inverted;
            let in_doubt = !held && !op.inverted && self.is_doubtful(op, &reading);
            let state = self.0.at_mut(index);
            state.advance(op, held, now);
            state.unknown |= in_doubt;
            state.let_go(op, now);
        }
    }

    /// Brings the operators of a saved run into the order of a program; one that is new to a run that has
    /// `begun` is a lower bound. `None` if they do not go with `from`.
    pub(crate) fn fit(self, from: &Names, program: &Program, begun: bool) -> Option<Self> {
        // Operators that differ only in their limit share a name: the longest ring has the stamps of all.
        let longer = |new: &OpState, known: &OpState| new.number() > known.number();
        let rows = carried(self.0, &from.operators, &program.names().operators, longer)?;
        let state = |(op, saved): (&Op, Option<OpState>)| match saved {
            Some(saved) => saved.fit(op),
            None => Some(OpState { unknown: begun, ..OpState::new(op) }),
        };
        program.ops().rows().iter().zip(rows).map(state).collect::<Option<_>>().map(Self)
    }
}
