//! The state of operators over time, and how it advances at a step's end.

use alloc::collections::VecDeque;

use super::{Meter, Reading, bit};
use crate::condition::Window;
use crate::policy::program::{Class, Op, OpKind, Program};
use crate::units::Millis;

/// What one operator keeps. Which part is used depends on its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpState {
    /// Latched, or stamped at least once.
    pub(crate) set: bool,
    /// The streak, the count, the stamp or the first step.
    pub(crate) value: u64,
    /// The stamps of a window, oldest first.
    pub(crate) ring: VecDeque<u64>,
    /// Whether the ring is used.
    pub(crate) windowed: bool,
    /// The operator is new to a run that had already begun, or its operand was unknown in a step that
    /// was not counted: the number is a lower bound.
    pub(crate) unknown: bool,
}

impl OpState {
    pub(crate) fn new(op: &Op) -> Self {
        let ring = match op.kind {
            OpKind::Ring { capacity, .. } => VecDeque::with_capacity(capacity),
            _ => VecDeque::new(),
        };
        Self { ring, windowed: matches!(op.kind, OpKind::Ring { .. }), ..Self::default() }
    }

    /// The number that `streak` and `count` compare.
    pub(crate) fn number(&self) -> u64 {
        if self.windowed {
            return u64::try_from(self.ring.len()).unwrap_or(u64::MAX);
        }
        self.value
    }

    /// Whether the last stamp lies in the window.
    pub(crate) fn is_within(&self, window: Window, at: Millis, closed: u64) -> bool {
        self.set && !is_past(self.value, window, at, closed)
    }

    /// Whether the operand first held in a step before this one.
    pub(crate) const fn held_before(&self, current_step: u64) -> bool {
        self.set && self.value < current_step
    }
}

/// Whether a stamp has left the window: longer ago than the duration, or not among the last closed steps.
fn is_past(stamp: u64, window: Window, at: Millis, closed: u64) -> bool {
    match window {
        Window::Time(duration) => at.0.saturating_sub(stamp) > duration.0,
        Window::Steps(steps) => closed.saturating_sub(stamp) >= steps,
    }
}

impl Meter {
    /// Lets go of the stamps that left a window; returns how many are in it.
    pub(crate) fn recount(&mut self, program: &Program, index: usize) -> u64 {
        let kind = program.ops.get(index).map(|op| op.kind);
        let (Some(state), Some(OpKind::Ring { window, .. })) = (self.ops.get_mut(index), kind)
        else {
            return 0;
        };
        let (at, closed) = (self.clocks.at, self.step.closed);
        while state.ring.front().is_some_and(|stamp| is_past(*stamp, window, at, closed)) {
            state.ring.pop_front();
        }
        state.number()
    }

    /// Advances every operator over the step that has just closed, inner ones first.
    pub(crate) fn advance_ops(&mut self, program: &Program) {
        for level in 0..program.levels {
            self.evaluate(program);
            for (index, op) in program.ops.iter().enumerate().filter(|(_, op)| op.level == level) {
                let held = bit(&self.truth, op.operand) != op.inverted;
                let in_doubt = !held && !op.inverted && self.is_doubtful(op);
                self.advance(index, op, held);
                if let (true, Some(state)) = (in_doubt, self.ops.get_mut(index)) {
                    state.unknown = true;
                }
                if let OpKind::Ring { .. } = op.kind {
                    self.recount(program, index);
                }
            }
            self.sync(program, Class::StepEnd);
            self.sync(program, Class::Time);
        }
    }

    /// Whether something in the operand is unknown. That an unpriced call counts as holding is decided
    /// elsewhere.
    fn is_doubtful(&self, op: &Op) -> bool {
        let is_unknown = |reading: &Reading| {
            matches!(reading, Reading::AtLeast | Reading::Unknown | Reading::Absent)
        };
        let mut readings = op.doubtful.iter().filter_map(|gauge| self.readings.get(*gauge));
        let inner = self.ops.get(op.inner.clone()).unwrap_or(&[]);
        readings.any(is_unknown) || inner.iter().any(|state| state.unknown)
    }

    fn advance(&mut self, index: usize, op: &Op, held: bool) {
        let (at, step, begun) = (self.clocks.at, self.step.closed, self.step.begun);
        let Some(state) = self.ops.get_mut(index) else { return };
        match op.kind {
            OpKind::Latch => state.set |= held,
            OpKind::Streak => {
                state.value = if held { state.value.saturating_add(1) } else { 0 };
                // A streak that is broken, or began here, is known again.
                state.unknown &= held;
            }
            OpKind::Count => state.value = state.value.saturating_add(u64::from(held)),
            OpKind::Ring { window, capacity } if held => {
                if state.ring.len() >= capacity {
                    state.ring.pop_front();
                }
                state.ring.push_back(match window {
                    Window::Time(_) => at.0,
                    Window::Steps(_) => step,
                });
            }
            OpKind::Stamp(window) if held => {
                state.set = true;
                state.value = match window {
                    Window::Time(_) => at.0,
                    Window::Steps(_) => step,
                };
            }
            OpKind::First if held && !state.set => {
                state.set = true;
                state.value = begun;
            }
            OpKind::Ring { .. } | OpKind::Stamp(_) | OpKind::First => {}
        }
    }
}
