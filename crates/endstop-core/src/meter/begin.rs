//! Intentions: what is compared when one more of something would begin, and counting it once it may.

use super::counters::{Counter, Overflow};
use super::words::agent_digest;
use super::{Meter, OpenStep, Reading, Truth};
use crate::event::{Event, EventKind, Source};
use crate::policy::OnUnpriced;
use crate::policy::program::{Class, Program, Read};
use crate::units::Cost;

impl Meter {
    /// Brings up to date what is compared when the event's thing would begin.
    pub(crate) fn announce(&mut self, program: &Program, event: &Event<'_>) {
        if self.compares_counts(event) {
            self.sync_counts(program);
            return;
        }
        let own = event.source == Source::Own;
        match &event.kind {
            EventKind::StepBegin => self.sync_one_more(program, Class::Steps, own, None),
            EventKind::AttemptBegin { .. } => {
                self.sync_one_more(program, Class::Attempts, own, None);
                self.sync_one_more(program, Class::Errors, own, None);
                if self.is_retry(own) {
                    self.sync_one_more(program, Class::Retries, own, None);
                }
            }
            EventKind::ToolBegin { tool } => {
                self.sync_one_more(program, Class::ToolCalls, own, Some(tool));
                self.sync_one_more(program, Class::ToolErrors, own, None);
                self.sync_one_more(program, Class::Errors, own, None);
            }
            EventKind::ChildBegin { .. } => {
                self.sync_one_more(program, Class::Subagents, own, None)
            }
            EventKind::HandOff { .. } => self.sync_one_more(program, Class::Handoffs, own, None),
            _ => {}
        }
    }

    /// Returns whether counts are compared now: between own steps, but not in the middle of a step that a descendant
    /// takes at that time. The gateway counts calls side by side as descendants of their run. Compared in the middle
    /// of one, a limit would end calls that it has admitted.
    pub(super) const fn compares_counts(&self, event: &Event<'_>) -> bool {
        let ends_step = matches!(event.kind, EventKind::StepEnd);
        !self.step.own.open && (matches!(event.source, Source::Own) || ends_step)
    }

    /// Brings every count up to date: their classes lie side by side.
    pub(crate) fn sync_counts(&mut self, program: &Program) {
        let first = program.ranges.get(Class::Steps as usize).map_or(0, |range| range.start);
        let last = program.ranges.get(Class::Handoffs as usize).map_or(0, |range| range.end);
        for slot in first..last {
            self.sync_slot(program, slot);
        }
    }

    /// One more of a class would begin: its gauges are compared, but not another tool's, and not the own
    /// share if it is a descendant's.
    fn sync_one_more(&mut self, program: &Program, class: Class, own: bool, tool: Option<&str>) {
        let Some(range) = program.ranges.get(class as usize) else { return };
        for slot in range.clone() {
            let concerned = match program.gauges.get(slot).map(|gauge| gauge.read) {
                Some(Read::Tool { index, own: only_own }) => {
                    (own || !only_own) && program.tools.get(index).map(|name| name.as_str()) == tool
                }
                Some(Read::Counter { own: only_own, .. }) => own || !only_own,
                _ => true,
            };
            if concerned {
                self.sync_slot(program, slot);
            }
        }
    }

    /// Lets `next_cost` be compared: only where a call would begin.
    pub(crate) fn expose_next_cost(&mut self, program: &Program, next_cost: Option<Cost>) {
        self.next_cost = next_cost;
        let (value, reading) = match (next_cost, program.policy.unpriced()) {
            (Some(Cost::Known(cost)), _) => (cost.picos(), Reading::Known),
            (_, OnUnpriced::Ignore) => (0, Reading::Known),
            _ => (0, Reading::Unpriced),
        };
        self.expose(program, Class::NextCost, value, reading);
    }

    /// Sets what is compared at some moments only.
    pub(crate) fn expose(&mut self, program: &Program, class: Class, value: u64, reading: Reading) {
        for slot in program.ranges.get(class as usize).cloned().unwrap_or_default() {
            let known = self.readings.get_mut(slot);
            if let (Some(view), Some(known)) = (self.view.get_mut(slot), known) {
                self.is_behind = true;
                *view = value;
                *known = reading;
            }
        }
    }

