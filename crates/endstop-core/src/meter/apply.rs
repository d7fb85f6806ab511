//! Events into the meter, as they happened. Intentions are taken in by `begin`.

use super::counters::{Counter, Overflow};
use super::results::digest;
use super::words::FoundFacts;
use super::{Meter, Truth};
use crate::condition::Fact;
use crate::condition::fact::normalised_finish;
use crate::event::{Event, EventKind, Source};
use crate::policy::OnUnpriced;
use crate::policy::program::{Class, Program};
use crate::units::{Cost, TokenUsage};

/// What an own reply says, as the event carries it.
struct OwnReply<'a> {
    usage: Option<TokenUsage>,
    finish: Option<&'a str>,
    tool_calls: u32,
}

impl Meter {
    /// Moves the clocks to the event.
    #[inline]
    pub(crate) fn arrive(&mut self, event: &Event<'_>) {
        let clocks = &mut self.clocks;
        clocks.at = clocks.at.max(event.at);
        clocks.wall = clocks.wall.max(event.wall);
        let active = event.source == Source::Descendant
            || matches!(
                event.kind,
                EventKind::Piece { .. }
                    | EventKind::Reply { .. }
                    | EventKind::ToolEnd { .. }
                    | EventKind::UserMessage
                    | EventKind::ChildBegin { .. }
                    | EventKind::ChildEnd
            );
        if active {
            clocks.last_activity = clocks.at;
        }
    }

    /// Takes in a piece of the model's words or a tick: whether anything that is compared can have changed.
    #[inline]
    pub(crate) fn stream(&mut self, program: &Program, event: &Event<'_>) -> bool {
        let found = match event.kind {
            EventKind::Piece { text } if event.source == Source::Own && self.step.own.open => {
                self.feed(program, text)
            }
            _ => false,
        };
        if self.compares_counts(event) {
            self.sync_counts(program);
        }
        if !self.probes.is_empty() {
            self.probe(event);
            self.sync(program, Class::Live);
        }
        found || program.is_timed || !self.step.own.open || !self.probes.is_empty()
    }

    /// Takes in what happened. Pieces and ticks are taken in by [`Meter::stream`], intentions by
    /// [`Meter::begin`].
    pub(crate) fn apply(&mut self, program: &Program, event: &Event<'_>) {
        let own = event.source == Source::Own;
        let closes_step = self.closes_own_step(event);
        match &event.kind {
            EventKind::UserMessage => {
                self.count(own, Counter::Messages, 1);
                if own {
                    self.recent.clear();
                    self.no_progress = 0;
                    if let Some(stale) = &mut self.stale {
                        stale.clear();
                    }
                    self.step.brought_news = true;
                }
            }
            EventKind::AttemptFailed { usage, cost } => {
                self.attempt_failed(program, own, *usage, *cost)
            }
            EventKind::Reply { usage, cost, finish, tool_calls, .. } => {
                self.count(own, Counter::Messages, 1);
                self.settle(program, own, *usage, Some(cost.unwrap_or(Cost::Unpriced)));
                self.tokens_unknown |= usage.is_none();
                self.own_tokens_unknown |= own && usage.is_none();
                if own {
                    let reply =
                        OwnReply { usage: *usage, finish: *finish, tool_calls: *tool_calls };
                    self.own_reply(program, &reply);
                }
            }
            EventKind::ToolEnd { tool, arguments, result, failed } => {
                self.tool_end(program, own, (tool, arguments, result), *failed);
            }
            EventKind::ToolRefused { .. } => self.count(own, Counter::Messages, 1),
            EventKind::StepEnd if closes_step => self.end_own_step(program),
            EventKind::StepEnd if !own => self.step.descendant.open = false,
            EventKind::HandOff { to } if own => {
                self.learn(program, |fact| matches!(fact, Fact::HandedOff(name) if name == to));
            }
            EventKind::Fact { name, value } if own => {
                let index = program.numbers.iter().position(|known| known == name);
                if let Some(slot) = index.and_then(|index| self.numbers.get_mut(index)) {
                    *slot = Some(*value);
                }
            }
            EventKind::Signal { name } => {
                self.learn(program, |fact| matches!(fact, Fact::Signal(known) if known == name));
            }
            EventKind::Cancel { .. } => self.learn(program, |fact| *fact == Fact::Cancelled),
            EventKind::Paused if self.clocks.paused_since.is_none() => {
                self.clocks.paused_since = Some(self.clocks.at);
            }
            EventKind::Resumed => self.resume(),
            _ => {}
        }
        self.probe(event);
        if matches!(event.kind, EventKind::Piece { .. } | EventKind::Tick) && self.probes.is_empty()
        {
            return;
        }
        self.sync(program, Class::Settled);
        self.sync(program, Class::Live);
        if self.compares_counts(event) {
            self.sync_counts(program);
        }
        if closes_step {
            self.advance_ops(program);
        }
    }

    pub(super) fn probe(&mut self, event: &Event<'_>) {
        for probe in &mut self.probes {
            probe.observe(event);
        }
    }

    fn resume(&mut self) {
        if let Some(since) = self.clocks.paused_since.take() {
            let length = self.clocks.at.0.saturating_sub(since.0);
            self.clocks.paused.0 = self.clocks.paused.0.saturating_add(length);
        }
    }

