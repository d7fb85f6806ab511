//! Events into the meter. Intentions are announced (compared), then begun (counted); everything else is
//! applied.

use xxhash_rust::xxh3::xxh3_64;

use super::counters::{Counter, Overflow};
use super::results::digest;
use super::{Meter, OpenStep, Truth, bit, set_bit};
use crate::condition::Fact;
use crate::condition::fact::normalised_finish;
use crate::event::{Event, EventKind, Source};
use crate::policy::OnUnpriced;
use crate::policy::program::{Class, Program, Read};
use crate::text::Found;
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

    /// Brings up to date what is compared when the event's thing would begin.
    pub(crate) fn announce(&mut self, program: &Program, event: &Event<'_>) {
        if !self.step.own.open {
            self.sync_counts(program);
            return;
        }
        let own = event.source == Source::Own;
        match &event.kind {
            EventKind::StepBegin => self.sync_one_more(program, Class::Steps, own, None),
            EventKind::AttemptBegin { .. } => {
                self.sync_one_more(program, Class::Attempts, own, None);
                self.sync_one_more(program, Class::Errors, own, None);
                if self.open_step(own).attempts > 0 {
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

    fn open_step(&mut self, own: bool) -> &mut OpenStep {
        if own { &mut self.step.own } else { &mut self.step.descendant }
    }

    fn count(&mut self, own: bool, counter: Counter, amount: u64) {
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
                self.count(own, Counter::Attempts, 1);
                let step = self.open_step(own);
                step.attempts = step.attempts.saturating_add(1);
                if step.attempts > 1 {
                    self.count(own, Counter::Retries, 1);
                }
                if own {
                    // The reply before, if there was one, is not the step's answer.
                    self.step.has_reply = false;
                    self.drop_words(program);
                }
            }
            EventKind::ToolBegin { tool } => {
                self.count(own, Counter::ToolCalls, 1);
                self.step.called_tool |= own;
                if let Some(index) = program.tools.iter().position(|name| name == tool)
                    && let Some((total, own_calls)) = self.tools.get_mut(index)
                {
                    *total = total.saturating_add(1);
                    *own_calls = own_calls.saturating_add(u64::from(own));
                }
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
        if !self.step.own.open {
            self.sync_counts(program);
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
        self.text = program.texts.start();
        *self.reply = crate::near_duplicate::ReplyHash::default();
        self.lost.fill(false);
        for (fact, truth) in program.facts.iter().zip(&mut self.facts) {
            if fact.is_of_step() {
                *truth = Truth::Unknown;
            }
        }
        self.write_facts(program);
    }

    /// Forgets the words of an attempt that is not the answer. A step that is over keeps its facts.
    fn drop_words(&mut self, program: &Program) {
        if !self.step.own.open {
            return;
        }
        self.text = program.texts.start();
        *self.reply = crate::near_duplicate::ReplyHash::default();
        let places = self.facts.iter_mut().zip(&mut self.lost);
        for (fact, (truth, lost)) in program.facts.iter().zip(places) {
            if fact.is_of_attempt() {
                *truth = Truth::Unknown;
                *lost = false;
            }
        }
        self.write_facts(program);
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
        if !self.step.own.open {
            // Between steps, counts are compared as they stand.
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
        if !self.step.own.open {
            self.sync_counts(program);
        }
        if closes_step {
            self.advance_ops(program);
        }
    }

    fn probe(&mut self, event: &Event<'_>) {
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
        if let Some(finish) = reply.finish {
            let normalised = normalised_finish(finish);
            let is = |reason: &str| {
                reason.eq_ignore_ascii_case(finish) || reason.eq_ignore_ascii_case(&normalised)
            };
            self.learn(program, |fact| {
                matches!(fact, Fact::Finished(reasons) if reasons.iter().any(|reason| is(reason)))
            });
        }
        let mut found = FoundFacts::default();
        program.texts.end(&self.text, |hit| found.note(program, hit));
        self.learn_found(program, &found);
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
        if program.needs_results() {
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
        let news = core::mem::take(&mut self.step.brought_news);
        self.no_progress = if news { 0 } else { self.no_progress.saturating_add(1) };
    }

    /// Whether the words made a fact true.
    fn feed(&mut self, program: &Program, text: &str) -> bool {
        if program.needs.replies {
            self.reply.feed(text);
        }
        if program.texts.is_empty() {
            return false;
        }
        let mut found: Option<FoundFacts> = None;
        program.texts.feed(&mut self.text, text.as_bytes(), |hit| {
            found.get_or_insert_with(FoundFacts::default).note(program, hit);
        });
        if let Some(found) = &found {
            self.learn_found(program, found);
        }
        found.is_some()
    }

    fn learn_found(&mut self, program: &Program, found: &FoundFacts) {
        if found.is_empty() {
            return;
        }
        let agent = self.agent;
        for (index, fact) in program.facts.iter().enumerate() {
            if !found.has(index) {
                continue;
            }
            let spoken_by = match fact {
                Fact::Said { from: Some(from), .. } => agent_digest(from) == agent,
                _ => true,
            };
            if let (true, Some(truth)) = (spoken_by, self.facts.get_mut(index)) {
                *truth = Truth::True;
            }
        }
        self.write_facts(program);
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

fn agent_digest(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Facts that a piece of text made true, as bits: no allocation while text streams by.
#[derive(Default)]
struct FoundFacts([u64; crate::condition::MAX_NODES / 64]);

impl FoundFacts {
    fn note(&mut self, program: &Program, found: Found) {
        let fact = match found {
            Found::Phrase(index) => program.phrase_facts.get(index),
            Found::Pattern(index) => program.pattern_facts.get(index),
        };
        if let Some(fact) = fact {
            set_bit(&mut self.0, *fact, true);
        }
    }

    fn has(&self, fact: usize) -> bool {
        bit(&self.0, fact)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}
