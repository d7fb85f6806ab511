//! Asking before doing: what the run would answer to an intention.

use super::overrides::Cover;
use super::{Directive, Run};
use crate::event::{Event, EventKind, Source};
use crate::meter::Reading;
use crate::policy::Action;
use crate::policy::program::Class;

impl Run {
    /// What [`Run::observe`] would answer to an intention ([`EventKind::is_intention`]), while nothing
    /// begins, is counted or is told: only the clock moves on to the event. So a driver asks every ancestor
    /// before it lets a descendant's thing begin at any of them. Any other event is answered with
    /// [`Directive::Proceed`]. O(conditions); allocates at the first call, and where finish rules are.
    pub fn would(&mut self, event: &Event<'_>) -> Directive {
        if !event.kind.is_intention() {
            return Directive::Proceed;
        }
        self.record_end();
        let (last_activity, next_cost) = (self.meter.clocks.last_activity, self.meter.next_cost);
        self.meter.arrive(event);
        self.meter.set_aside();
        if self.shown_next_cost().is_some() {
            self.meter.expose(&self.program, Class::NextCost, 0, Reading::Absent);
        }
        self.meter.announce(&self.program, event);
        self.expose_amounts(event);
        self.meter.evaluate(&self.program);
        let directive = self.answer_to(event);
        self.meter.project(None);
        self.meter.take_back();
        self.meter.next_cost = next_cost;
        self.meter.clocks.last_activity = last_activity;
        self.meter.evaluate(&self.program);
        directive
    }

    /// As [`Run::would`], once calls of the tools `before` had begun too: so a driver knows of a batch, before it
    /// is whole, which of its calls will begin.
    pub fn would_after(&mut self, before: &[&str], event: &Event<'_>) -> Directive {
        if before.is_empty() {
            return self.would(event);
        }
        let meter = &mut self.meter;
        let counted =
            (meter.totals.clone(), meter.own.clone(), meter.tools.clone(), meter.overflowed);
        let own = event.source == Source::Own;
        before.iter().for_each(|tool| meter.begin_tool(&self.program, own, tool));
        let directive = self.would(event);
        let meter = &mut self.meter;
        (meter.totals, meter.own, meter.tools, meter.overflowed) = counted;
        directive
    }

    fn answer_to(&mut self, event: &Event<'_>) -> Directive {
        let begins_step = matches!(event.kind, EventKind::StepBegin);
        let has_stopped = self.ended.as_ref().is_some_and(|ended| !ended.natural);
        if has_stopped || !self.raised.is_empty() || self.is_stopped_by_rule(begins_step) {
            return Directive::Stop;
        }
        if self.roots_hold(Action::Pause) && self.pause_stands(false) {
            return Directive::Pause;
        }
        let own = event.source == Source::Own;
        match &event.kind {
            EventKind::StepBegin if own && self.finishing.is_none() => {
                self.finish_rule(false).map_or(Directive::Proceed, |_| Directive::Finish)
            }
            EventKind::StepBegin if own => Directive::Stop,
            kind if self.is_beside_finish(kind, own) => Directive::Refuse,
            EventKind::StepBegin => self.answer_to_step_below(),
            EventKind::ChildBegin { depth } if self.is_too_deep(*depth) => Directive::Refuse,
            _ => Directive::Proceed,
        }
    }

    /// Whether a stop rule holds that no continuation answers.
    fn is_stopped_by_rule(&self, begins_step: bool) -> bool {
        let is_answered =
            |rule| matches!(self.cover_of(rule, begins_step), Cover::Answered | Cover::Possible);
        self.roots_hold(Action::Stop)
            && (0..self.program.rules.len())
                .any(|rule| self.is_standing(rule, false) && !is_answered(rule))
    }
}
