//! The decision at a checkpoint (docs/semantics.md, section 5).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use super::overrides::Cover;
use super::{Directive, Ended, MAX_REPLY_RETRIES, Notice, Raised, Run, Status};
use crate::event::{Event, EventKind, Source};
use crate::meter::project::{Ahead, Projection};
use crate::meter::{Reading, bit};
use crate::policy::Action;
use crate::policy::program::Class;
use crate::signal::{StopReason, StopSignal, StopSignals};
use crate::trip_record::{TripRecord, rests_on_numbers, signal_of};
use crate::units::Cost;

impl Run {
    /// Judges what is about to begin; counts it if it is admitted.
    pub(super) fn intend(&mut self, event: &Event<'_>) -> Directive {
        if matches!(event.kind, EventKind::StepBegin) && event.source == Source::Own {
            self.revive_completed();
        }
        self.meter.announce(&self.program, event);
        if matches!(event.kind, EventKind::HandOff { .. }) {
            self.meter.apply(&self.program, event);
        }
        self.expose_amounts(event);
        let begins_step = matches!(event.kind, EventKind::StepBegin);
        if begins_step && self.overrides.is_requested() {
            self.overrides.use_up(&self.program.rules);
        }
        let mut directive = self.decide(event, false);
        self.hide_reserve();
        if let (EventKind::ChildBegin { depth }, true) = (&event.kind, directive.admits())
            && self.is_too_deep(*depth)
        {
            directive = Directive::Refuse;
        }
        if directive.admits() {
            if self.status == Status::Pending {
                self.status = Status::InProgress;
            }
            if begins_step && self.overrides.is_requested() {
                self.overrides.count_step();
            }
            self.hide_next_cost();
            self.look_ahead(event);
            self.meter.begin(&self.program, event);
            // What is shown from here on is what a restored run would show.
            self.meter.evaluate(&self.program);
            self.judged = false;
        }
        directive
    }

    /// Lets be compared what is compared only where a call would begin: its worst case.
    pub(super) fn expose_amounts(&mut self, event: &Event<'_>) {
        let own = event.source == Source::Own;
        match &event.kind {
            EventKind::AttemptBegin { next_cost } if own => self.expose_next_cost(*next_cost),
            kind => {
                if let Some(ahead) = Ahead::of(kind).filter(|_| !self.is_of_next_step(event)) {
                    let projection = Projection::new(&self.program, &ahead, own);
                    self.meter.project(Some(projection));
                }
            }
        }
    }

    /// Nothing is held back for a call that has been judged.
    fn hide_reserve(&mut self) {
        if self.meter.projection.is_some() {
            self.meter.project(None);
            self.meter.evaluate(&self.program);
            self.judged = false;
        }
    }

    /// A call that was not admitted shows its worst case until the next event: a person decides on it.
    #[inline]
    pub(super) fn hide_next_cost(&mut self) {
        if self.shown_next_cost().is_some() {
            self.hide(Class::NextCost);
            self.meter.evaluate(&self.program);
            self.judged = false;
        }
    }

    /// The worst case of a call that was not admitted, while it shows.
    #[inline]
    pub(super) fn shown_next_cost(&self) -> Option<Option<Cost>> {
        let slots = self.program.ranges.get(Class::NextCost as usize)?;
        let readings = self.meter.readings.get(slots.start..slots.end)?;
        let is_shown = readings.first().is_some_and(|reading| *reading != Reading::Absent);
        is_shown.then_some(self.meter.next_cost)
    }

    /// Lets `next_cost` be compared: only where a call would begin.
    pub(super) fn expose_next_cost(&mut self, next_cost: Option<Cost>) {
        self.meter.expose_next_cost(&self.program, next_cost);
    }

