//! The acts of an agent, entry by entry.

use endstop_core::EventKind;

use super::limits::MAX_STEP_ITEMS;
use super::messages::{RecordedInput, RecordedOutput, RequestedCall};
use super::step::{Full, ModelResponse, Step, ToolAnswer};
use super::time::Time;

/// The next thing that an agent did.
#[derive(Debug)]
pub(crate) enum TimelineEntry {
    /// A user turn.
    User(Time),
    /// A sub-agent begins at this depth, where the root's is 0.
    ChildBegin(Time, u32),
    /// A sub-agent ended.
    ChildEnd(Time),
    /// A model call with its tools.
    Step(Box<Step>),
}

/// An event of an entry, by its place in there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryEvent {
    User,
    ChildBegin,
    ChildEnd,
    StepBegin,
    AttemptBegin,
    AttemptFailed,
    Piece(usize),
    Reply,
    ToolBegin(usize),
    ToolRefused(usize),
    ToolEnd(usize),
    StepEnd,
}

impl TimelineEntry {
    /// Its events in order, with their times.
    pub(crate) fn events(&self) -> Vec<(Time, EntryEvent)> {
        match self {
            Self::User(time) => vec![(*time, EntryEvent::User)],
            Self::ChildBegin(time, _) => vec![(*time, EntryEvent::ChildBegin)],
            Self::ChildEnd(time) => vec![(*time, EntryEvent::ChildEnd)],
            Self::Step(step) => step.events(),
        }
    }

    /// The first time that it records.
    pub(crate) fn first_time(&self) -> Time {
        self.events().into_iter().find_map(|(time, _)| time)
    }

    /// The latest time that it records.
    pub(crate) fn last_time(&self) -> Time {
        self.events().into_iter().filter_map(|(time, _)| time).max()
    }

    /// The event at that place.
    pub(crate) fn event(&self, event: EntryEvent) -> Option<EventKind<'_>> {
        match (self, event) {
            (Self::User(_), EntryEvent::User) => Some(EventKind::UserMessage),
            (Self::ChildBegin(_, depth), EntryEvent::ChildBegin) => {
                Some(EventKind::ChildBegin { depth: *depth })
            }
            (Self::ChildEnd(_), EntryEvent::ChildEnd) => Some(EventKind::ChildEnd),
            (Self::Step(step), event) => step.event(event),
            _ => None,
        }
    }

    /// The response whose event is at that place.
    pub(crate) fn reply(&self, event: EntryEvent) -> Option<&ModelResponse> {
        match (self, event) {
            (Self::Step(step), EntryEvent::Reply) => step.reply(),
            _ => None,
        }
    }

    /// Sub-agents that run before the event at that place, if it is the first that they run before.
    pub(crate) fn children_before(&self, event: EntryEvent) -> &[AgentTimeline] {
        match (self, event) {
            (Self::Step(step), EntryEvent::ToolEnd(_) | EntryEvent::StepEnd) => step.children(),
            _ => &[],
        }
    }
}

/// The acts of one agent, in order. Its last step stays open for results until the next entry.
#[derive(Debug, Default)]
pub(crate) struct AgentTimeline {
    entries: Vec<TimelineEntry>,
    open: Option<Step>,
    asking: Option<PendingModelCall>,
    /// User turns in the records of model calls.
    turns: usize,
    last: Time,
    /// It is a sub-agent that has begun and not ended.
    is_open_child: bool,
}

/// A model call that is not answered. The step before stays open: a retry may still record its results.
#[derive(Debug)]
struct PendingModelCall {
    begun: Time,
    turns: usize,
    failures: Vec<Time>,
}

impl AgentTimeline {
    /// A sub-agent that begins one level below the run.
    pub(crate) fn child(begun: Time) -> Self {
        let mut child = Self { last: begun, ..Self::default() };
        child.begin_child(begun, 1);
        child
    }

    /// The agent begins as a sub-agent at this depth, unless it has begun.
    pub(crate) fn begin_child(&mut self, begun: Time, depth: u32) {
        if !self.is_open_child {
            self.is_open_child = true;
            self.push(TimelineEntry::ChildBegin(begun, depth));
        }
    }

    /// The sub-agent ends when it last did something, if it has begun.
    pub(crate) fn end_child(&mut self) {
        if std::mem::take(&mut self.is_open_child) {
            self.push(TimelineEntry::ChildEnd(self.last));
        }
    }

    /// The agent did something at this time: its next request is made then at the earliest.
    pub(crate) fn seen(&mut self, time: Time) {
        self.last = time.or(self.last);
    }

    /// Like [`seen`](Self::seen), for records that are not in the order of time.
    pub(crate) fn seen_by(&mut self, time: Time) {
        self.last = time.max(self.last);
    }

    /// When the agent last did something.
    pub(crate) const fn last(&self) -> Time {
        self.last
    }

