//! Builds one run while its file is read.
//!
//! A reader tells what the records say in the builder's verbs; the builder keeps the open step, the time, the
//! sub-agents and the warnings, and writes events as soon as they are certain, so that no run is held whole.

use std::collections::BTreeMap;

use endstop_core::event::Source as Origin;

use super::limits::MAX_UNTIMED_ENTRIES;
use super::merge::{MergedAgent, Untimed, merge};
use super::reading::Reading;
use super::step::{Full, ModelResponse, Step};
use super::time::Time;
use super::timeline::{AgentTimeline, EntryEvent, TimelineEntry};
use super::writer::{Closing, RunWriter};
use super::{RunHeader, RunSink};

/// One run. It begins with its first entry, so a file without one has no run.
pub(crate) struct RunBuilder<'s, 'w> {
    pub(crate) reading: Reading<'s>,
    id: Option<String>,
    model: Option<String>,
    /// The first time of a record that is not an entry.
    noted: Time,
    own: AgentTimeline,
    /// Sub-agents that ended while the run's own step was open.
    children: Vec<AgentTimeline>,
    /// Sub-agents that work in parallel to the run, by the names that records give them.
    named: BTreeMap<String, AgentTimeline>,
    closing: Closing,
    state: BuilderState<'w>,
}

enum BuilderState<'w> {
    Waiting(&'w mut dyn RunSink, Vec<TimelineEntry>),
    Writing(RunWriter<'w>),
    /// Only while one of the others becomes the next.
    Between,
}

impl<'s, 'w> RunBuilder<'s, 'w> {
    /// A run that has the name of its file until it gets another.
    pub(crate) fn new(reading: Reading<'s>, sink: &'w mut dyn RunSink) -> Self {
        let has_money = reading.supplies.money;
        Self {
            reading,
            id: None,
            model: None,
            noted: None,
            own: AgentTimeline::default(),
            children: Vec::new(),
            named: BTreeMap::new(),
            closing: Closing { has_money, ..Closing::default() },
            state: BuilderState::Waiting(sink, Vec::new()),
        }
    }

    /// Names the run.
    #[must_use]
    pub(crate) fn named(mut self, id: Option<impl Into<String>>) -> Self {
        self.id = id.map(Into::into);
        self
    }

    /// Names the model ahead of its calls.
    #[must_use]
    pub(crate) fn with_model(mut self, model: Option<impl Into<String>>) -> Self {
        self.model = model.map(Into::into);
        self
    }

    /// Names the run, unless it has a name.
    pub(crate) fn set_id(&mut self, id: impl FnOnce() -> Option<String>) {
        if self.id.is_none() {
            self.id = id();
        }
    }

    /// Names the model of the calls that come.
    pub(crate) fn set_model(&mut self, model: Option<String>) {
        self.model = model.or(self.model.take());
    }

    /// The model that was named.
    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Warnings are about this line from here on.
    pub(crate) const fn at_line(&mut self, line: u64) {
        self.reading.line = Some(line);
    }

    /// A record that is not an entry has a time: the run begins at the first such time.
    pub(crate) fn note(&mut self, time: Time) {
        self.noted = self.noted.or(time);
    }

    /// The run begins, at this time at the earliest, whether there will be an entry or not.
    pub(crate) fn begin(&mut self, first: Time) {
        if !matches!(self.state, BuilderState::Waiting(..)) {
            return;
        }
        match std::mem::replace(&mut self.state, BuilderState::Between) {
            BuilderState::Waiting(sink, held) => {
                let header = RunHeader {
                    id: self.id.as_deref().unwrap_or(self.reading.part.stem()),
                    format: self.reading.format,
                    file: self.reading.part.name(),
                    model: self.model.as_deref(),
                };
                let mut writer = RunWriter::begin(sink, &header, first);
                held.iter().for_each(|entry| writer.entry(entry));
                self.state = BuilderState::Writing(writer);
            }
            other => self.state = other,
        }
    }

    /// The run begins at the first recorded time, with or without an entry.
    pub(crate) fn begin_noted(&mut self) {
        self.begin(self.noted);
    }

    /// The agent did something at this time: its next request is made then at the earliest.
    pub(crate) fn seen(&mut self, time: Time) {
        self.own.seen(time);
    }

    /// When the agent last did something.
    pub(crate) const fn last(&self) -> Time {
        self.own.last()
    }

    /// A user turn; the next request is made then at the earliest.
    pub(crate) fn user(&mut self, time: Time) {
        self.push(TimelineEntry::User(time));
        self.seen(time);
    }

    /// Begins a step; its request was sent at `begun`.
    pub(crate) fn step_at(&mut self, begun: Time) -> &mut Step {
        self.close();
        self.own.begin(begun)
    }

    /// The open step, or a new one with its request at `begun`.
    pub(crate) fn step_or_begin(&mut self, begun: Time) -> &mut Step {
        self.own.step_or_begin(begun)
    }

    /// The model replied: a step that began when the agent last did something.
    pub(crate) fn reply(&mut self, time: Time, reply: ModelResponse) -> &mut Step {
        self.close();
        self.own.reply(time, reply)
    }

    /// The open step.
    pub(crate) const fn step(&mut self) -> Option<&mut Step> {
        self.own.step()
    }

    /// The result of a tool call of the open step: of the call with this id, or of the next that waits. The agent's
    /// next request is made then at the earliest.
    pub(crate) fn result(
        &mut self,
        id: Option<&str>,
        time: Time,
        result: String,
        failed: bool,
    ) -> Result<(), Full> {
        self.seen(time);
        let Some(step) = self.own.step() else { return Ok(()) };
        step.result(id, time, result, failed).map(drop)
    }

    /// A sub-agent that ended; it is written with the next entry.
    pub(crate) fn child(&mut self, child: AgentTimeline) {
        self.children.push(child);
    }

    /// Warns if something did not fit in its step.
    pub(crate) fn check(&self, added: Result<(), Full>) {
        self.reading.check(added);
    }

    /// Ends the open step.
    pub(crate) fn close(&mut self) {
        self.own.close();
        self.write_own();
    }

    /// The agent's timeline; entries that it gets are written by [`write_own`](Self::write_own).
    pub(crate) const fn own(&mut self) -> &mut AgentTimeline {
        &mut self.own
    }

    /// The timeline of the sub-agent with this name, or of the run itself. The entries of a run with named sub-agents
    /// are written when it ends.
    pub(crate) fn agent(&mut self, name: Option<&str>) -> &mut AgentTimeline {
        match name {
            Some(name) => self.named.entry(name.to_owned()).or_default(),
            None => &mut self.own,
        }
    }

    /// The sub-agent with this name ended at this time: it is written with the step that it ended in.
    pub(crate) fn end_agent(&mut self, name: &str, time: Time) {
        let Some(mut agent) = self.named.remove(name) else { return };
        agent.close();
        agent.seen(time);
        agent.end_child();
        match self.own.step() {
            Some(step) => step.child(agent),
            None => self.children.push(agent),
        }
    }

    /// The timelines of the run itself and of its named sub-agents.
    pub(crate) fn agents(&mut self) -> impl Iterator<Item = &mut AgentTimeline> {
        std::iter::once(&mut self.own).chain(self.named.values_mut())
    }

    /// Writes the entries that the agent's timeline holds.
    pub(crate) fn write_own(&mut self) {
        for entry in self.own.take() {
            self.write(entry);
        }
    }

    /// Ends the open step and adds an entry after it.
    pub(crate) fn push(&mut self, entry: TimelineEntry) {
        self.close();
        self.write(entry);
    }

    fn write(&mut self, entry: TimelineEntry) {
        let children = std::mem::take(&mut self.children);
        if !children.is_empty() {
            self.begin(self.noted.or_else(|| entry.first_time()));
            return self.merge(MergedAgent::of_run(vec![entry], children, Untimed::Last));
        }
        match &mut self.state {
            BuilderState::Writing(writer) => writer.entry(&entry),
            BuilderState::Waiting(_, held) => {
                let time = self.noted.or_else(|| entry.first_time());
                held.push(entry);
                if time.is_some() || held.len() >= MAX_UNTIMED_ENTRIES {
                    self.begin(time);
                }
            }
            BuilderState::Between => {}
        }
    }

    /// Writes the entries that the agent's timeline holds, and what sub-agents did at the same time.
    pub(crate) fn write_with(&mut self, children: Vec<AgentTimeline>, untimed: Untimed) {
        self.own.close();
        let own = self.own.take();
        let entries = own.iter().chain(children.iter().flat_map(AgentTimeline::entries));
        let first = self.noted.or_else(|| entries.clone().find_map(TimelineEntry::first_time));
        if entries.count() > 0 {
            self.begin(first);
        }
        self.merge(MergedAgent::of_run(own, children, untimed));
    }

    /// Writes what the run and its sub-agents did, in the order of time. The run begins with it, unless it has begun.
    pub(crate) fn merge(&mut self, agents: Vec<MergedAgent<'_>>) {
        merge(agents, &mut |origin, entry, time, event| {
            self.begin(time);
            self.event(origin, entry, time, event);
        });
    }

    fn event(&mut self, origin: Origin, entry: &TimelineEntry, time: Time, event: EntryEvent) {
        if let BuilderState::Writing(writer) = &mut self.state {
            writer.event_of(origin, entry, time, event);
        }
    }

    /// Writes all entries of a sub-agent, if the run has begun.
    pub(crate) fn write_child(&mut self, child: &AgentTimeline) {
        if let BuilderState::Writing(writer) = &mut self.state {
            writer.child(child.entries());
        }
    }

    /// Whether a model has replied.
    pub(crate) const fn has_replies(&self) -> bool {
        matches!(&self.state, BuilderState::Writing(writer) if writer.has_replies())
    }

    /// Whether the run succeeded, if the file says so.
    pub(crate) const fn outcome(&mut self, outcome: Option<bool>) {
        self.closing.outcome = outcome;
    }

    /// Whether the file records money, if that differs from its format.
    pub(crate) const fn has_money(&mut self, has_money: bool) {
        self.closing.has_money = has_money;
    }

    /// Its tokens and its cost are lower bounds.
    pub(crate) const fn is_lower_bound(&mut self, is_lower_bound: bool) {
        self.closing.is_lower_bound = is_lower_bound;
    }

    /// Ends the open step, and begins the run if an entry is held.
    pub(crate) fn flush(&mut self) {
        self.close();
        if matches!(&self.state, BuilderState::Waiting(_, held) if !held.is_empty()) {
            self.begin(self.noted);
        }
    }

    /// Ends the run, if it has begun, and its named sub-agents.
    pub(crate) fn end(mut self) {
        if !self.named.is_empty() {
            let mut named: Vec<_> = std::mem::take(&mut self.named).into_values().collect();
            named.iter_mut().for_each(AgentTimeline::end_child);
            self.write_with(named, Untimed::Last);
        }
        self.flush();
        if let BuilderState::Writing(writer) = self.state {
            writer.end(self.closing);
        }
    }
}