    /// A deeper child than a depth rule admits is refused; that rule stops no run.
    pub(super) fn is_too_deep(&mut self, child_depth: u32) -> bool {
        if self.program.ranges.get(Class::Depth as usize).is_none_or(core::ops::Range::is_empty) {
            return false;
        }
        let depth = u64::from(child_depth).saturating_sub(1);
        self.meter.expose(&self.program, Class::Depth, depth, Reading::Known);
        self.meter.evaluate(&self.program);
        let refused = (0..self.program.rules.len()).any(|rule| {
            self.is_standing(rule, false) && self.cover_of(rule, false) == Cover::Refused
        });
        self.hide(Class::Depth);
        self.meter.evaluate(&self.program);
        refused
    }

    fn hide(&mut self, class: Class) {
        self.meter.expose(&self.program, class, 0, Reading::Absent);
    }

    #[inline]
    pub(super) fn roots_hold(&self, action: Action) -> bool {
        let roots = self.program.roots.get(action as usize);
        roots.is_some_and(|roots| roots.any(&self.meter.truth))
    }

    pub(super) fn rule_holds(&self, rule: usize) -> bool {
        self.program.rules.get(rule).is_some_and(|compiled| bit(&self.meter.truth, compiled.root))
    }

    pub(super) fn first_holding(&self, action: Action) -> Option<usize> {
        let rules = self.program.policy.rules.iter().enumerate();
        let mut holding =
            rules.filter(|(index, rule)| rule.action == action && self.rule_holds(*index));
        holding.next().map(|(index, _)| index)
    }

    /// Whether the model has answered without asking for tools: the step is ending, or ended, by itself.
    const fn ends_naturally(&self) -> bool {
        self.meter.step.has_reply && !self.meter.step.asked_for_tools
    }

    /// Whether a pause has hidden that the run ended by itself, and has just been approved.
    const fn is_end_held_up(&self, kind: &EventKind<'_>) -> bool {
        matches!(kind, EventKind::Approved { .. })
            && !self.meter.step.own.open
            && self.ended.is_none()
            && self.ends_naturally()
    }

    /// Decides on the state as it is; `event` is what it is about.
    #[inline]
    pub(super) fn decide(&mut self, event: &Event<'_>, after_step: bool) -> Directive {
        self.judged = true;
        self.meter.evaluate(&self.program);
        if self.overrides.any_in_row() {
            self.forget_rules_that_became_false();
        }
        if self.roots_hold(Action::Warn) {
            self.note_warnings();
        }
        if self.ended.as_ref().is_some_and(|ended| !ended.natural) {
            // A run that has stopped stays stopped; a cancellation still cuts what is in flight.
            self.record_late(event);
            return self.stop_directive(event);
        }
        if !self.raised.is_empty() || self.roots_hold(Action::Stop) {
            // A step in which one more thing would begin has not ended by itself.
            let begins = super::counts_as_intention(&event.kind);
            let open = self.meter.step.own.open || after_step;
            let natural = !begins && open && self.ends_naturally();
            if self.signals_stand(natural) {
                return self.stop(event, natural);
            }
        }
        self.decide_without_signals(event, after_step)
    }

    fn decide_without_signals(&mut self, event: &Event<'_>, after_step: bool) -> Directive {
        let own = event.source == Source::Own;
        let streams = matches!(
            event.kind,
            EventKind::Piece { .. } | EventKind::Tick | EventKind::Reply { .. }
        );
        if !streams && self.roots_hold(Action::Pause) && self.pause_stands(after_step) {
            self.status = Status::Paused;
            return Directive::Pause;
        }
        match &event.kind {
            EventKind::StepBegin if own && self.finishing.is_none() => self.begin_finish(),
            // Only one step is left: no tools, no sub-agents, no step beside it or after it.
            EventKind::StepBegin if own => self.end_of_step(event),
            kind if self.is_beside_finish(kind, own) => Directive::Refuse,
            EventKind::StepBegin => self.answer_to_step_below(),
            EventKind::Reply { .. } if own => self.retry_reply(event),
            _ if after_step || self.is_end_held_up(&event.kind) => self.end_of_step(event),
            _ => Directive::Proceed,
        }
    }

