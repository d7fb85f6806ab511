//! Facts: observations about a step, or signals from outside.

use serde::{Deserialize, Serialize};

use super::Truth;
use crate::condition::Fact;
use crate::program::{Names, Program, carried};
use crate::table::{FactIx, Table};

/// One fact of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct FactState {
    truth: Truth,
    /// A restored run was not looking for it since the step began: it stays unknown until the next one.
    lost: bool,
}

impl Default for FactState {
    fn default() -> Self {
        Self { truth: Truth::False, lost: false }
    }
}

/// The facts that the policy names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Facts(Table<FactIx, FactState>);

impl Facts {
    pub(crate) fn new(program: &Program) -> Self {
        Self(program.facts().rows().iter().map(|_| FactState::default()).collect())
    }

    #[inline]
    pub(crate) fn truth(&self, fact: FactIx) -> Truth {
        self.0.at(fact).truth
    }

    #[inline]
    pub(crate) fn truths(&self) -> impl Iterator<Item = (FactIx, Truth)> {
        self.0.iter().map(|(fact, state)| (fact, state.truth))
    }

    pub(crate) fn set(&mut self, fact: FactIx) {
        self.0.at_mut(fact).truth = Truth::True;
    }

    /// Makes the facts true for which `is` holds; whether there are any.
    pub(crate) fn learn(&mut self, program: &Program, is: impl Fn(&Fact) -> bool) -> bool {
        let mut any = false;
        for (fact, state) in program.facts().rows().iter().zip(self.0.rows_mut()) {
            if is(fact) {
                state.truth = Truth::True;
                any = true;
            }
        }
        any
    }

    /// Removes the cancellation of the run.
    pub(crate) fn forget_cancellation(&mut self, program: &Program) {
        for (fact, state) in program.facts().rows().iter().zip(self.0.rows_mut()) {
            if *fact == Fact::Cancelled {
                state.truth = Truth::False;
            }
        }
    }

    /// The facts of a step are unknown before it ends.
    pub(crate) fn begin_step(&mut self, program: &Program) {
        for (fact, state) in program.facts().rows().iter().zip(self.0.rows_mut()) {
            state.lost = false;
            if fact.is_of_step() {
                state.truth = Truth::Unknown;
            }
        }
    }

    /// Forgets what is about an attempt that is not the answer.
    pub(crate) fn drop_attempt(&mut self, program: &Program) {
        for (fact, state) in program.facts().rows().iter().zip(self.0.rows_mut()) {
            if fact.is_of_attempt() {
                *state = FactState { truth: Truth::Unknown, lost: false };
            }
        }
    }

    /// Facts that the step did not make true are false.
    pub(crate) fn end_step(&mut self) {
        for state in self.0.rows_mut() {
            if state.truth == Truth::Unknown && !state.lost {
                state.truth = Truth::False;
            }
        }
    }

    /// Brings the facts of a saved run into the order of a program. One whose matcher cannot be continued, or
    /// that the run was not looking for, is unknown until the next step. `None` if they do not go with `from`.
    pub(crate) fn fit(
        self,
        from: &Names,
        program: &Program,
        begun: bool,
        texts_go_on: bool,
    ) -> Option<Self> {
        let rows = carried(self.0, &from.facts, &program.names().facts, |_, _| false)?;
        let state = |(fact, saved): (&Fact, Option<FactState>)| {
            let of_step = fact.is_of_step() && begun;
            let reads_on = match fact {
                Fact::Said { .. } | Fact::Matches(_) => texts_go_on,
                _ => true,
            };
            let looked_for = saved.is_some_and(|saved| !saved.lost) && reads_on;
            let unknown = if of_step { Truth::Unknown } else { Truth::False };
            let truth = saved.map_or(unknown, |saved| saved.truth);
            FactState { truth, lost: of_step && truth == Truth::Unknown && !looked_for }
        };
        Some(Self(program.facts().rows().iter().zip(rows).map(state).collect()))
    }
}