    /// A user turn; the next request is made then at the earliest.
    pub(crate) fn user(&mut self, time: Time) {
        self.push(TimelineEntry::User(time));
        self.seen(time);
    }

    /// The model replied: a step that began when the agent last did something.
    pub(crate) fn reply(&mut self, time: Time, reply: ModelResponse) -> &mut Step {
        let begun = self.last.or(time);
        self.seen(time);
        let step = self.begin(begun);
        step.answer(time, reply);
        step
    }

    /// Begins a step; its request was sent at `begun`.
    pub(crate) fn begin(&mut self, begun: Time) -> &mut Step {
        self.close();
        self.open.insert(Step::begin(begun))
    }

    /// The open step, or a new one with its request at `begun`.
    pub(crate) fn step_or_begin(&mut self, begun: Time) -> &mut Step {
        self.open.get_or_insert_with(|| Step::begin(begun))
    }

    /// The open step was none after all.
    pub(crate) fn give_up(&mut self) {
        self.open = None;
    }

    /// The open step.
    pub(crate) const fn step(&mut self) -> Option<&mut Step> {
        self.open.as_mut()
    }

    /// Ends the open step and adds an entry after it.
    pub(crate) fn push(&mut self, entry: TimelineEntry) {
        self.close();
        self.entries.push(entry);
    }

    /// Adds an entry before the open step.
    pub(crate) fn before(&mut self, entry: TimelineEntry) {
        self.entries.push(entry);
    }

    /// Ends the open step.
    pub(crate) fn close(&mut self) {
        let step = self.open.take().map(|step| TimelineEntry::Step(Box::new(step)));
        self.entries.extend(step);
    }

    /// The entries so far, without the open step.
    pub(crate) fn entries(&self) -> &[TimelineEntry] {
        &self.entries
    }

    /// Takes the entries so far, without the open step.
    pub(crate) fn take(&mut self) -> Vec<TimelineEntry> {
        std::mem::take(&mut self.entries)
    }
}

/// From records that separate model calls and tool calls: spans, or rows of a log. A call is completed from every
/// record about it: the model's request, the record of the tool, the messages of the next model call.
impl AgentTimeline {
    /// There have been this many user turns: those that are new are added, before the open step.
    pub(crate) fn hear(&mut self, turns: usize, time: Time) {
        let new = turns.saturating_sub(self.turns).min(MAX_STEP_ITEMS);
        (0..new).for_each(|_| self.before(TimelineEntry::User(time)));
        self.turns = self.turns.max(turns);
    }

    /// A model call begins. One that follows a failed one is its retry.
    pub(crate) fn ask(&mut self, told: &RecordedInput, time: Time) -> Result<(), Full> {
        // A call has a user, even if messages are not recorded.
        let turns = told.turns.max(1);
        let asking = self.asking.get_or_insert(PendingModelCall {
            begun: time,
            turns,
            failures: Vec::new(),
        });
        asking.turns = asking.turns.max(turns);
        // The input of a retry existed when the call was first made.
        let time = asking.begun;
        let Some(step) = &mut self.open else { return Ok(()) };
        told.results.iter().try_for_each(|(id, result)| step.told_result(id, time, result))
    }

    /// The model call failed.
    pub(crate) fn fail(&mut self, time: Time) {
        let failures = self.asking.iter_mut().map(|asking| &mut asking.failures);
        for failures in failures.filter(|failures| failures.len() < MAX_STEP_ITEMS) {
            failures.push(time);
        }
    }

    /// The model call was answered.
    pub(crate) fn answer(
        &mut self,
        time: Time,
        reply: ModelResponse,
        said: &RecordedOutput,
    ) -> Result<(), Full> {
        self.close();
        let Some(asking) = self.asking.take() else { return Ok(()) };
        let step = self.begin_asked(asking)?;
        step.answer(time, reply);
        step.say(time, &*said.text)?;
        said.calls
            .iter()
            .cloned()
            .try_for_each(|asked| step.call(time, asked.id, asked.tool, asked.arguments))
    }

    /// A tool ran. One that runs without a model call is not a step of a model.
    pub(crate) fn tool(
        &mut self,
        asked: &RequestedCall,
        begun: Time,
        answer: ToolAnswer,
    ) -> Result<(), Full> {
        self.open.as_mut().map_or(Ok(()), |step| step.ran(asked, begun, answer))
    }

    /// Ends the last step, answered or not.
    pub(crate) fn finish(&mut self) -> Result<(), Full> {
        self.close();
        let begun = self.asking.take().map_or(Ok(()), |asking| self.begin_asked(asking).map(drop));
        self.close();
        begun
    }

    fn begin_asked(&mut self, asking: PendingModelCall) -> Result<&mut Step, Full> {
        self.hear(asking.turns, asking.begun);
        let step = self.begin(asking.begun);
        asking.failures.into_iter().try_for_each(|failure| step.fail(failure))?;
        Ok(step)
    }
}