    /// Whether a pause rule holds. As for a stop, numeric limits alone do not hold up a run that has just
    /// ended by itself.
    pub(super) fn pause_stands(&self, after_step: bool) -> bool {
        let natural = after_step && self.ends_naturally();
        let rules = self.program.policy.rules.iter().enumerate();
        let mut pausing = rules.filter(|(_, rule)| rule.action == Action::Pause);
        pausing.any(|(index, _)| {
            self.rule_holds(index)
                && self.disarmed.get(index) != Some(&true)
                && !(natural && rests_on_numbers(&self.program, &self.meter, index))
        })
    }

    /// A reply that a retry rule dislikes is dropped, a few times in a row; then the rule stops the run.
    fn retry_reply(&mut self, event: &Event<'_>) -> Directive {
        let Some(rule) = self.first_holding(Action::Retry) else {
            self.retries_in_row = 0;
            return Directive::Proceed;
        };
        if self.retries_in_row < MAX_REPLY_RETRIES {
            self.retries_in_row += 1;
            return Directive::Retry;
        }
        let mut signal = signal_of(&self.program, &self.meter, rule);
        signal.message =
            format!("asked again {MAX_REPLY_RETRIES} times and still so: {}", signal.message);
        self.raised.push(Raised { signal, is_final: false });
        self.stop(event, false)
    }

    fn end_of_step(&mut self, event: &Event<'_>) -> Directive {
        if let Some(rule) = self.finishing {
            let signal = self.signal_of_finish(rule);
            self.raised.push(Raised { signal, is_final: true });
            return self.stop(event, false);
        }
        if !self.ends_naturally() {
            return Directive::Proceed;
        }
        self.ended = Some(Ended { verdict: None, natural: true });
        self.status = Status::Completed;
        Directive::Stop
    }

    /// Whether signals stand that no continuation answers. Where one answers them all, that is recorded.
    fn signals_stand(&mut self, natural: bool) -> bool {
        if !self.raised.is_empty() {
            return true;
        }
        if self.overrides.is_requested() {
            return !self.answer_rules(natural);
        }
        (0..self.program.rules.len()).any(|rule| self.is_standing(rule, natural))
    }

    /// Answers every stop rule that stands, or none: whether all of them could be.
    fn answer_rules(&mut self, natural: bool) -> bool {
        let rules = 0..self.program.rules.len();
        for rule in rules.clone().filter(|rule| self.is_standing(*rule, natural)) {
            match self.cover_of(rule, false) {
                Cover::Answered | Cover::Possible => {}
                Cover::Refused => return false,
                Cover::Exhausted => {
                    self.raise_exhausted(rule);
                    return false;
                }
            }
        }
        let program = Arc::clone(&self.program);
        for rule in rules {
            if self.is_standing(rule, natural) && self.cover_of(rule, false) == Cover::Possible {
                let id = program.policy.rules.get(rule).map_or("", |r| r.id.as_str());
                self.overrides.answer(&self.meter, rule, id);
            }
        }
        true
    }

    /// Whether a stop rule holds, and not only on numeric limits where the step ended by itself.
    pub(super) fn is_standing(&self, rule: usize, natural: bool) -> bool {
        self.program.policy.rules.get(rule).is_some_and(|r| r.action == Action::Stop)
            && self.rule_holds(rule)
            && !(natural && rests_on_numbers(&self.program, &self.meter, rule))
    }

    pub(super) fn cover_of(&self, rule: usize, one_more_step: bool) -> Cover {
        let Some(compiled) = self.program.rules.get(rule) else { return Cover::Refused };
        let allowance = self.program.policy.rules.get(rule).map_or(0, |r| r.overrides);
        self.overrides.cover(rule, compiled, allowance, one_more_step)
    }

    fn raise_exhausted(&mut self, rule: usize) {
        let allowance = self.program.policy.rules.get(rule).map_or(0, |r| r.overrides);
        let reason = signal_of(&self.program, &self.meter, rule).reason;
        let message =
            format!("override limit: {reason} overridden {allowance} times and still standing");
        let signal = StopSignal::new(StopReason::ErrorForbade).with_message(message);
        self.raised.push(Raised { signal, is_final: true });
    }

