//! The basis of a decision: the measurements of a run, seen in a frame.

use super::{Frame, Inputs, Meter, Reach};
use crate::policy::Action;
use crate::program::{Compare, Program};
use crate::table::{CompareIx, RuleIx};

/// A run's measurements, with the numbers and bits of one frame: the run's own, or that of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'s> {
    pub(crate) program: &'s Program,
    pub(crate) meter: &'s Meter,
    pub(crate) frame: &'s Frame,
}

impl<'s> Sight<'s> {
    /// As the run is now.
    #[inline]
    pub(crate) const fn of(program: &'s Program, meter: &'s Meter) -> Self {
        Self { program, meter, frame: meter.frame() }
    }

    /// The same in another frame.
    pub(crate) const fn through<'t>(self, frame: &'t Frame) -> Sight<'t>
    where
        's: 't,
    {
        Sight { program: self.program, meter: self.meter, frame }
    }

    /// The inputs for evaluating a trial frame.
    pub(crate) const fn inputs(&self) -> Inputs<'s> {
        self.meter.inputs(self.program)
    }

    /// Whether the condition of a rule is met.
    #[inline]
    pub(crate) fn is_met(&self, rule: RuleIx) -> bool {
        self.frame.bit(self.program.rules().at(rule).root())
    }

    /// Whether no continuation can override a rule now: a part that is met is hard, or all are while none is.
    pub(crate) fn is_hard(&self, rule: RuleIx) -> bool {
        let parts = &self.program.rules().at(rule).parts;
        let mut met = parts.iter().filter(|part| self.frame.bit(part.slot)).peekable();
        if met.peek().is_some() {
            met.any(|part| part.hard)
        } else {
            parts.iter().all(|part| part.hard)
        }
    }

    /// Whether a person has raised a limit of a rule.
    pub(crate) fn is_raised(&self, rule: RuleIx) -> bool {
        let (written, now) = (self.program.compares().rows(), self.meter.compares().rows());
        let mut pairs = written.iter().zip(now).filter(|(written, _)| written.rule == rule);
        pairs.any(|(written, now)| written.range.lo < now.range.lo)
    }

    /// Whether the condition of any rule of an action is met.
    #[inline]
    pub(crate) fn any_met(&self, action: Action) -> bool {
        self.frame.any(self.program.roots(action))
    }

    /// The rules of an action whose condition is met, in the order of the policy.
    pub(crate) fn met(self, action: Action) -> impl Iterator<Item = RuleIx> {
        let rules = self.program.policy_rules().filter(move |(_, rule)| rule.action == action);
        rules.map(|(index, _)| index).filter(move |index| self.is_met(*index))
    }

    /// A comparison with the limit that holds for this run.
    pub(crate) fn compare(&self, compare: CompareIx) -> &'s Compare {
        self.meter.compares().at(compare)
    }

    /// Where the number of a comparison may get to, if it sees what may be spent: `None` inside if that
    /// is not known.
    pub(crate) fn reach(&self, compare: CompareIx) -> Option<Option<Reach>> {
        self.frame.reach(self.program, self.meter.compares(), compare)
    }
}
