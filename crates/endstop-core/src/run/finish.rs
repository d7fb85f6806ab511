//! The wrap-up: when it begins, and how much of a limit is kept for it (docs/semantics.md, section 10).

use super::{Directive, Run};
use crate::event::{Event, EventKind, Source};
use crate::meter::project::{Ahead, Projection};
use crate::policy::Action;
use crate::policy::program::Class;
use crate::policy::projected::Part;
use crate::run::next_trip::{Axis, Reserved, next_trip};
use crate::signal::StopSignal;
use crate::trip_record::signal_of;
use crate::units::Money;

impl Run {
    /// Whether a reserve is that of the next own step and the wrap-up after it.
    pub(super) fn is_of_next_step(&self, event: &Event<'_>) -> bool {
        event.source == Source::Own
            && !self.meter.step.own.open
            && matches!(event.kind, EventKind::Reserve { .. })
    }

    /// Keeps what the next step may spend, until it begins. Without a finish rule nobody asks.
    pub(super) fn look_ahead(&mut self, event: &Event<'_>) {
        if self.is_of_next_step(event) {
            let asks = self.program.has_action(Action::Finish);
            self.ahead = Ahead::of(&event.kind).filter(|_| asks);
        } else if matches!(event.kind, EventKind::StepBegin) && event.source == Source::Own {
            self.ahead = None;
        }
    }

    /// While only one step is left, there are no tools, no sub-agents and no step beside it.
    pub(super) const fn is_beside_finish(&self, kind: &EventKind<'_>, own: bool) -> bool {
        let is_beside = match kind {
            EventKind::StepBegin | EventKind::ChildBegin { .. } => true,
            EventKind::ToolBegin { .. } => own,
            _ => false,
        };
        is_beside && self.finishing.is_some()
    }

    /// Once a finish rule asks for the wrap-up, what runs below begins no more steps: they would take the room
    /// of the one step that is left.
    pub(super) fn answer_to_step_below(&mut self) -> Directive {
        self.finish_rule(false).map_or(Directive::Proceed, |_| Directive::Refuse)
    }

    pub(super) fn begin_finish(&mut self) -> Directive {
        let Some((rule, signal)) = self.finish_rule(true) else { return Directive::Proceed };
        self.finishing = Some(rule);
        self.finish_signal = signal;
        Directive::Finish
    }

    /// Returns the signal that ends the run after its wrap-up. A wrap-up that started early for money or tokens may
    /// never reach the limit of its rule, so the signal that was foreseen then is used.
    pub(super) fn signal_of_finish(&self, rule: usize) -> StopSignal {
        match &self.finish_signal {
            Some(foreseen) if !self.rule_holds(rule) => foreseen.clone(),
            _ => signal_of(&self.program, &self.meter, rule),
        }
    }

    /// The finish rule for which the step that would begin is the last one. Either it holds; or after
    /// one more ordinary step, with what that and the wrap-up may spend, it would hold and a stop rule would
    /// leave no room; or what they may spend would take it past its own limit on a gauge that no stop rule
    /// bounds. If `tells`, with the signal of a rule that does not hold yet.
    pub(super) fn finish_rule(&mut self, tells: bool) -> Option<(usize, Option<StopSignal>)> {
        if !self.program.has_action(Action::Finish) {
            return None;
        }
        if let Some(rule) = self.first_holding(Action::Finish) {
            return Some((rule, None));
        }
        let ahead = self.ahead.filter(|_| self.program.needs_reserve());
        let ahead = ahead.map(|ahead| Projection::new(&self.program, &ahead, true));
        let found = self.foreseen_by_stop(ahead, tells);
        let found = match ahead {
            Some(ahead) if found.is_none() => self.foreseen_alone(ahead, tells),
            _ => found,
        };
        self.meter.project(None);
        self.meter.evaluate(&self.program);
        found
    }

    fn foreseen_by_stop(
        &mut self,
        ahead: Option<Projection>,
        tells: bool,
    ) -> Option<(usize, Option<StopSignal>)> {
        let as_compared = self.meter.view.clone();
        for class in [Class::Steps, Class::Attempts, Class::Messages] {
            for slot in self.program.ranges.get(class as usize).cloned().unwrap_or_default() {
                if let Some(view) = self.meter.view.get_mut(slot) {
                    *view = view.saturating_add(1);
                }
            }
        }
        self.meter.project(ahead.map(|ahead| ahead.with_finish(|_| true)));
        self.meter.is_behind = true;
        self.meter.evaluate(&self.program);
        let found = if self.roots_hold(Action::Stop) { self.foreseen(tells) } else { None };
        self.meter.view = as_compared;
        self.meter.is_behind = true;
        found
    }

    fn foreseen_alone(
        &mut self,
        ahead: Projection,
        tells: bool,
    ) -> Option<(usize, Option<StopSignal>)> {
        self.meter.project(Some(ahead.with_finish(|_| true)));
        self.meter.evaluate(&self.program);
        self.first_holding(Action::Finish)?;
        let unbounded = ahead.with_finish(|part| {
            let axis = match part {
                Part::Cost => Axis::Cost,
                Part::Tokens => Axis::Tokens,
                Part::Input => Axis::Input { rate: Money::ZERO },
                Part::Output => Axis::Output { rate: Money::ZERO },
            };
            let none = Reserved::default();
            next_trip(&self.program, &self.meter, axis, none, &[Action::Stop], &[]).is_none()
        });
        self.meter.project(Some(unbounded));
        self.meter.evaluate(&self.program);
        self.foreseen(tells)
    }

    fn foreseen(&self, tells: bool) -> Option<(usize, Option<StopSignal>)> {
        let rule = self.first_holding(Action::Finish)?;
        let signal = tells.then(|| signal_of(&self.program, &self.meter, rule));
        Some((rule, signal))
    }
}