    fn forget_rules_that_became_false(&mut self) {
        for rule in 0..self.program.rules.len() {
            if !self.rule_holds(rule) {
                self.overrides.became_false(rule);
            }
        }
    }

    /// A continuation request: answers everything overridable that stands, a natural end included.
    pub(super) fn request_continuation(&mut self, by: &str) {
        self.meter.evaluate(&self.program);
        self.overrides.request(by);
        if self.raised.iter().any(|raised| !raised.is_final) {
            self.raised.retain(|raised| raised.is_final);
            self.overrides.record(&self.meter, None, "raised signals cleared");
        }
        let was_natural = self.ended.as_ref().is_some_and(|ended| ended.natural);
        let answered = self.raised.is_empty() && (was_natural || self.answer_rules(false));
        // What still stands is judged anew, so that the error of a used-up allowance is among it.
        if self.ended.take().is_some() && answered {
            self.status = Status::InProgress;
            if was_natural || !self.meter.step.own.open {
                self.meter.step.has_reply = false;
            }
        }
    }

    fn stop(&mut self, event: &Event<'_>, natural: bool) -> Directive {
        let refused = event.kind.is_intention().then(|| refused_text(event, self.step_count()));
        let verdict = TripRecord::new(self, self.standing_signals(natural), refused);
        let reason = verdict.primary.as_ref().map_or(StopReason::Unknown, |signal| signal.reason);
        self.status = Status::after(reason);
        self.ended = Some(Ended { verdict: Some(Box::new(verdict)), natural: false });
        self.stop_directive(event)
    }

    /// A run that has stopped keeps its reason; an error that comes after it makes the run fail all the same.
    fn record_late(&mut self, event: &Event<'_>) {
        let verdict = self.ended.as_mut().and_then(|ended| ended.verdict.as_mut());
        if let (EventKind::StopRaised { signal }, Some(verdict)) = (&event.kind, verdict)
            && signal.reason == StopReason::ErrorForbade
        {
            verdict.add_error((*signal).clone());
            self.status = verdict.status;
        }
    }

    const fn stop_directive(&self, event: &Event<'_>) -> Directive {
        let cuts = matches!(event.kind, EventKind::Cancel { .. } | EventKind::Kill { .. });
        if cuts && self.meter.step.own.open { Directive::CancelNow } else { Directive::Stop }
    }

    fn note_warnings(&mut self) {
        for index in 0..self.program.rules.len() {
            let Some(rule) = self.program.policy.rules.get(index) else { continue };
            if rule.action != Action::Warn || !self.rule_holds(index) {
                continue;
            }
            if self.warned.get_mut(index).is_some_and(|warned| !core::mem::replace(warned, true)) {
                let message = signal_of(&self.program, &self.meter, index).message;
                self.notices.push(Notice { rule: rule.id.clone(), message });
            }
        }
    }

    /// The signals that stand, raised ones first, in order of arrival.
    pub(crate) fn standing_signals(&self, natural: bool) -> StopSignals {
        let raised = self.raised.iter().map(|raised| raised.signal.clone());
        let rules = (0..self.program.rules.len()).filter(|rule| self.is_standing(*rule, natural));
        raised.chain(rules.map(|rule| signal_of(&self.program, &self.meter, rule))).collect()
    }
}

/// What did not begin, for people.
fn refused_text(event: &Event<'_>, steps: u64) -> String {
    match &event.kind {
        EventKind::RunBegin { .. } => "the run".to_string(),
        EventKind::StepBegin => format!("step {}", steps.saturating_add(1)),
        EventKind::AttemptBegin { .. } | EventKind::Reserve { .. } => {
            format!("a model request of step {steps}")
        }
        EventKind::ToolBegin { tool } => format!("a call of `{tool}` in step {steps}"),
        EventKind::ChildBegin { depth } => format!("a sub-agent at depth {depth}"),
        _ => String::new(),
    }
}