    /// Whether an attempt that begins now is not the first of its step. Of descendants, which may run side by
    /// side, one is as good as another: attempts beyond the steps that they have begun are retries.
    fn is_retry(&self, own: bool) -> bool {
        if own {
            return self.step.own.attempts > 0;
        }
        let of_descendants =
            |counter| self.totals.get(counter).saturating_sub(self.own.get(counter));
        of_descendants(Counter::Attempts) >= of_descendants(Counter::Steps)
    }

    pub(super) fn open_step(&mut self, own: bool) -> &mut OpenStep {
        if own { &mut self.step.own } else { &mut self.step.descendant }
    }

    pub(super) fn count(&mut self, own: bool, counter: Counter, amount: u64) {
        let total = self.totals.add(counter, amount);
        let share = if own { self.own.add(counter, amount) } else { Ok(()) };
        self.overflowed |= total.and(share) == Err(Overflow);
    }

    /// Counts what was admitted.
    pub(crate) fn begin(&mut self, program: &Program, event: &Event<'_>) {
        let own = event.source == Source::Own;
        self.probe(event);
        self.sync(program, Class::Live);
        match &event.kind {
            EventKind::RunBegin { agent, depth } if own => {
                self.agent = agent.map_or(0, agent_digest);
                self.depth = u64::from(*depth);
            }
            EventKind::StepBegin => self.begin_step(program, own),
            EventKind::AttemptBegin { .. } => {
                if self.is_retry(own) {
                    self.count(own, Counter::Retries, 1);
                }
                self.count(own, Counter::Attempts, 1);
                let step = self.open_step(own);
                step.attempts = step.attempts.saturating_add(1);
                if own {
                    // The reply before, if there was one, is not the step's answer.
                    self.step.has_reply = false;
                    self.drop_words(program);
                }
            }
            EventKind::ToolBegin { tool } => {
                self.step.called_tool |= own;
                self.begin_tool(program, own, tool);
            }
            EventKind::ChildBegin { .. } => self.count(own, Counter::Subagents, 1),
            EventKind::HandOff { to } => {
                self.count(own, Counter::Handoffs, 1);
                if own {
                    self.agent = agent_digest(to);
                }
            }
            _ => {}
        }
    }

    /// Counts a tool call.
    pub(crate) fn begin_tool(&mut self, program: &Program, own: bool, tool: &str) {
        self.count(own, Counter::ToolCalls, 1);
        if let Some(index) = program.tools.iter().position(|name| name == tool)
            && let Some((total, own_calls)) = self.tools.get_mut(index)
        {
            *total = total.saturating_add(1);
            *own_calls = own_calls.saturating_add(u64::from(own));
        }
    }

    fn begin_step(&mut self, program: &Program, own: bool) {
        self.count(own, Counter::Steps, 1);
        *self.open_step(own) = OpenStep { open: true, attempts: 0 };
        if !own {
            return;
        }
        let step = &mut self.step;
        step.begun = step.begun.saturating_add(1);
        step.called_tool = false;
        step.asked_for_tools = false;
        step.has_reply = false;
        self.restart_words(program);
        self.lost.fill(false);
        for (fact, truth) in program.facts.iter().zip(&mut self.facts) {
            if fact.is_of_step() {
                *truth = Truth::Unknown;
            }
        }
        self.write_facts(program);
    }

    fn restart_words(&mut self, program: &Program) {
        if !program.texts.is_empty() {
            program.texts.restart(&mut self.text);
        }
        if program.needs.replies {
            *self.reply = crate::near_duplicate::ReplyHash::default();
        }
    }

    /// Forgets the words of an attempt that is not the answer. A step that is over keeps its facts.
    pub(super) fn drop_words(&mut self, program: &Program) {
        if !self.step.own.open {
            return;
        }
        self.restart_words(program);
        let places = self.facts.iter_mut().zip(&mut self.lost);
        for (fact, (truth, lost)) in program.facts.iter().zip(places) {
            if fact.is_of_attempt() {
                *truth = Truth::Unknown;
                *lost = false;
            }
        }
        self.write_facts(program);
    }
}
