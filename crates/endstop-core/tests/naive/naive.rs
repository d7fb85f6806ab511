//! A deliberately simple evaluator: the oracle of the differential tests.
//!
//! It shares the data types with the crate and nothing else. Every question folds over the whole log
//! again, on the tree as it was written: no compile step, no negation pushing, no state that is carried
//! from event to event. Slow is fine here; obvious is what counts.

mod decide;
mod fact;
mod gauge;
mod log;
mod logic;

pub(crate) use decide::{Action, Decision, Rule, Standing, decide};
pub(crate) use log::{Entry, Moment};
pub(crate) use logic::{holds, leaf_values, rule_holds, truth, truth_in};

/// Three-valued truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Truth {
    False,
    Unknown,
    True,
}

impl Truth {
    pub(crate) fn of(known: bool) -> Self {
        if known { Self::True } else { Self::False }
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
            Self::True => Self::False,
        }
    }
}
