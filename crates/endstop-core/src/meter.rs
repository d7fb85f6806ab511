//! The meter: the measurements that conditions are judged on. A plain value whose size is set by the policy, saved as
//! it is.

mod approved;
mod clocks;
mod facts;
mod frame;
mod ops;
mod progress;
mod project;
mod reading;
mod saved;
mod seen;
mod sight;
mod stale;
mod steps;
mod tally;
mod truth;
mod words;

use serde::{Deserialize, Serialize};

use crate::condition::Fact;
use crate::condition::fact::normalized_finish;
use crate::counter::Counter;
use crate::event::{Event, EventKind, Source};
use crate::policy::OnUnpriced;
use crate::probe::RunningProbes;
use crate::program::{Class, Compare, Program, Read};
use crate::table::{CompareIx, GaugeIx, NumberIx, ProbeIx, RuleIx, Table};
use crate::units::{Cost, Millis, TokenUsage};
use approved::ApprovedLimits;
pub(crate) use clocks::Clocks;
pub(crate) use facts::Facts;
pub(crate) use frame::{Frame, Inputs};
pub(crate) use ops::{Moment, Operators};
use progress::Progress;
pub(crate) use project::{Projection, Reach, WorstCase};
pub(crate) use reading::Reading;
pub(crate) use sight::Sight;
pub(crate) use steps::Steps;
pub(crate) use tally::Tallies;
use tally::{Charge, ToolTallies, ToolTally};
pub use truth::Truth;
use words::Words;

/// The measurements of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meter {
    clocks: Clocks,
    step: Steps,
    tallies: Tallies,
    tools: ToolTallies,
    /// Numbers that the user's program reported.
    reported: Table<NumberIx, Option<u64>>,
    depth: u64,
    context_tokens: u64,
    /// Whether the last own response did not report its tokens.
    context_unknown: bool,
    progress: Progress,
    words: Words,
    facts: Facts,
    operators: Operators,
    approved: ApprovedLimits,
    /// The last measurements of the probes. Probes are the user's code, and kept outside the meter.
    #[serde(skip)]
    probed: Table<ProbeIx, Option<u64>>,
    compared: Frame,
}

impl Meter {
    /// The meter of a run that has not begun.
    pub(crate) fn new(program: &Program) -> Self {
        let mut meter = Self {
            tools: program.tools().rows().iter().map(|_| ToolTally::default()).collect(),
            reported: program.numbers().rows().iter().map(|_| None).collect(),
            progress: Progress::new(program.needs()),
            words: Words::new(program),
            facts: Facts::new(program),
            operators: Operators::new(program),
            probed: program.probe_names().rows().iter().map(|_| None).collect(),
            compared: Frame::new(program),
            approved: ApprovedLimits::new(program),
            ..Self::default()
        };
        meter.sync_all(program);
        meter.evaluate(program);
        meter
    }

    /// Takes over what the probes of a run that begins, or was restored, measure.
    pub(crate) fn read_probes(&mut self, program: &Program, probes: &RunningProbes) {
        self.probed = probes.values().collect();
        self.sync(program, Class::Live);
        self.evaluate(program);
    }

    /// The process that waited for an approval is gone.
    pub(crate) fn stop_waiting(&mut self) {
        self.clocks.pause_by(&EventKind::Resumed, true);
    }

    pub(crate) const fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    pub(crate) const fn step(&self) -> &Steps {
        &self.step
    }