    fn attempt_failed(
        &mut self,
        program: &Program,
        own: bool,
        usage: Option<TokenUsage>,
        cost: Option<Cost>,
    ) {
        self.count(own, Counter::Errors, 1);
        self.settle(program, own, usage, cost);
        if own {
            self.next_cost = None;
            self.learn(program, |fact| *fact == Fact::Errored);
            self.drop_words(program);
        }
    }

    /// Settles what a call spent. Never refuses, never forgets.
    fn settle(
        &mut self,
        program: &Program,
        own: bool,
        usage: Option<TokenUsage>,
        cost: Option<Cost>,
    ) {
        if let Some(usage) = usage {
            let total = self.totals.add_usage(&usage);
            let share = if own { self.own.add_usage(&usage) } else { Ok(()) };
            self.overflowed |= total.and(share) == Err(Overflow);
        }
        let money = match (cost, program.policy.unpriced()) {
            (None, _) => return,
            (Some(Cost::Known(money)), _) => Some(money),
            (Some(Cost::Unpriced), OnUnpriced::Rates(rates)) => usage.and_then(|u| rates.cost(&u)),
            (Some(Cost::Unpriced), _) => None,
        };
        match money {
            Some(money) => {
                let total = self.totals.add_cost(money);
                let share = if own { self.own.add_cost(money) } else { Ok(()) };
                self.overflowed |= total.and(share) == Err(Overflow);
            }
            None => {
                self.unpriced = true;
                self.own_unpriced |= own;
            }
        }
    }

    fn own_reply(&mut self, program: &Program, reply: &OwnReply<'_>) {
        self.next_cost = None;
        self.step.asked_for_tools = reply.tool_calls > 0;
        self.step.has_reply = true;
        self.context_tokens = reply.usage.map_or(0, |usage| usage.total_input());
        self.context_unknown = reply.usage.is_none();
        if !self.step.own.open {
            return;
        }
        let looks_at_finish = program.facts.iter().any(|fact| matches!(fact, Fact::Finished(_)));
        if let Some(finish) = reply.finish.filter(|_| looks_at_finish) {
            let normalised = normalised_finish(finish);
            let is = |reason: &str| {
                reason.eq_ignore_ascii_case(finish) || reason.eq_ignore_ascii_case(&normalised)
            };
            self.learn(program, |fact| {
                matches!(fact, Fact::Finished(reasons) if reasons.iter().any(|reason| is(reason)))
            });
        }
        if program.texts.has_patterns() {
            let mut found = FoundFacts::default();
            program.texts.end(&self.text, |hit| found.note(program, hit));
            self.learn_found(program, &found);
        }
        if program.needs.replies
            && let Some(hash) = self.reply.finish()
        {
            if self.last_replies.has_near(hash) {
                self.learn(program, |fact| *fact == Fact::NearDuplicate);
            }
            self.last_replies.push(hash);
        }
    }

    fn tool_end(
        &mut self,
        program: &Program,
        own: bool,
        (tool, arguments, result): (&str, &str, &str),
        failed: bool,
    ) {
        self.count(own, Counter::Messages, 1);
        if failed {
            self.count(own, Counter::ToolErrors, 1);
            self.count(own, Counter::Errors, 1);
        }
        if !own {
            return;
        }
        self.learn(program, |fact| match fact {
            Fact::Called(name) => name == tool,
            Fact::ToolFailed(name) => failed && name == tool,
            Fact::Errored => failed,
            _ => false,
        });
        if let Some(stale) = &mut self.stale {
            stale.result(tool, arguments, result);
        }
        if program.needs.digests || program.needs.seen {
            let digest = digest(tool, arguments, result);
            self.recent.push(digest);
            if let Some(seen) = &mut self.seen {
                self.step.brought_news |= seen.insert(digest);
            }
        }
    }

    /// Whether the event ends the own step that is open. An end without a beginning ends nothing.
    pub(crate) fn closes_own_step(&self, event: &Event<'_>) -> bool {
        let ends = matches!(event.kind, EventKind::StepEnd) && event.source == Source::Own;
        ends && self.step.own.open
    }

    fn end_own_step(&mut self, program: &Program) {
        self.step.own.open = false;
        self.step.closed = self.step.closed.saturating_add(1);
        if !self.step.called_tool {
            self.learn(program, |fact| *fact == Fact::NoToolCalls);
        }
        for (truth, lost) in self.facts.iter_mut().zip(&self.lost) {
            if *truth == Truth::Unknown && !lost {
                *truth = Truth::False;
            }
        }
        self.write_facts(program);
        if let Some(stale) = &mut self.stale {
            stale.end_step();
        }
        let news = core::mem::take(&mut self.step.brought_news);
        // Without the results, nothing is known of what was new.
        let is_idle = self.seen.is_some() && !news;
        self.no_progress = if is_idle { self.no_progress.saturating_add(1) } else { 0 };
    }

    /// Makes the facts true for which `is` holds.
    fn learn(&mut self, program: &Program, is: impl Fn(&Fact) -> bool) {
        let mut any = false;
        for (fact, truth) in program.facts.iter().zip(&mut self.facts) {
            if is(fact) {
                *truth = Truth::True;
                any = true;
            }
        }
        if any {
            self.write_facts(program);
        }
    }
}