    pub(crate) const fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) const fn operators(&self) -> &Operators {
        &self.operators
    }

    /// The comparisons with the limits that hold for this run.
    pub(crate) const fn compares(&self) -> &Table<CompareIx, Compare> {
        self.approved.compares()
    }

    /// The numbers as they are compared now.
    #[inline]
    pub(crate) const fn frame(&self) -> &Frame {
        &self.compared
    }

    /// Where the run is.
    #[inline]
    pub(crate) const fn now(&self) -> Moment {
        Moment { at: self.clocks.at(), begun: self.step.begun(), closed: self.step.closed() }
    }

    /// The inputs for evaluating a trial frame.
    #[inline]
    pub(crate) const fn inputs<'m>(&'m self, program: &'m Program) -> Inputs<'m> {
        let (compares, operators) = (self.compares(), &self.operators);
        Inputs { program, compares, operators, now: self.now() }
    }

    // Reading: see also `reading`.

    /// The last report of a number, if the policy reads it and there was one.
    pub(crate) fn reported(&self, program: &Program, name: &str) -> Option<u64> {
        let number = program.numbers().find(|known| known == name)?;
        *self.reported.at(number)
    }

    /// Whether every call had a price, or the policy counts those without one as nothing.
    pub(crate) fn is_cost_known(&self, program: &Program, own: bool) -> bool {
        !self.tallies.of(own).lacks_prices() || program.unpriced() == OnUnpriced::Ignore
    }

    /// The last request's input tokens, if reported.
    pub(crate) const fn context_tokens(&self) -> Option<u64> {
        if self.context_unknown { None } else { Some(self.context_tokens) }
    }

    // Bringing the frame up to date.

    #[inline]
    fn sync_gauge(&mut self, program: &Program, gauge: GaugeIx) {
        let slot = program.gauges().at(gauge);
        let reading = self.reading(program, slot.class, slot.read);
        let number = if reading == Reading::Absent { 0 } else { self.read(slot.read) };
        self.compared.set(gauge, number, reading);
    }

    /// Brings every gauge up to date as between two steps, and the bits of facts.
    fn sync_all(&mut self, program: &Program) {
        for gauge in program.gauges().indices() {
            self.sync_gauge(program, gauge);
        }
        self.compared.write_facts(program, &self.facts);
    }

    /// Brings the gauges of one class up to date.
    #[inline]
    fn sync(&mut self, program: &Program, class: Class) {
        for gauge in program.gauges_of(class) {
            self.sync_gauge(program, gauge);
        }
    }

    /// Brings settled money up to date, and no tokens.
    fn sync_money(&mut self, program: &Program) {
        for gauge in program.gauges_of(Class::Settled) {
            let read = program.gauges().at(gauge).read;
            if matches!(read, Read::Counter { counter: Counter::Cost, .. }) {
                self.sync_gauge(program, gauge);
            }
        }
    }

    /// Brings every count up to date.
    fn sync_counts(&mut self, program: &Program) {
        for gauge in program.counts() {
            self.sync_gauge(program, gauge);
        }
    }

    /// Brings the clocks up to date: like [`Meter::sync`], but always known and without the detour.
    #[inline]
    pub(crate) fn sync_clocks(&mut self, program: &Program) {
        for gauge in program.gauges_of(Class::Time) {
            let number = match program.gauges().at(gauge).read {
                Read::Op(op) => self.operators.recount(program, op, &self.now()),
                read => self.read(read),
            };
            self.compared.set_clock(gauge, number);
        }
    }

    /// One more of a class would begin: its gauges are compared, but not another tool's, and not the own
    /// share if it is a descendant's.
    fn sync_one_more(&mut self, program: &Program, class: Class, event: &Event<'_>) {
        let own = event.source == Source::Own;
        for gauge in program.gauges_of(class) {
            let concerned = match program.gauges().at(gauge).read {
                Read::Tool { tool: index, own: only_own } => {
                    let name = program.tools().at(index);
                    let is_it = matches!(event.kind, EventKind::ToolBegin { tool } if tool == name);
                    is_it && (own || !only_own)
                }
                Read::Counter { own: only_own, .. } => own || !only_own,
                _ => true,
            };
            if concerned {
                self.sync_gauge(program, gauge);
            }
        }
    }

    /// Sets the gauges that are compared at some moments only.
    fn expose(&mut self, program: &Program, class: Class, number: u64, reading: Reading) {
        for gauge in program.gauges_of(class) {
            self.compared.set(gauge, number, reading);
        }
    }

    /// Lets `next_cost` be compared: only where a model call, or a call of a tool that declares a cost, would begin.
    fn expose_next_cost(&mut self, program: &Program, next_cost: Option<Cost>) {
        let (number, reading) = match (next_cost, program.unpriced()) {
            (Some(Cost::Known(cost)), _) => (cost.picos(), Reading::Known),
            (_, OnUnpriced::Ignore) => (0, Reading::Known),
            _ => (0, Reading::Unpriced),
        };
        self.expose(program, Class::NextCost, number, reading);
    }

    /// Hides the worst case of a call that was judged; whether it showed.
    #[inline]
    pub(crate) fn hide_next_cost(&mut self, program: &Program) -> bool {
        let shows = |gauge| self.compared.reading(gauge) != Reading::Absent;
        let showed = program.gauges_of(Class::NextCost).any(shows);
        if showed {
            self.expose(program, Class::NextCost, 0, Reading::Absent);
        }
        showed
    }

    /// Begins or ends to judge by what may be spent.
    pub(crate) fn project(&mut self, projection: Option<Projection>) {
        self.compared.project(projection);
    }

    /// The frame, and what it is evaluated with.
    #[inline]
    fn frame_and_inputs<'m>(&'m mut self, program: &'m Program) -> (&'m mut Frame, Inputs<'m>) {
        let now = self.now();
        let (compares, operators) = (self.approved.compares(), &self.operators);
        (&mut self.compared, Inputs { program, compares, operators, now })
    }

    /// Brings every bit up to date. Returns whether any can have changed.
    #[inline]
    pub(crate) fn evaluate(&mut self, program: &Program) -> bool {
        self.sync_clocks(program);
        let (frame, inputs) = self.frame_and_inputs(program);
        frame.evaluate(&inputs)
    }

    /// Brings the groups of one rule up to date, whose leaves are.
    pub(crate) fn evaluate_rule(&mut self, program: &Program, folds: core::ops::Range<usize>) {
        let (frame, inputs) = self.frame_and_inputs(program);
        frame.fold_all(&inputs, folds);
    }

    /// Brings one comparison up to date; whether that changed it.
    pub(crate) fn evaluate_compare(&mut self, program: &Program, compare: CompareIx) -> bool {
        let (frame, inputs) = self.frame_and_inputs(program);
        frame.evaluate_compare(&inputs, compare)
    }

    // Asking.

    /// Takes back the frame that was set aside, and that the event was activity. A question changes nothing else that the bits
    /// of the frame follow from, except for clocks and operators over time, which are compared again.
    pub(crate) fn take_back(&mut self, aside: &mut Frame, clocks: &Clocks) {
        core::mem::swap(&mut self.compared, aside);
        self.clocks.forget_activity(clocks);
    }

    /// Counts calls of tools as begun, until [`Meter::uncount`].
    pub(crate) fn count_tools(
        &mut self,
        program: &Program,
        own: bool,
        tools: &[&str],
    ) -> (Tallies, ToolTallies) {
        let before = (self.tallies.clone(), self.tools.clone());
        tools.iter().for_each(|tool| self.begin_tool(program, own, tool));
        before
    }

    pub(crate) fn uncount(&mut self, (tallies, tools): (Tallies, ToolTallies)) {
        (self.tallies, self.tools) = (tallies, tools);
    }

    // Events in.

    /// Moves the clocks to the event.
    #[inline]
    pub(crate) fn arrive(&mut self, event: &Event<'_>) {
        self.clocks.arrive(event);
    }

    /// Returns whether counts are compared now: between own steps, but not in the middle of a step that a descendant
    /// takes at that time. The gateway counts calls side by side as descendants of their run. Compared in the middle
    /// of one, a limit would end calls that it has admitted.
    const fn compares_counts(&self, event: &Event<'_>) -> bool {
        let ends_step = matches!(event.kind, EventKind::StepEnd);
        !self.step.is_open() && (matches!(event.source, Source::Own) || ends_step)
    }

    /// Exposes the gauges that are compared when the announced act would begin: its counts, and its possible cost.
    pub(crate) fn announce(&mut self, program: &Program, event: &Event<'_>) {
        let own = event.source == Source::Own;
        if event.kind.begins_request() {
            self.sync(program, Class::Settled);
        } else if matches!(event.kind, EventKind::ToolReserve { .. }) {
            self.sync_money(program);
        }
        if self.compares_counts(event) {
            self.sync_counts(program);
        } else {
            for class in Class::of_one_more(&event.kind, self.is_retry(own)) {
                self.sync_one_more(program, *class, event);
            }
        }
        match event.kind {
            EventKind::AttemptBegin { next_cost } if own => {
                self.expose_next_cost(program, next_cost);
            }
            EventKind::ToolReserve { cost, .. } if own => {
                self.expose_next_cost(program, Some(Cost::Known(cost)));
            }
            _ => {}
        }
        let worst = WorstCase::of(&event.kind).filter(|_| !self.step.is_reserve_ahead(event));
        if let Some(worst) = worst {
            self.project(Some(Projection::new(program, &worst, own)));
        }
    }

    /// Whether an attempt that begins now is not the first of its step. Of descendants, which may run side by
    /// side, one is as good as another: attempts beyond the steps that they have begun are retries.
    const fn is_retry(&self, own: bool) -> bool {
        if own {
            return self.step.own_attempts() > 0;
        }
        self.tallies.of_descendants(Counter::Attempts)
            >= self.tallies.of_descendants(Counter::Steps)
    }

    /// Counts what was admitted.
    pub(crate) fn begin(
        &mut self,
        program: &Program,
        probes: &mut RunningProbes,
        event: &Event<'_>,
    ) {
        let own = event.source == Source::Own;
        self.probe(probes, event);
        self.sync(program, Class::Live);
        match &event.kind {
            EventKind::RunBegin { agent, depth } if own => {
                self.words.name_agent(*agent);
                self.depth = u64::from(*depth);
            }
            EventKind::StepBegin => {
                self.tallies.count(own, Counter::Steps);
                self.step.begin(own);
                if own {
                    self.words.restart(program);
                    self.facts.begin_step(program);
                    self.compared.write_facts(program, &self.facts);
                }
            }
            EventKind::AttemptBegin { .. } => {
                if self.is_retry(own) {
                    self.tallies.count(own, Counter::Retries);
                }
                self.tallies.count(own, Counter::Attempts);
                self.step.begin_attempt(own);
                if own {
                    self.drop_words(program);
                }
            }
            EventKind::ToolBegin { tool } => {
                self.step.begin_tool(own);
                self.begin_tool(program, own, tool);
                if own {
                    self.progress.begin_tool(program.needs(), self.clocks.at());
                }
            }
            EventKind::ChildBegin { .. } => self.tallies.count(own, Counter::Subagents),
            EventKind::HandOff { to } => {
                self.tallies.count(own, Counter::Handoffs);
                if own {
                    self.words.name_agent(Some(to));
                }
            }
            _ => {}
        }
    }

    fn begin_tool(&mut self, program: &Program, own: bool, tool: &str) {
        self.tallies.count(own, Counter::ToolCalls);
        if let Some(index) = program.tools().find(|name| name == tool) {
            self.tools.at_mut(index).count(own);
        }
    }

    /// Records a piece of text or a tick. Returns whether more can have changed than comparisons of clocks.
    #[inline]
    pub(crate) fn stream(
        &mut self,
        program: &Program,
        probes: &mut RunningProbes,
        event: &Event<'_>,
    ) -> bool {
        let found = match event.kind {
            EventKind::Piece { text } if event.source == Source::Own && self.step.is_open() => {
                let found = self.words.feed(program, text, &mut self.facts);
                if found {
                    self.compared.write_facts(program, &self.facts);
                }
                found
            }
            _ => false,
        };
        if self.compares_counts(event) {
            self.sync_counts(program);
        }
        if !probes.is_empty() {
            self.probe(probes, event);
            self.sync(program, Class::Live);
        }
        let operators_move = program.is_timed() && !program.ops().is_empty();
        found || operators_move || !self.step.is_open() || !probes.is_empty()
    }

    /// Records an event. Pieces and ticks are recorded by [`Meter::stream`], intentions by [`Meter::begin`].
    pub(crate) fn apply(
        &mut self,
        program: &Program,
        probes: &mut RunningProbes,
        event: &Event<'_>,
    ) {
        let own = event.source == Source::Own;
        let closes_step = self.step.is_closed_by(event);
        match &event.kind {
            EventKind::UserMessage => {
                self.tallies.count(own, Counter::Messages);
                if own {
                    self.progress.user_message();
                }
            }
            EventKind::AttemptFailed { usage, cost } => {
                self.tallies.count(own, Counter::Errors);
                let charge = Charge::of(*cost, *usage, program.unpriced());
                self.tallies.settle(own, *usage, charge);
                if own {
                    self.learn(program, |fact| *fact == Fact::Errored);
                    self.drop_words(program);
                }
            }
            EventKind::Reply { usage, cost, finish, tool_calls, .. } => {
                self.tallies.count(own, Counter::Messages);
                let cost = cost.unwrap_or(Cost::Unpriced);
                let charge = Charge::of(Some(cost), *usage, program.unpriced());
                self.tallies.settle(own, *usage, charge);
                if usage.is_none() {
                    self.tallies.miss_tokens(own);
                }
                if own {
                    self.step.reply(*tool_calls > 0);
                    self.own_reply(program, *usage, *finish);
                }
            }
            EventKind::ToolCost { cost, .. } => self.tallies.spend(own, *cost),
            EventKind::ToolEnd { tool, arguments, result, failed } => {
                self.tool_end(program, event, (tool, arguments, result), *failed);
            }
            EventKind::ToolRefused { .. } => self.tallies.count(own, Counter::Messages),
            EventKind::StepEnd if closes_step => self.end_own_step(program),
            EventKind::StepEnd if !own => self.step.end(false),
            EventKind::StepEnd => self.step.end_refused(),
            EventKind::HandOff { to } if own => {
                self.learn(program, |fact| matches!(fact, Fact::HandedOff(name) if name == to));
            }
            EventKind::Fact { name, value } if own => {
                if let Some(index) = program.numbers().find(|known| known == name) {
                    *self.reported.at_mut(index) = Some(*value);
                }
            }
            EventKind::Signal { name, .. } => {
                self.learn(program, |fact| matches!(fact, Fact::Signal(known) if known == name));
            }
            kind if kind.is_cancellation() => {
                self.learn(program, |fact| *fact == Fact::Cancelled);
            }
            kind => self.clocks.pause_by(kind, own),
        }
        self.probe(probes, event);
        self.sync(program, Class::Live);
        if self.compares_counts(event) {
            self.sync_counts(program);
        }
        if closes_step {
            self.advance_operators(program);
        }
    }

    #[inline]
    fn probe(&mut self, probes: &mut RunningProbes, event: &Event<'_>) {
        if !probes.is_empty() {
            probes.observe(event);
            for (known, value) in self.probed.rows_mut().iter_mut().zip(probes.values()) {
                *known = value;
            }
        }
    }

    fn own_reply(&mut self, program: &Program, usage: Option<TokenUsage>, finish: Option<&str>) {
        self.context_tokens = usage.map_or(0, |usage| usage.total_input());
        self.context_unknown = usage.is_none();
        if !self.step.is_open() {
            return;
        }
        let facts = program.facts().rows();
        let looks_at_finish = facts.iter().any(|fact| matches!(fact, Fact::Finished(_)));
        if let Some(finish) = finish.filter(|_| looks_at_finish) {
            let normalized = normalized_finish(finish);
            self.learn(program, |fact| fact.is_finished_by(finish, &normalized));
        }
        if self.words.end_reply(program, &mut self.facts) {
            self.compared.write_facts(program, &self.facts);
        }
    }

    fn tool_end(
        &mut self,
        program: &Program,
        event: &Event<'_>,
        (tool, arguments, result): (&str, &str, &str),
        failed: bool,
    ) {
        let own = event.source == Source::Own;
        self.tallies.count(own, Counter::Messages);
        if failed {
            self.tallies.count(own, Counter::ToolErrors);
            self.tallies.count(own, Counter::Errors);
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
        let texts = (tool, arguments, result);
        self.progress.result(program.needs(), texts, failed, self.clocks.at());
    }

    fn end_own_step(&mut self, program: &Program) {
        if !self.step.called_tool() {
            self.learn(program, |fact| *fact == Fact::NoToolCalls);
        }
        self.step.end(true);
        self.facts.end_step();
        self.compared.write_facts(program, &self.facts);
        self.progress.end_step();
    }

    /// An own step was reported, and is not admitted.
    pub(crate) const fn refuse_step(&mut self) {
        self.step.refuse();
    }

    /// The last answer no longer ends anything.
    pub(crate) const fn forget_reply(&mut self) {
        self.step.forget_reply();
    }

    /// Makes the facts true for which `is` holds.
    fn learn(&mut self, program: &Program, is: impl Fn(&Fact) -> bool) {
        if self.facts.learn(program, is) {
            self.compared.write_facts(program, &self.facts);
        }
    }

    /// Removes the cancellation of the run.
    pub(crate) fn forget_cancellation(&mut self, program: &Program) {
        self.facts.forget_cancellation(program);
        self.compared.write_facts(program, &self.facts);
    }

    /// Forgets the words of an attempt that is not the answer. A step that is over keeps its facts.
    fn drop_words(&mut self, program: &Program) {
        if self.step.is_open() {
            self.words.restart(program);
            self.facts.drop_attempt(program);
            self.compared.write_facts(program, &self.facts);
        }
    }

    /// Advances every operator over the step that has just closed, inner ones first.
    fn advance_operators(&mut self, program: &Program) {
        for level in 0..program.levels() {
            self.evaluate(program);
            let (now, frame) = (self.now(), &self.compared);
            let (bit, reading) = (|slot| frame.bit(slot), |gauge| frame.reading(gauge));
            self.operators.advance_level(program, level, &now, bit, reading);
            self.sync(program, Class::StepEnd);
            self.sync(program, Class::Time);
        }
    }

    // Approvals.

    /// Raises the limits of a rule on a gauge, called by its name, to what a person approved; nothing is
    /// tightened. Whether the rule has such a limit.
    pub(crate) fn approve(
        &mut self,
        program: &Program,
        rule: RuleIx,
        gauge: &str,
        limit: u64,
    ) -> bool {
        self.compared.fall_behind();
        self.approved.raise(program, rule, gauge, limit)
    }

    /// The number that a ring of stamps in time would have later; `None` for other gauges.
    pub(crate) fn counted_later(&self, program: &Program, read: Read, at: Millis) -> Option<u64> {
        match read {
            Read::Op(op) => self.operators.counted_later(program, op, at),
            _ => None,
        }
    }
}
